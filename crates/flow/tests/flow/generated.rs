//! Random flows: any nesting of steps, loops, people, branches and items, the same for the same seed.

use std::fmt::Write as _;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A flow of that seed; it always ends.
pub(crate) fn flow(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(977) + 5);
    let mut names = 0;
    let mut text = String::from(
        "version: \"1\"\nagents:\n  default: { system_prompt: Be brief. }\n  plain: { mode: prompt }\nsteps:\n",
    );
    // There is always a conversation with a person in it.
    steps(&mut dice, &mut names, &mut text, 2, 2, false);
    let _ = writeln!(
        text,
        "  - kind: loop\n    name: talk\n    loop:\n      conversation: true\n      max_loops: 2\n      history_management: {{ strategy: summarize, max_turns: 3 }}\n      body:"
    );
    steps(&mut dice, &mut names, &mut text, 8, 1, true);
    let _ = writeln!(text, "        - {{ kind: hitl, name: person, message: \"{{{{ previous }}}}?\" }}");
    text
}

fn steps(dice: &mut Dice, names: &mut u64, text: &mut String, indent: usize, depth: u64, inside: bool) {
    for _ in 0..=dice.below(2) {
        step(dice, names, text, indent, depth, inside);
    }
}

fn step(dice: &mut Dice, names: &mut u64, text: &mut String, indent: usize, depth: u64, inside: bool) {
    *names += 1;
    let (name, pad) = (format!("s{names}"), " ".repeat(indent));
    let kinds = if depth == 0 { 4 } else { 9 };
    match dice.below(kinds) {
        0 => {
            let _ = writeln!(text, "{pad}- {{ name: {name}, agent: default }}");
        }
        1 => {
            let agent = if dice.below(2) == 0 { "plain" } else { "default" };
            let _ = writeln!(
                text,
                "{pad}- {{ name: {name}, agent: {agent}, input: \"{name}: {{{{ previous }}}}\" }}"
            );
        }
        2 => {
            let _ = writeln!(text, "{pad}- {{ name: {name}, template: \"({{{{ previous }}}})\" }}");
        }
        3 => {
            let _ = writeln!(text, "{pad}- {{ kind: hitl, name: {name}, message: \"{name}?\" }}");
        }
        4 | 5 => {
            let talks = dice.below(2) == 0;
            let _ = writeln!(
                text,
                "{pad}- kind: loop\n{pad}  name: {name}\n{pad}  loop:\n{pad}    max_loops: {}",
                1 + dice.below(2)
            );
            if talks {
                let source = ["last", "all_agents"][dice.below(2) as usize];
                let _ = writeln!(text, "{pad}    conversation: true\n{pad}    ai_turn_source: {source}");
            }
            let _ = writeln!(text, "{pad}    body:");
            steps(dice, names, text, indent + 6, depth - 1, inside || talks);
        }
        6 => {
            let _ = writeln!(text, "{pad}- kind: parallel\n{pad}  name: {name}\n{pad}  branches:");
            for branch in ["left", "right"] {
                let _ = writeln!(text, "{pad}    {branch}:");
                steps(dice, names, text, indent + 6, depth - 1, inside);
            }
        }
        7 => {
            let _ = writeln!(
                text,
                "{pad}- kind: conditional\n{pad}  name: {name}\n{pad}  condition_expression: \"len(text(previous)) > 12\"\n{pad}  branches:\n{pad}    true:"
            );
            steps(dice, names, text, indent + 6, depth - 1, inside);
        }
        _ => {
            let _ = writeln!(
                text,
                "{pad}- kind: map\n{pad}  name: {name}\n{pad}  over: \"['a', 'b']\"\n{pad}  max_concurrency: {}\n{pad}  body:",
                1 + dice.below(2)
            );
            steps(dice, names, text, indent + 4, depth - 1, inside);
        }
    }
}
