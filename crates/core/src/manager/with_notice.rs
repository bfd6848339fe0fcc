use serde_json::Value;

use super::{Ask, HistoryManager, SharedManager};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::View;

/// Another manager, whose cuts leave a line that says what was left out, or leave none.
#[derive(Clone)]
pub struct WithNotice {
    /// The manager that cuts.
    pub inner: SharedManager,
    /// Whether its cuts leave a line.
    pub notice: bool,
}

impl HistoryManager for WithNotice {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let before = view.wish_notice(Some(self.notice));
        let mut view = self.inner.curate(view, cx)?;
        view.wish_notice(before);
        Ok(view)
    }

    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        self.inner.budget(cx)
    }

    fn closest<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> View<'r> {
        let before = view.wish_notice(Some(self.notice));
        let mut view = self.inner.closest(view, cx);
        view.wish_notice(before);
        view
    }

    fn plan(&self, view: &View<'_>, cx: &CurationContext) -> Vec<Ask> {
        self.inner.plan(view, cx)
    }

    fn config(&self) -> Value {
        let mut config = self.inner.config();
        let options = config.as_object_mut().and_then(|config| config.get_mut(self.name()));
        if let Some(options) = options.and_then(Value::as_object_mut) {
            options.insert("notice".into(), self.notice.into());
        }
        config
    }
}
