// `scrollback/ai` in the real AI SDK: what the model is sent, what is recorded, what the program keeps.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ScrollbackError, scrollback } from "../scrollback/ai.js";
import { roles, scripted, sdk, serve, text } from "./harness.mjs";

const { generateText, streamText, stepCountIs, tool, wrapLanguageModel, z } = sdk;
const server = await serve();
after(() => server.close());

const wrapped = (model, recipient, manager) =>
  wrapLanguageModel({ model, middleware: scrollback({ url: server.url, recipient, manager }) });

const look = tool({
  description: "The weather",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

// The call is spelled with spaces, as models do; the SDK gives it back as an object.
const weather = (prompt) => {
  const last = prompt.at(-1);
  if (last.role === "tool") return text(`it is ${last.content[0].output.value}`);
  return [{ type: "tool-call", toolCallId: `c${prompt.length}`, toolName: "look", input: '{ "city":  "Oslo" }' }];
};

for (const streaming of [false, true]) {
  const kind = streaming ? "streamText" : "generateText";
  const ask = async (options) => {
    if (!streaming) return generateText(options);
    const result = streamText(options);
    return { text: await result.text, responseMessages: await result.responseMessages };
  };

  test(`${kind}: the model is sent the view, the record and the program's list are whole`, async () => {
    const { model, asked } = scripted(weather);
    const recipient = `anna ${kind}`;
    const messages = [];
    for (const number of [1, 2, 3]) {
      messages.push({ role: "user", content: `question ${number}` });
      const result = await ask({
        model: wrapped(model, recipient, "turn_window(1)"),
        tools: { look },
        stopWhen: stepCountIs(5),
        system: "Be brief.",
        messages,
      });
      assert.equal(result.text, "it is sunny in Oslo");
      messages.push(...result.responseMessages);
    }
    assert.deepEqual(roles(asked.at(-1)), ["system", "user", "assistant", "tool"]);
    assert.deepEqual(asked.at(-1)[1].content[0].text, "question 3");
    const said = (await server.said(recipient)).filter(([role]) => role !== "system");
    const turn = ["user", "assistant", "tool", "assistant"];
    assert.deepEqual(said.map(([role]) => role), [...turn, ...turn, ...turn]);
    assert.equal((await server.conversations(recipient)).length, 1, "nothing branched");
    assert.equal(messages.length, 12, "the program's own list has everything");
  });

  test(`${kind}: pictures, files and thoughts are recorded and sent`, async () => {
    const { model, asked } = scripted(() => [
      { type: "reasoning", text: "a cat, I think", providerMetadata: { some: { signature: "s1" } } },
      ...text("a cat"),
    ]);
    const recipient = `pictures ${kind}`;
    const picture = { type: "file", mediaType: "image/png", data: "AAAA" };
    const paper = { type: "file", mediaType: "application/pdf", filename: "a.pdf", data: new Uint8Array([1, 2, 3]) };
    const looked = { role: "user", content: [{ type: "text", text: "what is this?" }, picture, paper] };
    await ask({ model: wrapped(model, recipient, "passthrough"), messages: [looked] });
    const [user, reply] = await server.raw(recipient);
    assert.deepEqual(user.content, [
      { type: "text", text: "what is this?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AQID" } },
    ]);
    assert.equal(reply.reasoning_content, "a cat, I think");
    // The program has forgotten the picture and repeats only the end of what was said: the record has it.
    const messages = [{ role: "assistant", content: [{ type: "reasoning", text: "a cat, I think", providerOptions: { some: { signature: "s1" } } }, ...text("a cat")] }, { role: "user", content: "sure?" }];
    await ask({ model: wrapped(model, recipient, "passthrough"), messages });
    const [first, second] = asked.at(-1);
    assert.deepEqual(first.content.map((part) => [part.type, part.mediaType, part.data?.data]), [
      ["text", undefined, undefined],
      ["file", "image/png", "AAAA"],
      ["file", "application/pdf", "AQID"],
    ]);
    assert.equal(second.content[0].text, "a cat, I think");
    assert.equal(second.content[0].providerOptions.some.signature, "s1");
  });

  test(`${kind}: calls of one model beside each other are recorded each in its own branch`, async () => {
    const { model } = scripted((prompt) => text(`answer to ${prompt.at(-1).content[0].text}`));
    const one = wrapped(model, `branches ${kind}`, "passthrough");
    const words = ["first", "second", "third"];
    await Promise.all(words.map((prompt) => ask({ model: one, prompt })));
    const all = await server.all(`branches ${kind}`);
    for (const said of all.map((entries) => entries.join(" | "))) {
      const answered = words.filter((word) => said.includes(`answer to ${word}`));
      for (const word of answered) assert.ok(said.indexOf(word) < said.indexOf(`answer to ${word}`), said);
    }
    assert.equal(words.filter((word) => all.flat().includes(`answer to ${word}`)).length, 3, JSON.stringify(all));
  });

  test(`${kind}: runs beside each other do not mix`, async () => {
    const names = [1, 2, 3, 4, 5].map((number) => `person ${number} ${kind}`);
    await Promise.all(
      names.map(async (name) => {
        const { model } = scripted((prompt) => text(`answer to ${prompt.at(-1).content[0].text}`));
        for (const words of [name, `${name} again`]) await ask({ model: wrapped(model, name), prompt: words });
      }),
    );
    for (const name of names) {
      const texts = (await server.said(name)).map(([, words]) => words);
      // A prompt that does not repeat what was said begins a branch or goes on: it never shows another's words.
      assert.ok(texts.length >= 2 && texts.every((words) => words.includes(name)), JSON.stringify(texts));
    }
  });
}

test("a stream that is left early is recorded as far as it came", async () => {
  const { model } = scripted(() => text("one two three four five six"));
  const { stream } = await wrapped(model, "early").doStream({ prompt: [{ role: "user", content: text("count") }] });
  const reader = stream.getReader();
  for (let part = await reader.read(); part.value.type !== "text-delta"; part = await reader.read());
  await reader.cancel("enough");
  const said = await server.said("early");
  assert.equal(said.length, 2);
  assert.ok("one two three four five six".startsWith(said[1][1]) && said[1][1] !== "", said[1][1]);
});

test("tools that the provider runs itself leave no open call behind", async () => {
  const own = [
    { type: "tool-call", toolCallId: "p1", toolName: "search", input: "{}", providerExecuted: true },
    { type: "tool-result", toolCallId: "p1", toolName: "search", result: "found", providerExecuted: true },
    ...text("found it"),
  ];
  const { model } = scripted(() => own);
  await generateText({ model: wrapped(model, "searcher"), prompt: "search" });
  assert.deepEqual(await server.said("searcher"), [["user", "search"], ["assistant", "found it"]]);
});

test("what goes wrong says what to do", async () => {
  const { model } = scripted(() => text("hello"));
  assert.throws(() => scrollback({}), /recipient/);
  const nobody = wrapLanguageModel({ model, middleware: scrollback({ url: "http://127.0.0.1:1", recipient: "anna" }) });
  await assert.rejects(generateText({ model: nobody, prompt: "hi", maxRetries: 0 }), (error) => {
    assert.ok(error instanceof ScrollbackError && error.cause);
    assert.match(error.message, /scrollback serve/);
    return true;
  });
  await assert.rejects(generateText({ model: wrapped(model, "bad", "slidin_window(3)"), prompt: "hi", maxRetries: 0 }), (error) => {
    assert.equal(error.code, "unknown_manager");
    assert.match(error.message, /sliding_window/);
    return true;
  });
});
