//! Replies: what came is written down, whatever ends it.

use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::StopSignal;
use scrollback_agent::config::{ServerLimits, ServerSettings};
use scrollback_core::{Slot, Status};
use scrollback_server::{App, bind, serve};
use scrollback_store::{Listing, Memory, Store, Tenant};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::provider::{Then, catalog, events, saying};
use crate::support::redactor;

#[tokio::test]
async fn a_stream_that_outlives_the_server_leaves_what_came() {
    let (base, _) = saying(|_| events(&["all that ", "came"], Then::Wait)).await;
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let limits = ServerLimits { shutdown: Duration::from_millis(100), ..ServerLimits::default() };
    let settings = ServerSettings { limits, ..ServerSettings::default() };
    let listening = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listening.address;
    let app = App::new(Arc::clone(&store), settings, catalog(&base), redactor(), address);
    let stop = StopSignal::default();
    let stopping = stop.clone();
    let serving = tokio::spawn(async move { serve(app, listening, stopping).await });
    let body =
        json!({ "model": "gpt-4o", "stream": true, "messages": [{ "role": "user", "content": "go" }] })
            .to_string();
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(body.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    while !String::from_utf8_lossy(&came).contains("came") {
        assert_ne!(client.read_buf(&mut came).await.unwrap(), 0);
    }
    stop.stop();
    serving.await.unwrap().unwrap();
    let tenant = Tenant::default();
    let page = store.list(Some(&tenant), Listing { limit: 10, ..Listing::default() }).await.unwrap();
    let id = page.conversations[0].0.id.clone();
    let record = store.record(&tenant, &id, None).await.unwrap();
    let Some(Slot::Message(reply)) = record.slots().get(1) else { panic!("no reply: {:?}", record.slots()) };
    assert_eq!(reply.content().as_deref(), Some("all that came"));
    assert_eq!(reply.status(), Status::TruncatedUpstream);
    let calls = store.sent(&tenant, &id).await.unwrap();
    assert_eq!(calls.iter().map(|call| call.status.to_string()).collect::<Vec<_>>(), ["truncated_upstream"]);
}
