//! An opened store, and conversations in it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::prelude::*;
use scrollback::core::recall::RecallTool;
use scrollback::{
    Conversation, Decision, Error, Handle, SearchHit, SearchOptions, ViewOptions, place_json, wire_named,
};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use crate::error::{exception, raised};
use crate::waiting::wait;

/// Threads of one store: enough that a long view does not keep the others waiting.
const THREADS: usize = 4;

/// What an open store is made of, shared by its conversations.
struct OpenStore {
    /// The process that opened it.
    process: u32,
    closed: AtomicBool,
    runtime: Option<Runtime>,
    store: RwLock<Option<scrollback::Store>>,
}

impl OpenStore {
    /// Refuses a store that was closed, or that belongs to the process before a `fork`.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            let message = "this store was opened before fork(): open it again in the child process, or start workers with the \
                           \"spawn\" method";
            return Err(exception(py, "fork", "opened_before_fork", message, ""));
        }
        if self.closed.load(Ordering::Relaxed) {
            let message = "this store was closed: open it again";
            return Err(exception(py, "closed", "closed", message, ""));
        }
        Ok(())
    }

    fn store(&self, py: Python<'_>) -> PyResult<scrollback::Store> {
        self.check(py)?;
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or_else(|| exception(py, "closed", "closed", "this store was closed: open it again", ""))
    }

    /// Does work on the store's runtime and waits for it without Python's lock.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> PyResult<T> {
        self.check(py)?;
        let Some(runtime) = &self.runtime else {
            return Err(exception(py, "closed", "closed", "this store was closed: open it again", ""));
        };
        let (done, answer) = sync_channel(1);
        runtime.spawn(async move {
            // Gone if the caller was interrupted.
            let _ = done.send(work.await);
        });
        wait(py, answer)?.map_err(|error| raised(py, &error))
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            if let Some(runtime) = self.runtime.take() {
                runtime.shutdown_background();
            }
            return;
        }
        // The threads of both live in the parent process, and so do the locks on the file: nothing may be given back here.
        std::mem::forget(self.runtime.take());
        let store = self.store.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(store.take());
    }
}

