//! What a new user sees: lines to paste, and a conversation to look at.

use maud::{Markup, html};

use super::text::said;
use super::viewer::Viewer;

/// What a new user sees: lines to paste, and a conversation to look at.
pub(crate) fn welcome(viewer: &Viewer) -> Markup {
    let base = format!("http://{}", viewer.app.address);
    let codex = format!(
        "[model_providers.scrollback]\nname = \"Scrollback\"\nbase_url = \"{base}/v1\"\nwire_api = \"responses\"\n\n[profiles.scrollback]\nmodel_provider = \"scrollback\""
    );
    let clients = [
        (
            "OpenAI SDKs",
            format!("export OPENAI_BASE_URL={base}/v1"),
            "Python, TypeScript, and whatever speaks their API",
        ),
        (
            "Anthropic SDKs, Claude Code",
            format!("export ANTHROPIC_BASE_URL={base}"),
            "then start your program, or claude",
        ),
        ("Codex", codex, "in ~/.codex/config.toml, then codex --profile scrollback"),
        (
            "Anything else",
            format!(
                "curl {base}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{{\"model\":\"gpt-4o\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'"
            ),
            "without a provider's key an echo answers, and the whole chain works",
        ),
    ];
    html! {
        div data-fresh="list" {
            div.head { h1 { "Nothing was said yet" } }
            p { "Point a client at this server. Everything it says is kept, each call is sent what it needs, and you see here what that was." }
            div.grid2 { @for (name, lines, note) in clients {
                section.card { h2 { (name) } div.in { pre.paste tabindex="0" { (said(&lines)) } p.soft.small { (note) } } }
            } }
            section.card { h2 { "Or look first" } div.in {
                p { "A conversation of our own: a support agent looks things up with tools for a while, until its history no longer fits and is cut." }
                form method="post" action="/lens/sample" { button.first { "Load the sample conversation" } }
            } }
            p.soft { "Transcripts of other tools can be " a href="/lens/import" { "imported" } "." }
        }
    }
}
