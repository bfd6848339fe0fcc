//! Threads that serve connections, each those it was given.
//!
//! A request stays on the thread of its connection from its first byte to its last, and so does the connection to its
//! provider. Most of what the proxy does takes microseconds; handing it to whichever thread is free would take longer than
//! doing it.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::connection_limits::OccupiedSlot;

/// What the names of the threads that serve connections begin with.
pub(crate) const NAME: &str = "scrollback-serving-";

/// An accepted connection.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    /// Its places among all connections and among those of its address, until it ends.
    pub(crate) places: (OwnedSemaphorePermit, OccupiedSlot<IpAddr>),
}

/// All of them. When this is dropped they end, with whatever is left of their work.
pub(crate) struct Workers(Vec<Worker>);

struct Worker {
    /// None once no more connections are given.
    given: Option<mpsc::UnboundedSender<(Accepted, Arc<()>)>>,
    /// Held by every connection it serves.
    serving: Arc<()>,
    /// Told when no more are given and the last one has ended.
    drained: oneshot::Receiver<()>,
    /// Dropped when it may end: others use what lives on its thread, such as connections to the store.
    _stay: oneshot::Sender<()>,
}

impl Workers {
    /// Starts one for every core.
    pub(crate) fn start(connection: &http1::Builder, service: &Router) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let start = |number| Worker::start(number, connection.clone(), service.clone());
        (0..count).map(start).collect::<io::Result<_>>().map(Workers)
    }

    /// Gives a connection to the worker that has the fewest.
    pub(crate) fn serve(&self, accepted: Accepted) {
        let fewest = self.0.iter().min_by_key(|worker| Arc::strong_count(&worker.serving));
        if let Some(Worker { given: Some(given), serving, .. }) = fewest {
            let _ = given.send((accepted, Arc::clone(serving)));
        }
    }

    /// Lets all connections end: at once where nothing was asked, else after the reply.
    pub(crate) async fn drain(&mut self) {
        for worker in &mut self.0 {
            worker.given = None;
        }
        for worker in &mut self.0 {
            let _ = (&mut worker.drained).await;
        }
    }
}

impl Worker {
    fn start(number: usize, connection: http1::Builder, service: Router) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (given, mut taken) = mpsc::unbounded_channel::<(Accepted, Arc<()>)>();
        let (tell, drained) = oneshot::channel();
        let (stay, may_end) = oneshot::channel::<()>();
        let work = async move {
            let graceful = GracefulShutdown::new();
            while let Some((Accepted { stream, places }, serving)) = taken.recv().await {
                let stream = match tokio::net::TcpStream::from_std(stream) {
                    Ok(stream) => TokioIo::new(stream),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be served");
                        continue;
                    }
                };
                let service = TowerToHyperService::new(service.clone());
                let served = graceful.watch(connection.serve_connection(stream, service));
                tokio::spawn(async move {
                    let _until_it_ends = (places, serving);
                    if let Err(error) = served.await {
                        tracing::debug!(%error, "a connection ended");
                    }
                });
            }
            graceful.shutdown().await;
            let _ = tell.send(());
            let _ = may_end.await;
        };
        thread::Builder::new().name(format!("{NAME}{number}")).spawn(move || {
            runtime.block_on(work);
            runtime.shutdown_background();
        })?;
        Ok(Worker { given: Some(given), serving: Arc::default(), drained, _stay: stay })
    }
}
