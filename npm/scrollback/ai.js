// A middleware of the AI SDK: every call is recorded at a Scrollback server, and is sent a view of the record.

export class ScrollbackError extends Error {
  constructor(message, code, status, options) {
    super(message, options);
    this.name = "ScrollbackError";
    this.code = code;
    this.status = status;
  }
}

export function scrollback({ url = "http://127.0.0.1:7275", key, recipient, manager = "auto" }) {
  if (!recipient) throw new TypeError('scrollback: say whom the conversation is with, as in { recipient: "anna" }');
  const ask = client(url, key);
  let begun;
  // The current conversation of the recipient; after a branch it is another one.
  const conversation = async () => (begun ??= current(ask, recipient).catch((error) => ((begun = undefined), Promise.reject(error))));

  return {
    specificationVersion: "v4",

    async transformParams({ params, model }) {
      const messages = [];
      const owners = [];
      params.prompt.forEach((message, index) => {
        for (const one of toChat(message)) {
          messages.push(one);
          owners.push(index);
        }
      });
      const followed = await ask("POST", `/conversations/${await conversation()}/entries`, {
        messages,
        wire: "openai-chat",
        follow: true,
      });
      begun = Promise.resolve(followed.conversation);
      const show = (managers, named) =>
        ask("POST", `/conversations/${followed.conversation}/views`, { managers, model: named, wire: "openai-chat", record: true });
      const view = await sentTo(show, manager, model?.modelId);
      return { ...params, prompt: shown(view.view, params.prompt, followed.positions, owners) };
    },

    async wrapGenerate({ doGenerate }) {
      const result = await doGenerate();
      await keep(ask, await conversation(), result.content);
      return result;
    },

    async wrapStream({ doStream }) {
      const { stream, ...rest } = await doStream();
      const reader = stream.getReader();
      const heard = new Map();
      const record = async () => {
        // Text that a stream left open counts as far as it came.
        const content = [...heard.values()];
        heard.clear();
        await keep(ask, await conversation(), content);
      };
      const watched = new ReadableStream({
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) {
            await record();
            return controller.close();
          }
          const text = heard.get(`text ${value.id}`);
          if (value.type === "text-delta") heard.set(`text ${value.id}`, { type: "text", text: (text?.text ?? "") + value.delta });
          if (value.type === "tool-call") heard.set(`call ${value.toolCallId}`, value);
          controller.enqueue(value);
        },
        async cancel(reason) {
          await record();
          await reader.cancel(reason);
        },
      });
      return { stream: watched, ...rest };
    },
  };
}

// A model that nobody knows is shown what it would be without; `auto`, whose limit is the model's window, is then `auto(32k)`.
async function sentTo(show, manager, model) {
  const attempts = [[[manager], model || undefined], [[manager], undefined]];
  if (manager === "auto") attempts.push([["auto(32k)"], undefined]);
  for (const attempt of attempts.slice(0, -1)) {
    try {
      return await show(...attempt);
    } catch (error) {
      if (error.code !== "unknown_model") throw error;
    }
  }
  return show(...attempts.at(-1));
}

function client(url, key) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  return async (method, path, body) => {
    let response;
    try {
      response = await fetch(`${url.replace(/\/$/, "")}/api${path}`, { method, headers, body: body && JSON.stringify(body) });
    } catch (error) {
      throw new ScrollbackError(`no answer from ${url}: is \`scrollback serve\` running?`, "io", 0, { cause: error });
    }
    let told;
    try {
      told = await response.json();
    } catch {
      throw new ScrollbackError(`${url} answered ${response.status} without JSON: is it a Scrollback server?`, "io", response.status);
    }
    if (!response.ok) {
      throw new ScrollbackError(told.detail ?? told.title, String(told.type).split(":").pop(), response.status);
    }
    return told;
  };
}

async function current(ask, recipient) {
  const find = async () => {
    const page = await ask("GET", `/conversations?${new URLSearchParams({ recipient, limit: "100" })}`);
    return page.conversations.find((row) => row.key !== null)?.id;
  };
  const found = await find();
  if (found) return found;
  try {
    return (await ask("POST", "/conversations", { recipient })).id;
  } catch (error) {
    // Another writer began it meanwhile.
    const theirs = error.status === 409 && (await find());
    if (theirs) return theirs;
    throw error;
  }
}

async function keep(ask, id, content) {
  const [message] = toChat({ role: "assistant", content });
  if (message.content || message.tool_calls) {
    await ask("POST", `/conversations/${id}/entries`, { messages: [message], wire: "openai-chat" });
  }
}

// The prompt that a view shows: the caller's own messages where they are unchanged.
function shown(items, prompt, positions, owners) {
  const ownerOf = new Map();
  positions.forEach((position, index) => ownerOf.has(position) || ownerOf.set(position, owners[index]));
  const same = new Set(items.filter((item) => item.index !== undefined && !item.changed).map((item) => item.index));
  const partly = new Set([...ownerOf].filter(([position]) => !same.has(position)).map(([, owner]) => owner));
  const given = new Set();
  const names = new Map();
  const list = [];
  for (const item of items) {
    for (const call of item.message?.tool_calls ?? []) names.set(call.id, call.function.name);
    const owner = ownerOf.get(item.index);
    if (owner !== undefined && !partly.has(owner)) {
      if (!given.has(owner)) list.push(prompt[owner]);
      given.add(owner);
    } else if (item.message) {
      list.push(fromChat(item.message, names));
    }
  }
  return list;
}

const texts = (content) => content.filter((part) => part.type === "text").map((part) => part.text).join("");

function toChat({ role, content }) {
  if (role === "system") return [{ role, content }];
  if (role === "tool") {
    return content
      .filter((part) => part.type === "tool-result")
      .map((part) => ({ role, tool_call_id: part.toolCallId, content: outputText(part.output) }));
  }
  if (role === "user") {
    const media = content.some((part) => part.type !== "text");
    if (!media) return [{ role, content: texts(content) }];
    const parts = content.map((part) =>
      part.type === "text" ? { type: "text", text: part.text } : { type: "text", text: `[file ${part.mediaType}]` },
    );
    return [{ role, content: parts }];
  }
  // What the provider executed itself has its result in the same message, and no entry of its own.
  const calls = content.filter((part) => part.type === "tool-call" && !part.providerExecuted);
  const message = { role: "assistant", content: texts(content) || (calls.length ? null : "") };
  if (calls.length) {
    message.tool_calls = calls.map((call) => ({
      id: call.toolCallId,
      type: "function",
      function: { name: call.toolName, arguments: typeof call.input === "string" ? call.input : JSON.stringify(call.input) },
    }));
  }
  return [message];
}

function outputText(output) {
  return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? output.reason ?? null);
}

function fromChat({ role, content, tool_calls, tool_call_id }, names) {
  const text = typeof content === "string" ? content : texts(content ?? []);
  if (role === "system") return { role, content: text };
  if (role === "user") return { role, content: [{ type: "text", text }] };
  if (role === "tool") {
    const output = { type: "text", value: text };
    const toolName = names.get(tool_call_id) ?? "tool";
    return { role, content: [{ type: "tool-result", toolCallId: tool_call_id, toolName, output }] };
  }
  const calls = (tool_calls ?? []).map((call) => ({
    type: "tool-call",
    toolCallId: call.id,
    toolName: call.function.name,
    input: JSON.parse(call.function.arguments || "{}"),
  }));
  return { role: "assistant", content: [...(text ? [{ type: "text", text }] : []), ...calls] };
}