/// A view to send: its body, its wire, the place it ends before, entries shown and recorded, tokens, and whether these are exact.
type SentView = (String, &'static str, u64, (usize, usize), usize, bool);

/// An open store.
#[pyclass(frozen, module = "scrollback._core")]
pub(crate) struct Store {
    opened: Arc<OpenStore>,
}

/// A conversation of an open store.
#[pyclass(frozen, module = "scrollback._core")]
pub(crate) struct Chat {
    opened: Arc<OpenStore>,
    chat: Arc<Mutex<Conversation>>,
}

#[pymethods]
impl Store {
    #[new]
    fn new(py: Python<'_>, url: String, tenant: Option<String>) -> PyResult<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("scrollback")
            .enable_all()
            .build()
            .map_err(|error| exception(py, "store", "open_failed", &error.to_string(), ""))?;
        let mut opened = OpenStore {
            process: std::process::id(),
            closed: AtomicBool::new(false),
            runtime: Some(runtime),
            store: RwLock::new(None),
        };
        let store = opened.run(py, async move {
            let store = scrollback::Store::open(&url).await?;
            match tenant {
                Some(tenant) => store.tenant(&tenant),
                None => Ok(store),
            }
        })?;
        opened.store = RwLock::new(Some(store));
        Ok(Store { opened: Arc::new(opened) })
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.opened.store(py)?.inner().describe())
    }

    fn close(&self) {
        self.opened.closed.store(true, Ordering::Relaxed);
        if self.opened.process == std::process::id() {
            self.opened.store.write().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    fn conversation(&self, py: Python<'_>, name: String) -> PyResult<Chat> {
        let store = self.opened.store(py)?;
        let chat = self.opened.run(py, async move { store.conversation(&name).await })?;
        Ok(Chat { opened: Arc::clone(&self.opened), chat: Arc::new(Mutex::new(chat)) })
    }

    fn search(&self, py: Python<'_>, wanted: String, limit: usize) -> PyResult<String> {
        let store = self.opened.store(py)?;
        self.opened.run(py, async move { Ok(hits_json(&store.find(&search_options(&wanted, limit)).await?)) })
    }

    fn erase(&self, py: Python<'_>, recipient: String, reason: String) -> PyResult<String> {
        let store = self.opened.store(py)?;
        self.opened.run(py, async move { Ok(json!(store.erase(&recipient, &reason).await?).to_string()) })
    }

    fn read(&self, py: Python<'_>, handle: String) -> PyResult<String> {
        let store = self.opened.store(py)?;
        self.opened.run(py, async move {
            let (id, places) = store.read(&Handle::parse(&handle)?).await?;
            let places: Vec<Value> = places.iter().map(place_json).collect();
            Ok(json!({ "conversation": id.as_str(), "entries": places }).to_string())
        })
    }

    fn list(&self, py: Python<'_>, limit: usize) -> PyResult<String> {
        let store = self.opened.store(py)?;
        self.opened.run(py, async move {
            let page = store.list(limit).await?;
            let rows = page.conversations.iter().map(|(row, entries)| {
                json!({
                    "id": row.id.as_str(),
                    "recipient": row.recipient.as_ref().map(ToString::to_string),
                    "title": row.title,
                    "status": row.status().name(),
                    "updated_at": row.updated_at.to_string(),
                    "turns": row.turns,
                    "entries": entries,
                })
            });
            Ok(Value::Array(rows.collect()).to_string())
        })
    }
}

type Working<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;

impl Chat {
    /// Does work on the conversation; others who use the same object wait.
    fn run<T, F>(&self, py: Python<'_>, work: F) -> PyResult<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Conversation) -> Working<'c, T> + Send + 'static,
    {
        let chat = Arc::clone(&self.chat);
        self.opened.run(py, async move {
            let mut chat = chat.lock().await;
            work(&mut chat).await
        })
    }
}

#[pymethods]
impl Chat {
    fn append(&self, py: Python<'_>, messages: String, wire: Option<String>) -> PyResult<(u64, u64)> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let wire = wire.as_deref().map(wire_named).transpose()?;
                chat.append_messages(&messages, wire).await
            })
        })
    }

    fn follow(
        &self,
        py: Python<'_>,
        messages: String,
        wire: Option<String>,
    ) -> PyResult<(Vec<u64>, usize, bool)> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let wire = wire.as_deref().map(wire_named).transpose()?;
                let done = chat.follow(&messages, wire).await?;
                Ok((done.positions, done.appended, done.branched))
            })
        })
    }

    fn send(
        &self,
        py: Python<'_>,
        manager: String,
        wire: Option<String>,
        model: Option<String>,
        request: Option<String>,
    ) -> PyResult<SentView> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let wanted = wanted(manager, wire, model, request)?;
                let sent = chat.send(&wanted).await?;
                Ok((sent.body, sent.wire.name(), sent.upto, sent.entries, sent.tokens, sent.exact))
            })
        })
    }

    fn explain(
        &self,
        py: Python<'_>,
        manager: String,
        wire: Option<String>,
        model: Option<String>,
        request: Option<String>,
        upto: u64,
    ) -> PyResult<String> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let wanted = wanted(manager, wire, model, request)?;
                Ok(chat.explain(&wanted, upto).await?.to_string())
            })
        })
    }

    /// The id, or none before the first append; the number of places, of messages, and the chain's last link.
    fn facts(&self, py: Python<'_>) -> PyResult<(Option<String>, u64, usize)> {
        self.run(py, move |chat| {
            Box::pin(async move {
                chat.refresh().await?;
                let id = chat.id().ok().map(|id| id.as_str().to_string());
                Ok((id, chat.record().len() as u64, chat.record().message_count()))
            })
        })
    }

    fn entries(&self, py: Python<'_>, first: u64, last: u64) -> PyResult<String> {
        self.run(py, move |chat| {
            Box::pin(async move {
                chat.refresh().await?;
                let places = chat.places(first, last).await?;
                Ok(Value::Array(places.iter().map(place_json).collect()).to_string())
            })
        })
    }

    fn search(&self, py: Python<'_>, wanted: String, limit: usize) -> PyResult<String> {
        self.run(py, move |chat| {
            Box::pin(async move { Ok(hits_json(&chat.find(&search_options(&wanted, limit)).await?)) })
        })
    }

    /// What a recall tool answers, and whether it refused.
    fn recall(&self, py: Python<'_>, tool: String, arguments: String) -> PyResult<(String, bool)> {
        let Some(tool) = RecallTool::named(&tool).or_else(|| RecallTool::called(&tool)) else {
            let known = RecallTool::ALL.map(RecallTool::name).join(", ");
            let message = format!("unknown recall tool {tool:?}; known: {known}");
            return Err(exception(py, "argument", "bad_argument", &message, ""));
        };
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        self.run(py, move |chat| {
            Box::pin(async move {
                let reply = chat.recall(tool, &arguments).await?;
                Ok((reply.text, reply.failed))
            })
        })
    }

    fn erase(
        &self,
        py: Python<'_>,
        positions: Option<(u64, u64)>,
        reason: String,
    ) -> PyResult<(u64, u64, u64)> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let done = chat.erase(positions, &reason).await?;
                Ok((done.erased, done.sent, done.forks))
            })
        })
    }

    fn compact(&self, py: Python<'_>, keep: usize) -> PyResult<Option<String>> {
        self.run(py, move |chat| Box::pin(async move { chat.compact(keep).await }))
    }

    fn summary(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.run(py, move |chat| Box::pin(async move { chat.summary().await }))
    }

    fn pin(&self, py: Python<'_>, positions: Vec<u64>, pinned: bool) -> PyResult<()> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let decision =
                    if pinned { Decision::Pin { positions } } else { Decision::Unpin { positions } };
                chat.decide(vec![decision]).await
            })
        })
    }

    fn status(&self, py: Python<'_>) -> PyResult<(&'static str, bool)> {
        self.run(py, move |chat| {
            Box::pin(async move {
                let (status, due) = chat.status().await?;
                Ok((status.name(), due))
            })
        })
    }

    fn set_status(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.run(py, move |chat| Box::pin(async move { chat.set_status(&name).await }))
    }
}

fn wanted(
    manager: String,
    wire: Option<String>,
    model: Option<String>,
    request: Option<String>,
) -> Result<ViewOptions, Error> {
    let wire = wire.as_deref().map(wire_named).transpose()?;
    Ok(ViewOptions { manager, wire, model, request })
}

/// The options of a search, as the package writes them.
fn search_options(wanted: &str, limit: usize) -> SearchOptions {
    let wanted: Value = serde_json::from_str(wanted).unwrap_or_default();
    let text = |name: &str| wanted.get(name).and_then(Value::as_str).map(String::from);
    SearchOptions {
        words: text("words").unwrap_or_default(),
        recipient: text("recipient"),
        role: text("role"),
        tool: text("tool"),
        since: text("since"),
        before: text("before"),
        scope: text("scope"),
        limit,
    }
}

fn hits_json(hits: &[SearchHit]) -> String {
    let hits = hits.iter().map(|hit| {
        json!({
            "recipient": hit.recipient,
            "conversation": hit.conversation.as_str(),
            "position": hit.position,
            "role": hit.role.as_str(),
            "created_at": hit.created_at.to_string(),
            "snippet": hit.snippet,
        })
    });
    Value::Array(hits.collect()).to_string()
}
