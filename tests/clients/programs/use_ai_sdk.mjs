// The Vercel AI SDK: a tool, an answer, and a second round. Arguments: the installed packages, where the provider is, which.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, url, which] = process.argv.slice(2);
const require = createRequire(pathToFileURL(tools + "/package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const { generateText, streamText, tool, stepCountIs } = await load("ai");
const { z } = await load("zod");
globalThis.AI_SDK_LOG_WARNINGS = false;

async function model() {
  const shared = { apiKey: "key-of-the-client" };
  if (which === "anthropic") {
    return (await load("@ai-sdk/anthropic")).createAnthropic({ ...shared, baseURL: url + "/v1" })("claude-opus-4-8");
  }
  if (which === "google") {
    return (await load("@ai-sdk/google")).createGoogleGenerativeAI({ ...shared, baseURL: url + "/v1beta" })("gemini-3-pro");
  }
  const openai = (await load("@ai-sdk/openai")).createOpenAI({ ...shared, baseURL: url + "/v1" });
  return which === "chat" ? openai.chat("gpt-4o") : openai.responses("gpt-5.5");
}

const weather = tool({
  description: "The weather",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `Rain in ${city}`,
});
const settings = { model: await model(), tools: { weather }, stopWhen: stepCountIs(5) };
const messages = [];
for (const words of ["What is the weather in Oslo?", "And tomorrow?"]) {
  messages.push({ role: "user", content: words });
  const stream = streamText({ ...settings, messages });
  console.log(await stream.text);
  messages.push(...((await stream.responseMessages) ?? (await stream.response).messages));
}
