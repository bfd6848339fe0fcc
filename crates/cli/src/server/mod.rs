//! `scrollback serve` and `scrollback key`.

pub(crate) mod args;
pub(crate) mod busy_port;
pub(crate) mod key;
pub(crate) mod mcp;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;

use anstyle::{Reset, Style};
use scrollback_agent::StopSignal;
use scrollback_agent::config::{DEFAULT_PORT, ServerSettings, listen_address};
use scrollback_core::redact::Redactor;
use scrollback_server::runs::FlowRuns;
use scrollback_server::{App, bind, serve};
use serde_json::json;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{FAILED, Failure, USAGE};
use crate::store::{Intent, Setup, private};
use crate::{input, telemetry};
use args::{LogFormat, ServeArgs};

pub(crate) fn run(args: &ServeArgs, json: bool) -> Result<(), Failure> {
    let setup = Setup::new(&args.store)?;
    let settings = setup.config.server()?;
    let address = address(args, &settings)?;
    let redactor = || {
        Redactor::new(&setup.config.redaction())
            .map_err(|error| Failure::new(USAGE, "bad_config", format!("[redact]: {error}")))
    };
    let (shown, resumed) = (redactor()?, redactor()?);
    log(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime", &error))?;
    runtime.block_on(async {
        let store = setup.open(Intent::Write).await?;
        private::check(&setup.url)?;
        if !address.ip().is_loopback() && !store.keys().await?.iter().any(|key| key.revoked_at.is_none()) {
            let message = format!(
                "{address} can be reached from other machines, and there is no key: make one with `scrollback key add NAME`, \
                 or listen on 127.0.0.1"
            );
            return Err(Failure::new(USAGE, "no_keys", message));
        }
        if !args.allow_superuser
            && !store.keys().await?.is_empty()
            && let Some(why) = store.missing_wall().await?
        {
            let message = format!("{why}: use a role of its own for the server, or accept that with --allow-superuser");
            return Err(Failure::new(USAGE, "superuser", message));
        }
        let kept = store.describe();
        let listening = bind(address).await.map_err(|error| busy_port::cannot_listen(address, &error))?;
        let catalog = setup.config.catalog();
        let stop = StopSignal::default();
        let telemetry = telemetry::start(&setup.config)?;
        let models = setup.config.catalog();
        let flows =
            Arc::new(FlowRuns::new(Arc::clone(&store), models, resumed, telemetry.clone(), stop.clone()));
        let app = App::new(store, settings, catalog, shown, listening.address);
        app.continue_runs_with(Arc::clone(&flows) as _);
        app.send_spans_to(telemetry.clone());
        if args.allow_superuser {
            app.serve_without_walls();
        }
        stop_on_signal(&stop)?;
        announce(&app, &kept, json)?;
        let served = serve(app, listening, stop).await;
        flows.end().await;
        telemetry::end(&telemetry).await;
        served.map_err(|error| Failure::io("threads to serve connections", &error))
    })
}

fn address(args: &ServeArgs, settings: &ServerSettings) -> Result<SocketAddr, Failure> {
    match &args.listen {
        Some(text) => listen_address(text).map_err(|message| Failure::new(USAGE, "usage", message)),
        None => Ok(settings.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)))),
    }
}

/// The addresses, for the person who started it.
fn announce(app: &App, kept: &str, json: bool) -> Result<(), Failure> {
    let base = format!("http://{}", app.address);
    let asked = app.answerers();
    if json {
        let told = json!({
            "lens": format!("{base}/"),
            "openai_base_url": format!("{base}/v1"),
            "anthropic_base_url": base,
            "gemini_base_url": base,
            "store": kept,
            "listen": app.address.to_string(),
            "answered_by": { "openai": asked.openai, "anthropic": asked.anthropic, "gemini": asked.gemini },
        });
        return input::print(&format!("{told}\n"));
    }
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    input::print_styled(&format!(
        "{bold}lens{Reset}       {base}/\n\
         {bold}OpenAI{Reset}     OPENAI_BASE_URL={base}/v1  {dim}answered by {}{Reset}\n\
         {bold}Anthropic{Reset}  ANTHROPIC_BASE_URL={base}  {dim}answered by {}{Reset}\n\
         {bold}Gemini{Reset}     GOOGLE_GEMINI_BASE_URL={base}  {dim}answered by {}{Reset}\n\
         {bold}record{Reset}     {kept}\n",
        asked.openai, asked.anthropic, asked.gemini
    ))
}

/// Asks the server to stop on Ctrl-C or when the system wants it; the second time at once.
fn stop_on_signal(stop: &StopSignal) -> Result<(), Failure> {
    #[cfg(unix)]
    let mut ended = signal(SignalKind::terminate()).map_err(|error| Failure::io("signals", &error))?;
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            #[cfg(unix)]
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = ended.recv() => {}
            }
            #[cfg(not(unix))]
            let _ = tokio::signal::ctrl_c().await;
            if stop.is_asked() {
                std::process::exit(i32::from(FAILED));
            }
            input::note("stopping when open requests have ended; press Ctrl-C again to stop now");
            stop.stop();
        }
    });
    Ok(())
}

fn log(format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
        }
    }
}
