//! Names of attributes, after OpenTelemetry's semantic conventions for generative AI. They are still in development
//! there, so a change of theirs is a change of this file.

/// What is done: `chat`, `execute_tool` or `invoke_agent`.
pub const OPERATION: &str = "gen_ai.operation.name";
/// Who serves the model.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked for.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id of the response.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Why the reply ended, in the provider's words.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// All input tokens, cached ones included.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// All output tokens.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Input tokens read from the provider's cache.
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// The conversation in the store; where there is none, the evaluation or call itself.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// What failed, as one word.
pub const ERROR: &str = "error.type";
/// The agent that is run.
pub const AGENT: &str = "gen_ai.agent.name";
/// The tool that is called.
pub const TOOL: &str = "gen_ai.tool.name";
/// The call that a tool answers.
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// What a tool was called with; only where content was asked for.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// What a tool answered; only where content was asked for.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";
/// What a model was sent; only where content was asked for.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// What it answered; only where content was asked for.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The call's own id, by which the lens finds it.
pub const CALL: &str = "scrollback.call.id";
/// Whose it is.
pub const TENANT: &str = "scrollback.tenant";
