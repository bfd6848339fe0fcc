//! Markdown as markup.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::super::text::said;
use super::code::{Language, code};

/// Longest text that is read as markdown; a longer one is shown as it is, since no one reads its layout.
const LONGEST: usize = 64 * 1024;
/// How deep lists and quotations may lie in each other; what is deeper stands at this depth.
const DEEPEST: usize = 12;

/// A text as its markdown means it. HTML in it is shown as text, pictures are named and not fetched.
pub(crate) fn markdown(text: &str) -> Markup {
    if text.len() > LONGEST {
        return maud::html! { div.plain { (said(text)) } };
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    PreEscaped(writer.out)
}

/// The markup so far, and what is open in it.
#[derive(Default)]
struct Writer {
    out: String,
    /// For every open tag, whether it was written: beyond [`DEEPEST`] only texts are.
    open: Vec<bool>,
    /// The language of the code block that is being read, and its text so far.
    block: Option<(Language, String)>,
    /// Where the link that is being read leads, if it must not be followed: its address is shown as text.
    refused_link: Option<String>,
    /// Where the link that is being read leads otherwise, and where its words begin in what was written.
    link: Option<(String, usize)>,
    columns: Vec<Alignment>,
    column: usize,
    /// Whether cells are those of the head of a table.
    in_head: bool,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.block {
                Some((_, block)) => block.push_str(&text),
                None => self.say(&text),
            },
            Event::Code(text) => self.around("<code>", &text, "</code>"),
            Event::Html(text) | Event::InlineHtml(text) => self.say(&text),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.say(&text);
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.out.push_str(&said(text).0);
    }

    fn around(&mut self, open: &str, text: &str, close: &str) {
        self.out.push_str(open);
        self.say(text);
        self.out.push_str(close);
    }

    fn start(&mut self, tag: Tag<'_>) {
        let shown = self.open.len() < DEEPEST;
        self.open.push(shown);
        match tag {
            Tag::CodeBlock(kind) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => {
                        Language::named(info.split_whitespace().next().unwrap_or_default())
                    }
                    CodeBlockKind::Indented => Language::Plain,
                };
                self.block = Some((language, String::new()));
            }
            Tag::Link { dest_url, .. } => {
                if is_followed(&dest_url) {
                    self.around("<a rel=\"noopener noreferrer nofollow\" href=\"", &dest_url, "\">");
                    self.link = Some((host(&dest_url).to_string(), self.out.len()));
                } else {
                    self.refused_link = Some(dest_url.into_string());
                }
            }
            Tag::Image { dest_url, .. } => {
                self.around("<span class=\"chip\">image, not fetched</span> <code>", &dest_url, "</code> ");
            }
            Tag::Table(columns) if shown => {
                self.columns = columns;
                self.out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>");
            }
            Tag::TableHead if shown => {
                (self.in_head, self.column) = (true, 0);
                self.out.push_str("<thead><tr>");
            }
            Tag::TableRow if shown => {
                self.column = 0;
                self.out.push_str("<tr>");
            }
            Tag::TableCell if shown => {
                let right = matches!(self.columns.get(self.column), Some(Alignment::Right));
                self.column += 1;
                self.out.push_str(match (self.in_head, right) {
                    (true, false) => "<th scope=\"col\">",
                    (true, true) => "<th scope=\"col\" class=\"n\">",
                    (false, false) => "<td>",
                    (false, true) => "<td class=\"n\">",
                });
            }
            Tag::List(Some(first)) if shown => {
                use std::fmt::Write;
                let _ = write!(self.out, "<ol start=\"{first}\">");
            }
            other if shown => self.out.push_str(simple(other.to_end()).0),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        let shown = self.open.pop().unwrap_or(false);
        match tag {
            TagEnd::CodeBlock => {
                if let Some((language, text)) = self.block.take() {
                    self.out.push_str(&code(language, &text).0);
                }
            }
            TagEnd::Link => {
                if let Some(address) = self.refused_link.take() {
                    self.around(" <code>", &address, "</code>");
                } else {
                    self.out.push_str("</a>");
                    // Words may name one place and lead to another, so the place is named.
                    if let Some((host, from)) = self.link.take()
                        && !self.out.get(from..).unwrap_or_default().contains(&said(&host).0)
                    {
                        self.around(" <span class=\"soft small\">(", &host, ")</span>");
                    }
                }
            }
            TagEnd::Table if shown => self.out.push_str("</tbody></table></div>"),
            TagEnd::TableHead if shown => {
                self.in_head = false;
                self.out.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableRow if shown => self.out.push_str("</tr>"),
            TagEnd::TableCell if shown => {
                self.out.push_str(if self.in_head { "</th>" } else { "</td>" });
            }
            other if shown => self.out.push_str(simple(other).1),
            _ => {}
        }
    }
}

