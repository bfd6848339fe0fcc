// A server of our own, the real AI SDK, and models that answer as they are told.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { SCROLLBACK_PROGRAM: program, SCROLLBACK_TOOLS: tools } = process.env;
const require = createRequire(pathToFileURL(join(tools, "package.json")));

export { program };
export const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

/** The real package, and its models for tests. */
export const sdk = { ...(await load("ai")), ...(await load("ai/test")), ...(await load("zod")) };
globalThis.AI_SDK_LOG_WARNINGS = false;

/** A server in a folder of its own. */
export async function serve() {
  const folder = mkdtempSync(join(tmpdir(), "scrollback-npm-"));
  const running = spawn(program, ["serve", "--json", "--listen", "127.0.0.1:0", "--store", `sqlite:${folder}/record.db`], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: running.stdout });
  const { value } = await lines[Symbol.asyncIterator]().next();
  const url = `http://${JSON.parse(value).listen}`;
  const get = async (path) => (await fetch(`${url}/api${path}`)).json();
  return {
    url,
    /** What the record of a recipient says: role and text of each message. */
    async said(recipient) {
      const { conversations } = await get(`/conversations?${new URLSearchParams({ recipient })}`);
      const current = conversations.find((row) => row.key !== null);
      const { entries } = await get(`/conversations/${current.id}/entries?limit=500`);
      return entries.filter((entry) => entry.kind === "message").map((entry) => [entry.role, entry.text ?? ""]);
    },
    /** The same as they were recorded. */
    async raw(recipient) {
      const { conversations } = await get(`/conversations?${new URLSearchParams({ recipient })}`);
      const current = conversations.find((row) => row.key !== null);
      const { entries } = await get(`/conversations/${current.id}/entries?limit=500`);
      return entries.filter((entry) => entry.kind === "message").map((entry) => JSON.parse(entry.raw));
    },
    /** The texts of every conversation with a recipient. */
    async all(recipient) {
      const { conversations } = await get(`/conversations?${new URLSearchParams({ recipient })}`);
      const texts = async ({ id }) => (await get(`/conversations/${id}/entries?limit=500`)).entries.map((entry) => entry.text ?? "");
      return Promise.all(conversations.map(texts));
    },
    async conversations(recipient) {
      return (await get(`/conversations?${new URLSearchParams({ recipient })}`)).conversations;
    },
    close() {
      const ended = new Promise((resolve) => running.on("exit", resolve));
      running.kill();
      return ended.then(() => rmSync(folder, { recursive: true }));
    },
  };
}

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** A model whose replies a function gives; `asked` has the prompts that reached it. */
export function scripted(reply) {
  const asked = [];
  const answer = (prompt) => {
    asked.push(prompt);
    const content = reply(prompt, asked.length);
    const calls = content.some((part) => part.type === "tool-call" && !part.providerExecuted);
    return { content, finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage, warnings: [] };
  };
  const model = new sdk.MockLanguageModelV4({
    doGenerate: async ({ prompt }) => answer(prompt),
    doStream: async ({ prompt }) => {
      const { content, finishReason } = answer(prompt);
      const parts = [{ type: "stream-start", warnings: [] }];
      content.forEach((part, index) => {
        if (part.type !== "text" && part.type !== "reasoning") return parts.push(part);
        const id = String(index);
        const { type, providerMetadata } = part;
        parts.push({ type: `${type}-start`, id });
        for (const delta of part.text.match(/.{1,4}/gs)) parts.push({ type: `${type}-delta`, id, delta });
        parts.push({ type: `${type}-end`, id, providerMetadata });
      });
      parts.push({ type: "finish", finishReason, usage });
      return { stream: sdk.simulateReadableStream({ chunks: parts }) };
    },
  });
  return { model, asked };
}

export const text = (words) => [{ type: "text", text: words }];
export const roles = (prompt) => prompt.map((message) => message.role);
