//! Every row of the tables of wrappers has a fixture: a message as its client sends it, with the same words of a person in it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::Path;

use scrollback_core::identity::{FRAMES, PREAMBLES, WRAPPERS, identity, title_of};
use scrollback_core::{Entry, Role};

#[test]
fn every_wrapper_has_a_fixture_and_leaves_the_words_of_the_person() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wrappers");
    let said = Entry::text(Role::User, "Fix the parser");
    let mut known = BTreeSet::new();
    let tags = WRAPPERS.iter().chain(&FRAMES).map(|one| (one.client, one.tag, format!("<{}>", one.tag)));
    let preambles = PREAMBLES.iter().map(|one| (one.client, one.name, one.from.to_string()));
    for (client, name, begins) in tags.chain(preambles) {
        let path = corpus.join(client).join(format!("{}.txt", name.replace(' ', "-")));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| unreachable!("{}: {error}", path.display()));
        assert!(text.contains(&begins), "{}", path.display());
        let message = Entry::text(Role::User, &text);
        assert_eq!(
            title_of(std::slice::from_ref(&message)).as_deref(),
            Some("Fix the parser"),
            "{}",
            path.display()
        );
        assert_eq!(identity(&message), identity(&said), "{}", path.display());
        known.insert(path);
    }
    for client in std::fs::read_dir(&corpus).unwrap() {
        for file in std::fs::read_dir(client.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            assert!(known.contains(&path), "no row of the table: {}", path.display());
        }
    }
}
