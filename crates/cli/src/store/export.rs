//! `scrollback export`: conversations as files of any format.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use scrollback_core::Record;
use scrollback_core::wire::{Lost, Wire};
use scrollback_store::transfer::{WIRES, finetune, langchain, lines, sharegpt, whole_body, with_parents};
use scrollback_store::{ConversationId, Listing, Store, Tenant, Which};
use serde_json::{Value, json};

use super::args::ExportArgs;
use super::{Intent, Setup, block_on, conversation_named, conversations_with, recipient_named};
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

/// Conversations read at once.
const PAGE: usize = 200;

/// What can be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExportTarget {
    Own,
    Body(Wire),
    Finetune,
    Langchain,
    Sharegpt,
    Strands,
    Sqlite,
}

fn target_named(name: &str) -> Result<ExportTarget, Failure> {
    let others = [
        ("scrollback", ExportTarget::Own),
        ("openai-finetune", ExportTarget::Finetune),
        ("langchain", ExportTarget::Langchain),
        ("sharegpt", ExportTarget::Sharegpt),
        ("strands", ExportTarget::Strands),
        ("sqlite", ExportTarget::Sqlite),
    ];
    let bodies = WIRES.map(|wire| (wire.name(), ExportTarget::Body(wire)));
    let all: Vec<(&str, ExportTarget)> = others.into_iter().chain(bodies).collect();
    let found = all.iter().find(|(known, _)| *known == name).map(|(_, target)| *target);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let message = format!("cannot export as {name:?} (known: {})", known.join(", "));
        Failure::new(USAGE, "unknown_format", message).with("known", known)
    })
}

pub(crate) fn run(args: &ExportArgs, json: bool) -> Result<(), Failure> {
    let target = target_named(&args.format)?;
    let recipient = args.recipient.as_deref().map(recipient_named).transpose()?;
    let conversation = args.conversation.as_deref().map(conversation_named).transpose()?;
    if target != ExportTarget::Sqlite && recipient.is_none() && conversation.is_none() && !args.all {
        let message = "say what to export: --recipient, --conversation or --all";
        return Err(Failure::new(USAGE, "usage", message));
    }
    if matches!(target, ExportTarget::Sqlite | ExportTarget::Strands) && args.to.is_none() {
        let message = format!("--format {} needs --to", args.format);
        return Err(Failure::new(USAGE, "usage", message));
    }
    let setup = Setup::new(&args.store)?;
    block_on(async {
        let store = setup.open(Intent::Look).await?;
        if let (ExportTarget::Sqlite, Some(to)) = (target, &args.to) {
            store.backup(to).await?;
            return input::print(&if json {
                format!("{}\n", json!({ "ok": true, "to": to.display().to_string(), "format": args.format }))
            } else {
                format!("{}\n", to.display())
            });
        }
        let wanted = match (recipient, conversation) {
            (Some(recipient), _) => {
                let all = conversations_with(store.as_ref(), &setup.tenant(), &recipient).await?;
                let mut all: Vec<_> = all.into_iter().map(|one| (one.tenant, one.id)).collect();
                // The oldest first, so that forks come after what they were forked from.
                all.sort_by(|a, b| a.1.cmp(&b.1));
                all
            }
            (_, Some(id)) => vec![(setup.tenant(), store.conversation(&setup.tenant(), &id).await?.id)],
            _ => everything(store.as_ref(), setup.named_tenant()).await?,
        };
        let mut out = ExportOutput::to(args.to.as_deref(), target)?;
        let mut written = BTreeSet::new();
        let conversations = wanted.len();
        for (tenant, id) in wanted {
            match target {
                ExportTarget::Own => own(store.as_ref(), &tenant, &id, &mut written, &mut out).await?,
                _ => other(store.as_ref(), &tenant, &id, target, args, &mut out).await?,
            }
        }
        out.finish()?;
        match &args.to {
            // What was written is in the file; standard output says so.
            Some(to) if json => {
                let told = json!({
                    "ok": true, "to": to.display().to_string(), "format": args.format, "conversations": conversations,
                });
                input::print(&format!("{told}\n"))
            }
            _ => Ok(()),
        }
    })
}

async fn everything(
    store: &dyn Store,
    tenant: Option<&Tenant>,
) -> Result<Vec<(Tenant, ConversationId)>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let listing = Listing { which: Which::All, limit: PAGE, after, ..Listing::default() };
        let page = store.list(tenant, listing).await?;
        all.extend(page.conversations.into_iter().map(|(one, _)| (one.tenant, one.id)));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // The oldest first, as they began; so forks come after what they were forked from.
    all.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(all)
}

