//! Every code a run can fail with: a flow that does, and the words it fails with (`corpus/flows/failing`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrollback_agent::provider::{Catalog, ModelSettings};
use scrollback_flow::driver::RunStatus;
use scrollback_flow::error::RunErrorKind;

use crate::support::Bench;

/// Codes of what happens to runs from outside; other tests have their words.
const FROM_OUTSIDE: [&str; 2] = ["store_error", "busy"];

#[tokio::test]
async fn every_failure_says_what_it_is_and_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/flows/failing");
    let small = ModelSettings { context_window: Some(1100), ..ModelSettings::default() };
    let catalog = Arc::new(Catalog::new([("offline:echo".to_string(), small)].into(), BTreeMap::new()));
    for code in
        RunErrorKind::ALL.map(RunErrorKind::as_str).into_iter().filter(|code| !FROM_OUTSIDE.contains(code))
    {
        let mut bench = Bench::echo();
        let known = Arc::clone(&catalog);
        bench.engine.providers = Arc::new(move |name, folder| known.provider_in(name, folder));
        bench.engine.catalog = Arc::clone(&catalog);
        bench.folder = PathBuf::from(&folder);
        let flow = std::fs::read_to_string(folder.join(format!("{code}.yaml"))).unwrap();
        let report = bench.run(&flow, "go").await;
        let error = report.error.unwrap_or_else(|| panic!("{code}: {:?}", report.status));
        assert_eq!((report.status, error.code.as_str()), (RunStatus::Failed, code), "{error}");
        let said = format!("{}: {}\n{}\n", error.step.unwrap_or_default(), error.message, error.detail);
        let golden = folder.join(format!("{code}.txt"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&golden, &said).unwrap();
        }
        assert_eq!(said, std::fs::read_to_string(&golden).unwrap_or_default(), "{code}");
    }
}
