//! The elements of one JSON list, read from bytes that arrive in any chunks.
//!
//! Brackets, commas and white space between the elements are passed over; an object that comes without a list around it is an
//! element too. Whether an element is JSON is for its reader to say.

use super::sse::UnreadableEvent;

/// Cuts a list into its elements, which are objects. The same bytes give the same elements, however they are cut into chunks.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    max_bytes: usize,
    /// The element that has not ended yet.
    element: Vec<u8>,
    /// Whether that element is past the limit, and therefore no longer kept.
    too_large: bool,
    /// Objects and lists that are open in it; none between elements.
    depth: usize,
    quoted: Quoted,
}

/// Where in a string literal the last byte was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoted {
    No,
    Yes,
    /// After a backslash.
    Escaped,
}

impl Elements {
    /// A reader that reports elements longer than `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        Elements { max_bytes, element: Vec::new(), too_large: false, depth: 0, quoted: Quoted::No }
    }

    /// Reads on, giving every element that has ended to `found`.
    pub(super) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Result<&str, UnreadableEvent>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.depth == 0 {
                let Some(start) = memchr::memchr(b'{', rest) else { return };
                rest = rest.get(start..).unwrap_or_default();
            }
            let Some(last) = rest.iter().position(|byte| self.ends(*byte)) else {
                return self.keep(rest);
            };
            let (inside, after) = rest.split_at_checked(last + 1).unwrap_or((rest, &[]));
            self.keep(inside);
            self.give(&mut found);
            rest = after;
        }
    }

    /// Reads a byte of an element; whether it is the last one.
    fn ends(&mut self, byte: u8) -> bool {
        match (self.quoted, byte) {
            (Quoted::Yes, b'\\') => self.quoted = Quoted::Escaped,
            (Quoted::Yes, b'"') => self.quoted = Quoted::No,
            (Quoted::Escaped, _) | (Quoted::No, b'"') => self.quoted = Quoted::Yes,
            (Quoted::No, b'{' | b'[') => self.depth += 1,
            (Quoted::No, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.element.len() + piece.len() > self.max_bytes {
            self.too_large = true;
            self.element = Vec::new();
        }
        if !self.too_large {
            self.element.extend_from_slice(piece);
        }
    }

    fn give(&mut self, found: &mut impl FnMut(Result<&str, UnreadableEvent>)) {
        if std::mem::take(&mut self.too_large) {
            found(Err(UnreadableEvent::TooLarge));
        } else {
            found(std::str::from_utf8(&self.element).map_err(|_| UnreadableEvent::NotUtf8));
        }
        self.element.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(chunks: &[&[u8]], max: usize) -> Vec<Result<String, UnreadableEvent>> {
        let mut found = Vec::new();
        let mut elements = Elements::new(max);
        for chunk in chunks {
            elements.feed(chunk, |element| found.push(element.map(str::to_string)));
        }
        found
    }

    #[test]
    fn a_list_gives_its_elements_wherever_it_is_cut() {
        let list = br#" [{"a":"}]\\\"{"} ,
            {"b":[{"c":1},[2]]},{}]  "#;
        let whole = [r#"{"a":"}]\\\"{"}"#, r#"{"b":[{"c":1},[2]]}"#, "{}"].map(|text| Ok(text.to_string()));
        for cut in 0..=list.len() {
            let (before, after) = list.split_at(cut);
            assert_eq!(elements(&[before, after], 1000), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = list.chunks(1).collect();
        assert_eq!(elements(&bytes, 1000), whole);
    }

    #[test]
    fn half_an_element_is_none_and_a_bare_object_is_one() {
        assert_eq!(elements(&[br#"[{"a":1},{"b":"#], 1000), [Ok(r#"{"a":1}"#.to_string())]);
        assert_eq!(elements(&[br#"{"error":{}}"#], 1000), [Ok(r#"{"error":{}}"#.to_string())]);
        assert_eq!(elements(&[b"[]", b"null", b""], 1000), []);
    }

    #[test]
    fn what_is_too_large_or_no_text_is_reported_once() {
        let found = elements(&[br#"[{"a":"xxxxxxxxxxxx"},{"b":1}]"#], 10);
        assert_eq!(found, [Err(UnreadableEvent::TooLarge), Ok(r#"{"b":1}"#.to_string())]);
        assert_eq!(elements(&[b"[{\"\xff\":1}]"], 100), [Err(UnreadableEvent::NotUtf8)]);
    }
}
