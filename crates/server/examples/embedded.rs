//! The server inside a program of your own: a store, an address, and the router on it.
//!
//! `cargo run -p scrollback-server --example embedded -- 127.0.0.1:8790 sqlite:scrollback.db`

use std::collections::BTreeMap;
use std::error::Error;

use scrollback_agent::config::ServerSettings;
use scrollback_agent::provider::Catalog;
use scrollback_agent::{Clock, StopSignal, SystemClock};
use scrollback_core::redact::{Options, Redactor};
use scrollback_server::{App, bind, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8790".into());
    let url = arguments.next().unwrap_or_else(|| "sqlite::memory:".into());

    let store = scrollback_store::open(&url, SystemClock.now()).await?;
    let listening = bind(address.parse()?).await?;
    let catalog = Catalog::new(BTreeMap::new(), BTreeMap::new());
    let redactor = Redactor::new(&Options::default())?;
    let app = App::new(store, ServerSettings::default(), catalog, redactor, listening.address);

    println!("http://{}/lens", listening.address);
    Ok(serve(app, listening, StopSignal::default()).await?)
}
