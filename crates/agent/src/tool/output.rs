//! Output within its limit.

/// Bytes as text, those that are none replaced; of more than `max` bytes the middle is left out, and the text says so.
pub fn shorten(bytes: &[u8], total: usize, max: usize) -> String {
    if total <= max {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let half = max / 2;
    let head = bytes.get(..half.min(bytes.len())).unwrap_or_default();
    let tail = bytes.get(bytes.len().saturating_sub(half)..).unwrap_or_default();
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    format!("{head}\n[... {} bytes left out ...]\n{tail}", total - 2 * half)
}

/// What is kept of output that may be endless: its beginning and its end.
pub(super) struct OutputEnds {
    max: usize,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    total: usize,
}

impl OutputEnds {
    pub(super) fn new(max: usize) -> Self {
        OutputEnds { max, head: Vec::new(), tail: std::collections::VecDeque::new(), total: 0 }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        let room = self.max.saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let half = self.max / 2;
        if self.tail.len() > half {
            self.tail.drain(..self.tail.len() - half);
        }
    }

    pub(super) fn into_text(self) -> String {
        if self.total <= self.max {
            return shorten(&self.head, self.total, self.max);
        }
        // Where the tail is short, the end of the head belongs to it.
        let half = self.max / 2;
        let mut all = self.head;
        all.extend(self.tail);
        let tail_start = all.len().saturating_sub(half);
        let mut kept: Vec<u8> = all.get(..half).unwrap_or_default().to_vec();
        kept.extend_from_slice(all.get(tail_start..).unwrap_or_default());
        shorten(&kept, self.total, self.max)
    }

    /// The last characters of it.
    pub(super) fn end(&self, chars: usize) -> String {
        let mut all = self.head.clone();
        all.extend(&self.tail);
        let text = String::from_utf8_lossy(&all);
        let skipped = text.chars().count().saturating_sub(chars);
        text.chars().skip(skipped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_loses_its_middle_and_says_how_much() {
        let mut kept = OutputEnds::new(10);
        for piece in [&b"abcdefgh"[..], b"ijklmnop", b"qrstuvwxyz"] {
            kept.take(piece);
        }
        assert_eq!(kept.end(3), "xyz");
        assert_eq!(kept.into_text(), "abcde\n[... 16 bytes left out ...]\nvwxyz");
        let mut kept = OutputEnds::new(10);
        kept.take(b"abcdefghijkl");
        assert_eq!(kept.into_text(), "abcde\n[... 2 bytes left out ...]\nhijkl");
        let mut kept = OutputEnds::new(10);
        kept.take(b"\xff ok");
        assert_eq!(kept.into_text(), "\u{fffd} ok");
    }
}
