//! The short form of `./dev fuzz flow_read` and its siblings: the same bodies over mutated seeds.

use crate::bodies;

/// The same numbers on every machine (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }
}

/// What a slip of the hand or a clever enemy puts into a flow.
const TOKENS: [&str; 24] = [
    "\n",
    "  ",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a",
    "*a",
    "!!str ",
    "!x ",
    "null",
    "true",
    "|",
    ">",
    "\"",
    "'",
    "#",
    "{{",
    "}}",
    "steps:",
    "conversation: true",
    "\t",
];

#[test]
fn mutated_flows_are_read_or_refused() {
    let folders = ["corpus/flows/good", "corpus/flows/broken", "corpus/flows/warned", "examples/flows"];
    let files = folders.iter().flat_map(|folder| crate::files(&crate::repository(folder)));
    let seeds: Vec<Vec<char>> =
        files.map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).chars().collect()).collect();
    let mut numbers = Numbers(33);
    for _ in 0..1500 {
        let mut text = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(text.len() + 1);
            let end = at + numbers.below((text.len() - at).min(20) + 1);
            let put: Vec<char> = match numbers.below(3) {
                0 => Vec::new(),
                1 => TOKENS[numbers.below(TOKENS.len())].chars().collect(),
                _ => {
                    let other = &seeds[numbers.below(seeds.len())];
                    let from = numbers.below(other.len() + 1);
                    other[from..(from + numbers.below(60)).min(other.len())].to_vec()
                }
            };
            drop(text.splice(at..end, put));
        }
        bodies::flow(text.into_iter().collect::<String>().as_bytes());
    }
}

#[test]
fn expressions_and_templates_of_flows_as_each_other() {
    for file in crate::files(&crate::repository("examples/flows")) {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let said = line.split_once(": ").map_or(line, |(_, said)| said).trim_matches('"');
            bodies::expression(said.as_bytes());
            bodies::template(said.as_bytes());
        }
    }
}
