//! `scrollback verify`: whether the store says what was written.

use std::fmt::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Reset};
use scrollback_store::{
    Conversation, ErrorKind, IntegrityProblem, Listing, ProblemKind, Store, StoreError, Tenant, Verified,
    Which, hex, unhex,
};
use serde_json::json;

use super::args::VerifyArgs;
use super::{Intent, Setup, block_on, conversation_named, conversations_with, recipient_named};
use crate::amounts::counted;
use crate::failure::{Failure, INVALID, USAGE};
use crate::input;

/// Conversations read at once.
const PAGE: usize = 500;

pub(crate) fn run(args: &VerifyArgs, json: bool) -> Result<ExitCode, Failure> {
    let recipient = args.recipient.as_deref().map(recipient_named).transpose()?;
    let conversation = args.conversation.as_deref().map(conversation_named).transpose()?;
    let expected =
        match args.expect.as_deref() {
            None => None,
            Some(text) => Some(unhex(text).ok_or_else(|| {
                Failure::new(USAGE, "usage", "--expect takes a link of 64 hexadecimal digits")
            })?),
        };
    if expected.is_some() && recipient.is_none() && conversation.is_none() {
        let message = "--expect is about one conversation; name it with --recipient or --conversation";
        return Err(Failure::new(USAGE, "usage", message));
    }
    let setup = Setup::new(&args.store)?;
    block_on(async {
        let store =
            setup.open(if args.reindex && setup.exists() { Intent::Write } else { Intent::Look }).await?;
        let mut total = Total::default();
        let wanted = match (&recipient, &conversation) {
            (Some(recipient), _) => {
                Some(conversations_with(store.as_ref(), &setup.tenant(), recipient).await?)
            }
            (_, Some(id)) => Some(vec![store.conversation(&setup.tenant(), id).await?]),
            _ => None,
        };
        if let Some(link) = expected
            && let Some(one) = wanted.as_deref().and_then(<[_]>::first)
            && one.head_link != link
        {
            let detail = format!("the last entry has the link {}, another was expected", hex(&one.head_link));
            total.problem(one, ProblemKind::HeadMismatch, detail);
        }
        if let Some(some) = wanted {
            for one in some {
                total.check(store.as_ref(), &one, args.reindex).await?;
            }
        } else {
            total.check_all(store.as_ref(), setup.named_tenant(), args.reindex).await?;
            match setup.named_tenant() {
                _ if args.quick => {}
                None => total.examine(store.as_ref()).await?,
                Some(_) => total.notes.push(ONE_TENANT.into()),
            }
        }
        total.print(json, args.reindex)
    })
}

/// What a check of one tenant leaves out.
const ONE_TENANT: &str = "only this tenant's conversations were read: pages, indexes, keys and what belongs to no conversation are checked \
                          by `scrollback verify` without --tenant";

#[derive(Default)]
pub(crate) struct Total {
    conversations: u64,
    found: Verified,
    /// What cannot be said of one conversation.
    unreadable: Vec<(ProblemKind, String)>,
    /// What could not be examined.
    notes: Vec<String>,
}

impl Total {
    fn problem(&mut self, conversation: &Conversation, problem: ProblemKind, detail: String) {
        let conversation = conversation.id.clone();
        self.found.problems.push(IntegrityProblem { conversation, position: None, problem, detail });
    }

    /// All conversations, of one tenant or of all.
    pub(crate) async fn check_all(
        &mut self,
        store: &dyn Store,
        tenant: Option<&Tenant>,
        reindex: bool,
    ) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let listing = Listing { which: Which::All, limit: PAGE, after, ..Listing::default() };
            let page = match store.list(tenant, listing).await {
                Err(error) if is_damage(&error) => {
                    self.unreadable.push((ProblemKind::BodyChanged, error.to_string()));
                    return Ok(());
                }
                other => other?,
            };
            for (conversation, _) in &page.conversations {
                self.check(store, conversation, reindex).await?;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Every page, index and row of the store.
    pub(crate) async fn examine(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let found = store.examine().await?;
        self.unreadable.extend(found.problems);
        self.notes = found.notes;
        Ok(())
    }

    async fn check(&mut self, store: &dyn Store, one: &Conversation, reindex: bool) -> Result<(), Failure> {
        self.conversations += 1;
        if reindex {
            match store.reindex(&one.tenant, &one.id).await {
                Ok(rows) => self.found.reindexed += rows,
                // What cannot be read cannot be rebuilt; the check below says what it is.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match store.verify(&one.tenant, &one.id).await {
            Ok(found) => {
                self.found.entries += found.entries;
                self.found.erased += found.erased;
                self.found.problems.extend(found.problems);
            }
            Err(error) if is_damage(&error) => self.problem(one, ProblemKind::BodyChanged, error.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(crate) fn print(&self, json: bool, reindex: bool) -> Result<ExitCode, Failure> {
        let found = &self.found;
        let ok = found.problems.is_empty() && self.unreadable.is_empty();
        if json {
            let of_one = found.problems.iter().map(|problem| {
                json!({
                    "conversation": problem.conversation.as_str(), "position": problem.position,
                    "problem": problem.problem.name(), "detail": problem.detail,
                })
            });
            let of_all = self.unreadable.iter().map(|(problem, detail)| {
                json!({ "conversation": null, "position": null, "problem": problem.name(), "detail": detail })
            });
            let problems: Vec<_> = of_one.chain(of_all).collect();
            let mut object = json!({
                "ok": ok, "conversations": self.conversations, "entries": found.entries, "erased": found.erased,
                "problems": problems,
            });
            if let (false, Some(members)) = (self.notes.is_empty(), object.as_object_mut()) {
                members.insert("notes".into(), self.notes.clone().into());
            }
            if let (true, Some(members)) = (reindex, object.as_object_mut()) {
                members.insert("reindexed".into(), found.reindexed.into());
            }
            input::print(&format!("{object}\n"))?;
        } else {
            input::print_styled(&self.text(ok, reindex))?;
        }
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
    }

    fn text(&self, ok: bool, reindex: bool) -> String {
        let red = AnsiColor::Red.on_default().bold();
        let mut out = String::new();
        for problem in &self.found.problems {
            let place = problem.position.map_or_else(String::new, |at| format!(" at {at}"));
            let (id, name) = (&problem.conversation, problem.problem.name());
            let _ = writeln!(out, "{red}{name}{Reset} in {id}{place}: {}", problem.detail);
        }
        for (problem, detail) in &self.unreadable {
            let _ = writeln!(out, "{red}{}{Reset}: {detail}", problem.name());
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        let (conversations, entries, erased) = (self.conversations, self.found.entries, self.found.erased);
        let verdict = if ok { "no damage" } else { "DAMAGED" };
        let _ = writeln!(
            out,
            "{}, {} ({erased} erased): {verdict}",
            counted(conversations, "conversation"),
            counted(entries, "entry")
        );
        if reindex {
            let _ = writeln!(out, "{} of derived tables rewritten", counted(self.found.reindexed, "row"));
        }
        out
    }
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::ForeignFile)
}
