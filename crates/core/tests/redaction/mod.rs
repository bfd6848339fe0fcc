//! What redaction finds and what it leaves alone, measured on a generated corpus.

mod harmless;
mod random;
mod secrets;

use random::Random;
use scrollback_core::redact::{Options, Redactor};
use secrets::{KINDS, Sample, Sign, wrappings};

const SEED: u64 = 0x5c01_1bac;

/// Texts of each kind, and of each sort of harmless text.
const PER_KIND: usize = 200;
const PER_SORT: usize = 1000;

fn redactor() -> Redactor {
    Redactor::new(&Options::default()).unwrap_or_else(|error| unreachable!("{error}"))
}

/// How many secrets there were, how many were hidden, and how many redactions hid something else.
#[derive(Clone, Copy, Default)]
struct Tally {
    secrets: usize,
    hidden: usize,
    beside: usize,
}

impl Tally {
    fn add(&mut self, redactor: &Redactor, sample: &Sample) {
        let shown = redactor.text(&sample.text);
        let hidden = sample.is_hidden_in(&shown.text);
        self.secrets += 1;
        self.hidden += usize::from(hidden);
        self.beside += shown.spans.len() - usize::from(hidden);
    }

    fn join(self, other: Tally) -> Tally {
        Tally {
            secrets: self.secrets + other.secrets,
            hidden: self.hidden + other.hidden,
            beside: self.beside + other.beside,
        }
    }

    fn recall(self) -> f64 {
        self.hidden as f64 / self.secrets as f64
    }
}

#[test]
fn secrets_are_hidden_and_little_else() {
    let redactor = redactor();
    let mut random = Random(SEED);
    let (mut prefixed, mut prefixed_wrapped, mut named) =
        (Tally::default(), Tally::default(), Tally::default());
    println!("{:16} {:>8} {:>8} {:>8}", "kind", "plain", "wrapped", "beside");
    for (kind, sign, make) in KINDS {
        let (mut plain, mut wrapped) = (Tally::default(), Tally::default());
        for _ in 0..PER_KIND {
            let sample = make(&mut random);
            plain.add(&redactor, &sample);
            for (_, wrap) in wrappings(kind, *sign) {
                wrapped.add(&redactor, &wrap(&sample));
            }
        }
        let (of_plain, of_wrapped) = (100.0 * plain.recall(), 100.0 * wrapped.recall());
        println!("{kind:16} {of_plain:7.1}% {of_wrapped:7.1}% {:8}", plain.beside + wrapped.beside);
        if *sign == Sign::Prefix {
            (prefixed, prefixed_wrapped) = (prefixed.join(plain), prefixed_wrapped.join(wrapped));
        } else {
            named = named.join(plain).join(wrapped);
        }
    }

    println!("\n{:16} {:>8} {:>8}", "harmless", "texts", "redacted");
    let mut harmed = 0;
    for (sort, make) in harmless::SORTS {
        let spans: usize = (0..PER_SORT).map(|_| redactor.text(&make(&mut random)).spans.len()).sum();
        println!("{sort:16} {PER_SORT:8} {spans:8}");
        harmed += spans;
    }

    let all = prefixed.join(prefixed_wrapped).join(named);
    let precision = all.hidden as f64 / (all.hidden + all.beside + harmed) as f64;
    println!(
        "\nrecall: prefixed {:.2}% plain, {:.2}% wrapped; named {:.2}%; precision {:.2}% over {} secrets",
        100.0 * prefixed.recall(),
        100.0 * prefixed_wrapped.recall(),
        100.0 * named.recall(),
        100.0 * precision,
        all.secrets
    );
    assert!(prefixed.recall() >= 0.99, "prefixed secrets, plain: {}", prefixed.recall());
    assert!(prefixed_wrapped.recall() >= 0.97, "prefixed secrets, wrapped: {}", prefixed_wrapped.recall());
    assert!(named.recall() >= 0.85, "secrets known by a name: {}", named.recall());
    assert!(precision >= 0.95, "precision: {precision}");
}