/// A conversation in our own form, after those it was forked from.
async fn own(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    written: &mut BTreeSet<ConversationId>,
    out: &mut ExportOutput,
) -> Result<(), Failure> {
    for id in with_parents(store, tenant, id, written).await? {
        for line in lines(store, tenant, &id).await? {
            out.line(&line)?;
        }
    }
    Ok(())
}

async fn other(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    target: ExportTarget,
    args: &ExportArgs,
    out: &mut ExportOutput,
) -> Result<(), Failure> {
    let record = store.record(tenant, id, None).await?;
    match target {
        ExportTarget::Body(wire) => out.line(&body(&record, wire)),
        ExportTarget::Finetune => out.line(&training_example(&record, args.repair)?),
        ExportTarget::Langchain => out.line(&langchain(&record).to_string()),
        ExportTarget::Sharegpt => out.line(&texts(&record)),
        ExportTarget::Strands => strands(&record, id, args.to.as_deref().unwrap_or(Path::new("."))),
        ExportTarget::Own | ExportTarget::Sqlite => Ok(()),
    }
}

/// Everything said as one body of a wire; what it cannot hold is told.
fn body(record: &Record, wire: Wire) -> String {
    let (body, lost) = whole_body(record, wire);
    tell_lost(wire, &lost);
    body
}

fn tell_lost(wire: Wire, lost: &[Lost]) {
    for lost in lost {
        let place = lost.position.map_or_else(String::new, |at| format!(" at {at}"));
        input::note(&format!("not in {wire}: {}{place} ({})", lost.what, lost.reason));
    }
}

/// A training example; a list that the provider would refuse is refused here.
fn training_example(record: &Record, repairs: bool) -> Result<String, Failure> {
    let (line, lost) = finetune(record, repairs).map_err(|refused| {
        Failure::new(FAILED, "invalid_list", format!("{}; --repair fixes it", refused.message))
    })?;
    tell_lost(Wire::OpenaiChat, &lost);
    Ok(line)
}

/// Texts only; calls and results have no place in it, and are told.
fn texts(record: &Record) -> String {
    let (turns, lost) = sharegpt(record);
    if lost > 0 {
        input::note(&format!("not in sharegpt: {lost} tool calls and results"));
    }
    turns.to_string()
}

/// A session folder of Strands.
fn strands(record: &Record, id: &ConversationId, to: &Path) -> Result<(), Failure> {
    let folder = to.join(format!("session_{id}"));
    let messages = folder.join("agents").join("agent_default").join("messages");
    let io = |path: &Path, error: &std::io::Error| Failure::io(&path.display().to_string(), error);
    std::fs::create_dir_all(&messages).map_err(|error| io(&messages, &error))?;
    let write = |path: &Path, value: &Value| {
        std::fs::write(path, format!("{value}\n")).map_err(|error| io(path, &error))
    };
    write(&folder.join("session.json"), &json!({ "session_id": id.as_str(), "session_type": "AGENT" }))?;
    write(&folder.join("agents/agent_default/agent.json"), &json!({ "agent_id": "default", "state": {} }))?;
    let printed = body(record, Wire::Bedrock);
    let list: Value = serde_json::from_str(&printed).unwrap_or_default();
    for (number, message) in list["messages"].as_array().into_iter().flatten().enumerate() {
        let path = messages.join(format!("message_{number}.json"));
        write(&path, &json!({ "message_id": number, "message": message, "redact_message": null }))?;
    }
    Ok(())
}

/// Where lines go.
enum ExportOutput {
    Standard,
    File(std::io::BufWriter<std::fs::File>, String),
    /// The format writes files of its own.
    None,
}

impl ExportOutput {
    fn to(path: Option<&Path>, target: ExportTarget) -> Result<Self, Failure> {
        match path {
            _ if target == ExportTarget::Strands => Ok(ExportOutput::None),
            None => Ok(ExportOutput::Standard),
            Some(path) => {
                let name = path.display().to_string();
                let file = std::fs::File::create(path).map_err(|error| Failure::io(&name, &error))?;
                Ok(ExportOutput::File(std::io::BufWriter::new(file), name))
            }
        }
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        match self {
            ExportOutput::Standard => input::print(&format!("{line}\n")),
            ExportOutput::File(file, name) => {
                writeln!(file, "{line}").map_err(|error| Failure::io(name, &error))
            }
            ExportOutput::None => Ok(()),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            ExportOutput::File(mut file, name) => file
                .flush()
                .and_then(|()| file.get_ref().sync_all())
                .map_err(|error| Failure::io(&name, &error)),
            ExportOutput::Standard | ExportOutput::None => Ok(()),
        }
    }
}
