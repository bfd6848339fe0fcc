//! `scrollback key`: the API keys of the server.

use std::fmt::Write;

use anstyle::{Reset, Style};
use scrollback_core::Time;
use scrollback_server::{KeyScope, LAST_USE, keys};
use scrollback_store::{Key, KeyLimits, Store};
use serde_json::json;

use super::args::{AddArgs, KeyAction, KeyArgs, ScopeArg};
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;
use crate::store::{Intent, Setup, block_on, now, short, time_width};

pub(crate) fn run(args: &KeyArgs, json: bool) -> Result<(), Failure> {
    let setup = Setup::new(&args.store)?;
    match &args.action {
        KeyAction::Add(add) => block_on(make(&setup, add, json)),
        KeyAction::List => block_on(list(&setup, json)),
        KeyAction::Rotate { name } => block_on(rotate(&setup, name, json)),
        KeyAction::Revoke { name } => block_on(revoke(&setup, name, json)),
    }
}

async fn make(setup: &Setup, args: &AddArgs, json: bool) -> Result<(), Failure> {
    let scope = match args.scope {
        ScopeArg::Proxy => KeyScope::Proxy,
        ScopeArg::Read => KeyScope::Read,
        ScopeArg::Admin => KeyScope::Admin,
    };
    if args.usd_per_day.is_some_and(|dollars| !dollars.is_finite() || dollars <= 0.0) {
        return Err(Failure::new(USAGE, "usage", "--usd-per-day must be above 0"));
    }
    let (mut key, shown) = keys::new(&args.name, &setup.tenant(), scope, now())
        .map_err(|error| Failure::new(USAGE, "usage", error.to_string()))?;
    key.limits = KeyLimits {
        requests_per_minute: args.rpm,
        tokens_per_minute: args.tpm,
        microdollars_per_day: args.usd_per_day.map(|dollars| (dollars * 1e6).round() as u64),
    };
    let store = setup.open(Intent::Write).await?;
    if store.keys().await?.iter().any(|other| other.name == key.name && other.revoked_at.is_none()) {
        let message = format!("a key called {:?} exists: revoke it first, or choose another name", key.name);
        return Err(Failure::new(FAILED, "exists", message));
    }
    let told = json!({ "name": key.name, "tenant": key.tenant.as_str(), "scope": key.scope, "key": shown });
    store.put_key(key).await?;
    if json {
        return input::print(&format!("{told}\n"));
    }
    input::note("the key is shown once; everyone who has it can use it");
    input::print(&format!("{shown}\n"))
}

/// A second key beside the one of that name: both are valid until the first is revoked.
async fn rotate(setup: &Setup, name: &str, json: bool) -> Result<(), Failure> {
    let store = setup.open(Intent::Write).await?;
    let all = store.keys().await?;
    let mine = |key: &&Key| setup.named_tenant().is_none_or(|tenant| key.tenant == *tenant);
    let Some(old) = all.iter().filter(mine).find(|key| key.name == name) else {
        return Err(Failure::new(FAILED, "not_found", format!("there is no key called {name:?}")));
    };
    if old.revoked_at.is_some() {
        let message = format!("the key {name:?} is revoked: make a new one with `scrollback key add`");
        return Err(Failure::new(FAILED, "revoked", message));
    }
    let scope = KeyScope::named(&old.scope).unwrap_or(KeyScope::Proxy);
    let (mut key, shown) = keys::new(&keys::successor(name, &all), &old.tenant, scope, now())
        .map_err(|error| Failure::new(USAGE, "usage", error.to_string()))?;
    key.limits = old.limits;
    let told = json!({
        "name": key.name, "tenant": key.tenant.as_str(), "scope": key.scope, "key": shown, "replaces": name,
    });
    let made = key.name.clone();
    store.put_key(key).await?;
    if json {
        return input::print(&format!("{told}\n"));
    }
    input::note(&format!(
        "{made} and {name} are both valid; when nothing uses the old one: scrollback key revoke {name}"
    ));
    input::print(&format!("{shown}\n"))
}

/// When each key was used last, as servers on the store noted it within the minute.
async fn last_uses(store: &dyn Store, all: &[Key]) -> Result<Vec<Option<Time>>, Failure> {
    let mut uses = store.key_uses().await?;
    uses.retain(|used| used.window == LAST_USE);
    let last = |key: &Key| uses.iter().find(|used| used.key == key.name).map(|used| used.began);
    Ok(all.iter().map(last).collect())
}

/// What a key may be used for, in words.
fn limits(key: &Key) -> String {
    let KeyLimits { requests_per_minute, tokens_per_minute, microdollars_per_day } = key.limits;
    let told = [
        requests_per_minute.map(|most| format!("{most} requests/min")),
        tokens_per_minute.map(|most| format!("{most} tokens/min")),
        microdollars_per_day.map(|most| format!("${:.2}/day", most as f64 / 1e6)),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    if told.is_empty() { "none".into() } else { told.join(", ") }
}

async fn list(setup: &Setup, json: bool) -> Result<(), Failure> {
    let store = setup.open(Intent::Look).await?;
    let mut all = store.keys().await?;
    if let Some(tenant) = setup.named_tenant() {
        all.retain(|key| key.tenant == *tenant);
    }
    let used = last_uses(store.as_ref(), &all).await?;
    if json {
        let told: Vec<_> = all.iter().zip(&used).map(|(key, used)| told(key, *used)).collect();
        return input::print(&format!("{}\n", json!({ "keys": told })));
    }
    if all.is_empty() {
        return input::print("no keys\n");
    }
    let (dim, when) = (Style::new().dimmed(), time_width());
    let mut out = format!(
        "{dim}{:24}  {:16}  {:6}  {:when$}  {:when$}  {:20}  state{Reset}\n",
        "name", "tenant", "scope", "made", "last used", "limits"
    );
    for (key, used) in all.iter().zip(&used) {
        let state = key.revoked_at.map_or_else(|| "valid".into(), |at| format!("revoked {}", short(at)));
        let (name, tenant, limits) = (&key.name, key.tenant.as_str(), limits(key));
        let used = used.map_or_else(|| "never".into(), short);
        let made = short(key.created_at);
        let _ = writeln!(
            out,
            "{name:24}  {tenant:16}  {:6}  {made:when$}  {used:when$}  {limits:20}  {state}",
            key.scope
        );
    }
    input::print_styled(&out)
}

fn told(key: &Key, used: Option<Time>) -> serde_json::Value {
    json!({
        "name": key.name,
        "tenant": key.tenant.as_str(),
        "scope": key.scope,
        "created_at": key.created_at.to_string(),
        "revoked_at": key.revoked_at.map(|at| at.to_string()),
        "last_used_at": used.map(|at| at.to_string()),
        "rpm": key.limits.requests_per_minute,
        "tpm": key.limits.tokens_per_minute,
        "usd_per_day": key.limits.microdollars_per_day.map(|amount| amount as f64 / 1e6),
    })
}

async fn revoke(setup: &Setup, name: &str, json: bool) -> Result<(), Failure> {
    let store = setup.open(Intent::Write).await?;
    let found = store.keys().await?.into_iter().find(|key| key.name == name);
    let found = found.filter(|key| setup.named_tenant().is_none_or(|tenant| key.tenant == *tenant));
    let Some(mut key) = found else {
        return Err(Failure::new(FAILED, "not_found", format!("there is no key called {name:?}")));
    };
    key.revoked_at.get_or_insert_with(now);
    store.put_key(key.clone()).await?;
    if json {
        input::print(&format!("{}\n", told(&key, None)))
    } else {
        input::print(&format!("revoked {name}\n"))
    }
}