/// Everything on, and the sort of configuration that invites trouble.
fn everything() -> Redactor {
    let strings = |values: &[&str]| values.iter().map(ToString::to_string).collect();
    let options = Options {
        email: true,
        phone: true,
        card: true,
        patterns: strings(&["\\bEMP", "(?i)redacted", "[0-9]{6}", "x\\b"]),
        configured: strings(&["correcthorse", "token", "-key", "redacted:"]),
    };
    Redactor::new(&options).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Secrets, harmless texts, and pieces of both cut and glued anywhere.
fn torn(random: &mut Random) -> String {
    let glue = [
        "",
        "",
        " ",
        "\"",
        "\\\"",
        "=",
        ":",
        ": ",
        "@",
        "\n",
        "\\n",
        "[",
        "]",
        "[redacted:openai]",
        "token=",
        "password: ",
        "Bearer ",
        "EMP",
        "correcthorse",
        "+4915550104477",
        "4111 1111 1111 1111",
        "é",
        "sk-",
        "://a:",
    ];
    let mut text = String::new();
    for _ in 0..random.between(1, 5) {
        let piece = if random.below(2) == 0 {
            let (kind, sign, make) = KINDS[random.below(KINDS.len())];
            let sample = make(random);
            let wrappings = wrappings(kind, sign);
            if random.below(2) == 0 { sample } else { (wrappings[random.below(wrappings.len())].1)(&sample) }
                .text
        } else {
            harmless::SORTS[random.below(harmless::SORTS.len())].1(random)
        };
        let (from, to) = (random.below(piece.len()), random.below(piece.len()) + 1);
        text.push_str(if random.below(2) == 0 { &piece } else { piece.get(from..to).unwrap_or(&piece) });
        text.push_str(random.pick(&glue));
    }
    text
}

#[test]
fn a_redacted_text_redacts_to_itself() {
    for (name, redactor) in [("default", redactor()), ("everything", everything())] {
        let mut random = Random(SEED);
        for place in 0..20_000 {
            let text = torn(&mut random);
            let once = redactor.text(&text).text.into_owned();
            let twice = redactor.text(&once);
            assert!(
                twice.spans.is_empty(),
                "{name} {place}: {text:?}\nonce  {once:?}\ntwice {:?}",
                twice.text
            );
        }
    }
}

#[test]
fn spans_say_exactly_what_was_replaced() {
    let redactor = everything();
    let mut random = Random(SEED ^ 1);
    for place in 0..5_000 {
        let text = torn(&mut random);
        let redacted = redactor.text(&text);
        let (mut rebuilt, mut shown) = (String::new(), 0);
        for span in &redacted.spans {
            assert!(shown <= span.start && span.start < span.end, "{place}: {:?}", redacted.spans);
            rebuilt += &text[shown..span.start];
            rebuilt.extend(["[redacted:", span.kind.name(), "]"]);
            shown = span.end;
        }
        rebuilt += &text[shown..];
        assert_eq!(rebuilt, redacted.text, "{place}");
        assert_eq!(redacted.counts().values().sum::<usize>(), redacted.spans.len());
        assert_eq!(redactor.text(&text), redacted, "{place}");
    }
}

/// A rule that reads on from every keyword would need hours for these; no clock is needed to notice.
#[test]
fn texts_made_of_nothing_but_keywords_come_to_an_end() {
    let pieces = [
        "a",
        "sk-",
        "sk-ant-",
        "eyJ",
        "eyJaaaaaaaa.",
        "password=",
        "password:",
        "password=\"",
        "token=a.",
        "://",
        "a://b:",
        "Bearer ",
        "Basic YTpi",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----END ",
        "[redacted:",
        "[redacted:aws]",
        "@",
        "a@a.",
        "1",
        "+1 ",
        "4111 ",
        "\\",
        "'password\\\\':\"",
        "secret_access_key ",
    ];
    let redactor = everything();
    for piece in pieces {
        let text = piece.repeat(1_000_000 / piece.len());
        let once = redactor.text(&text).text.into_owned();
        assert_eq!(redactor.text(&once).text, once, "{piece:?} repeated");
    }
}
