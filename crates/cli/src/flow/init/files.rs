//! The files that `init` writes. Whatever is chosen, they validate without a warning and run offline.

use super::{NewFlow, NewMemory, TemplateArg};

/// The flow.
pub(super) fn flow(wish: &NewFlow) -> String {
    let head = "# Check it with `scrollback validate flow.yaml`; the format is described in docs/flows.md.\n";
    let template = match wish.template {
        TemplateArg::Chat => CHAT,
        TemplateArg::Pipeline => PIPELINE,
        TemplateArg::Review => REVIEW,
    };
    let memory = match wish.memory {
        NewMemory::Turns(turns) => MEMORY.replace("TURNS", &turns.to_string()),
        NewMemory::None => NO_MEMORY.into(),
    };
    format!("{head}{}", template.replace("      MEMORY\n", &memory))
}

/// The settings beside it.
pub(super) fn settings(wish: &NewFlow) -> String {
    SETTINGS.replace("MODEL", &toml_text(&wish.model))
}

/// A text as TOML writes it; the names of models have no control characters.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

const SETTINGS: &str = "# Settings of the flows in this folder. What is in force, and why:
#   scrollback validate flow.yaml --effective

[flow]
# The model of agents that name none; offline:echo needs no network and no key.
default_model = MODEL
# Most iterations of loops that do not say.
max_loops = 10

[flow.history]
# Most history that loops send which write no bound of their own.
max_tokens = 16384

# [flow.limits]
# max_tokens = 200000   # for a whole run
";

const MEMORY: &str =
    "      conversation: true            # the agents of this loop are sent what was said in it
      history_management:
        strategy: truncate_turns    # or truncate_tokens, or summarize
        max_turns: TURNS
";

const NO_MEMORY: &str =
    "      # conversation: true          # would send the agents of this loop what was said in it
      # history_management:
      #   strategy: truncate_turns
      #   max_turns: 20
";

const CHAT: &str = "version: \"1\"
name: chat
description: A conversation with a person, turn by turn.

agents:
  answer:
    # model: openai:gpt-4o          # without it, default_model of scrollback.toml
    system_prompt: You are friendly and brief. Ask when something is not clear.

steps:
  - kind: loop
    name: chat
    loop:
      MEMORY
      max_loops: 50
      exit_expression: lower(trim(text(output))) in ['bye', 'exit', 'quit']
      on_max_loops: continue
      body:
        - name: answer              # asks the agent of the same name
        - kind: hitl                # waits for a person: the run pauses here and can be resumed any time
          name: reply
          message: \"{{ previous }}\"
";

const PIPELINE: &str = "version: \"1\"
name: pipeline
description: A message is sorted, worked on step by step, and summed up.

agents:
  default:
    # model: openai:gpt-4o          # without it, default_model of scrollback.toml
    system_prompt: You work in customer support. Be brief and exact.
  sort:
    system_prompt: Answer with one word, bug or question.

steps:
  - name: sort
  - kind: conditional
    name: route
    condition_expression: lower(trim(text(output)))
    branches:
      bug:
        - name: reproduce
          input: \"Write down how to reproduce this: {{ input }}\"
    default_branch:
      - name: reply
        input: \"Answer this: {{ input }}\"
  - kind: loop
    name: refine
    loop:
      MEMORY
      max_loops: 2                  # without exit_expression it runs exactly as often
      body:
        - name: improve
          input: \"Improve this, and keep it short: {{ previous }}\"
  - name: result
    template: |
      About: {{ input }}
      {{ previous }}
";

const REVIEW: &str = "version: \"1\"
name: review
description: A draft is criticised and rewritten until the critic approves.

agents:
  # model: openai:gpt-4o in an agent; without it, default_model of scrollback.toml
  write:
    system_prompt: You write what you are asked for, and rewrite it when it is criticised.
  criticise:
    system_prompt: You criticise drafts in one sentence. When nothing is left to say, answer APPROVED.

steps:
  - kind: loop
    name: review
    loop:
      MEMORY
      max_loops: 4
      exit_expression: contains(text(output), 'APPROVED')
      on_max_loops: continue        # after the fourth draft it is good enough
      body:
        - name: write
        - name: criticise
          input: \"Criticise this draft: {{ steps.write.output }}\"
  - name: result
    template: \"{{ steps.write.output }}\"
";