/// The tags of what needs nothing but tags. A heading is no heading of the page: it would break the outline that screen readers
/// walk through.
fn simple(tag: TagEnd) -> (&'static str, &'static str) {
    match tag {
        TagEnd::Paragraph => ("<p>", "</p>"),
        TagEnd::Heading(level) => match level as usize {
            1 => ("<p class=\"h h1\">", "</p>"),
            2 => ("<p class=\"h h2\">", "</p>"),
            _ => ("<p class=\"h\">", "</p>"),
        },
        TagEnd::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
        TagEnd::List(false) => ("<ul>", "</ul>"),
        TagEnd::List(true) => ("<ol>", "</ol>"),
        TagEnd::Item => ("<li>", "</li>"),
        TagEnd::Emphasis => ("<em>", "</em>"),
        TagEnd::Strong => ("<strong>", "</strong>"),
        TagEnd::Strikethrough => ("<del>", "</del>"),
        _ => ("", ""),
    }
}

/// Whether an address is one that a person may follow from here: another site or a mail, nothing that runs.
fn is_followed(address: &str) -> bool {
    let lower = address.trim_start().get(..8).unwrap_or(address.trim_start()).to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

/// The host of an address, or the address of a mail.
fn host(address: &str) -> &str {
    let rest = address
        .split_once("://")
        .map_or_else(|| address.split_once(':').map_or(address, |(_, rest)| rest), |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or(rest);
    if address.contains("://") { authority.rsplit('@').next().unwrap_or(authority) } else { authority }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_markup() {
        let shown = markdown("# A\n\n*one* `two`\n\n- x\n- y\n\n|a|b|\n|-|-:|\n|1|2|\n").0;
        for part in [
            "<p class=\"h h1\">A</p>",
            "<em>one</em> <code>two</code>",
            "<ul><li>x</li><li>y</li></ul>",
            "<th scope=\"col\">a</th><th scope=\"col\" class=\"n\">b</th>",
            "<td>1</td><td class=\"n\">2</td></tr></tbody></table>",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn nothing_of_a_text_becomes_a_tag_an_attribute_or_something_that_runs() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x]( JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "[x](https://a\"onmouseover=\"alert(1))",
            "![x](https://a.example/pixel.png)",
            "```\"><script>alert(1)</script>\nx\n```",
            "| <b onclick=x> |\n|-|\n| <i> |",
        ] {
            let shown = markdown(text).0;
            let lower = shown.to_ascii_lowercase();
            for bad in [
                "<script",
                "<img",
                "<b ",
                "<i>",
                "href=\"javascript",
                "href=\" javascript",
                "href=\"data",
                "\"onmouseover",
            ] {
                assert!(!lower.contains(bad), "{text:?} became {shown}");
            }
        }
        assert!(markdown("[bank.example](https://user@evil.example/a)").0.contains("(evil.example)"));
        assert!(!markdown("<https://a.example/b>").0.contains("(a.example)"), "its words are the address");
        assert!(
            markdown("[x](https://a.example/?q=1&r=2)").0.contains("href=\"https://a.example/?q=1&amp;r=2\"")
        );
    }

    #[test]
    fn every_tag_that_opens_closes_however_deep_it_lies() {
        let deep = format!("{}text", "> ".repeat(300));
        for text in [
            deep.as_str(),
            "- a\n  - b\n    - c",
            "1. a\n\n   > b\n   > - c",
            "~~a **b *c*** d~~",
            "|a|\n|-|",
        ] {
            let shown = markdown(text).0;
            for tag in [
                "p",
                "ul",
                "ol",
                "li",
                "blockquote",
                "em",
                "strong",
                "del",
                "table",
                "thead",
                "tbody",
                "tr",
                "td",
            ] {
                let open =
                    shown.matches(&format!("<{tag}>")).count() + shown.matches(&format!("<{tag} ")).count();
                assert_eq!(open, shown.matches(&format!("</{tag}>")).count(), "{tag} in {shown}");
            }
            assert!(shown.matches("<blockquote>").count() <= DEEPEST);
        }
        assert!(markdown(&"*".repeat(100_000)).0.starts_with("<div class=\"plain\">"));
    }
}
