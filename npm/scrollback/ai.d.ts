import type { LanguageModelV4Middleware } from "@ai-sdk/provider";

/** What the middleware is told. */
export interface ScrollbackOptions {
  /** The server; http://127.0.0.1:7275 if not given. */
  url?: string;
  /** A key of scope `admin`, where the server has keys. */
  key?: string;
  /** Whom the conversation is with. */
  recipient: string;
  /** The manager; `auto` if not given. */
  manager?: string;
}

/**
 * Records everything that a model is told and says, and sends it what the manager shows of it.
 *
 *     const model = wrapLanguageModel({ model: openai("gpt-4o"), middleware: scrollback({ recipient: "anna" }) });
 */
export function scrollback(options: ScrollbackOptions): LanguageModelV4Middleware;

/** An answer of the server that is a problem: its code and its HTTP status. */
export class ScrollbackError extends Error {
  readonly code: string;
  readonly status: number;
}
