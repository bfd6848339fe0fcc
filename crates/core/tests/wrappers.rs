//! Every wrapper of the table has a fixture: a message as its client sends it, with the same words of a person in it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::Path;

use scrollback_core::identity::{WRAPPERS, identity, title_of};
use scrollback_core::{Entry, Role};

#[test]
fn every_wrapper_has_a_fixture_and_leaves_the_words_of_the_person() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wrappers");
    let said = Entry::text(Role::User, "Fix the parser");
    let mut known = BTreeSet::new();
    for wrapper in WRAPPERS {
        let path = corpus.join(wrapper.client).join(format!("{}.txt", wrapper.tag.replace(' ', "-")));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| unreachable!("{}: {error}", path.display()));
        assert!(text.contains(&format!("<{}>", wrapper.tag)), "{}", path.display());
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
