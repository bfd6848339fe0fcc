// A middleware of the AI SDK: every call is recorded at a Scrollback server, and is sent a view of the record.

/** How often a prompt is compared with the record again when other writers come first. */
const ATTEMPTS = 16;

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
  // The conversation of each call that is under way: several may be, and each goes on in its own branch.
  const conversations = new WeakMap();
  const conversation = async (params) => conversations.get(params) ?? current(ask, recipient);
  // One after the other calls are recorded and shown a view, and replies recorded, so that no view ends with the words of
  // another call.
  let turn = Promise.resolve();
  const inTurn = (work) => {
    const mine = turn.then(work);
    turn = mine.catch(() => {});
    return mine;
  };

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
      const [followed, view] = await inTurn(async () => {
        const followed = await follow(ask, recipient, messages);
        const show = (managers, named) =>
          ask("POST", `/conversations/${followed.conversation}/views`, { managers, model: named, wire: "openai-chat", record: true });
        return [followed, await sentTo(show, manager, model?.modelId)];
      });
      const sent = { ...params, prompt: shown(view.view, params.prompt, followed.positions, owners) };
      conversations.set(sent, followed.conversation);
      return sent;
    },

    async wrapGenerate({ doGenerate, params }) {
      const result = await doGenerate();
      await inTurn(async () => keep(ask, await conversation(params), result.content));
      return result;
    },

    async wrapStream({ doStream, params }) {
      const { stream, ...rest } = await doStream();
      const reader = stream.getReader();
      const heard = new Map();
      const record = async () => {
        // Text that a stream left open counts as far as it came.
        const content = [...heard.values()];
        heard.clear();
        await inTurn(async () => keep(ask, await conversation(params), content));
      };
      const watched = new ReadableStream({
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) {
            await record();
            return controller.close();
          }
          hear(heard, value);
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

// Takes in one part of a stream: texts and thoughts grow, everything else comes whole.
function hear(heard, value) {
  const [kind, change] = value.type.split("-");
  if ((kind === "text" || kind === "reasoning") && change) {
    const id = `${kind} ${value.id}`;
    const known = heard.get(id) ?? { type: kind, text: "" };
    const providerMetadata = value.providerMetadata ?? known.providerMetadata;
    heard.set(id, { ...known, text: known.text + (value.delta ?? ""), providerMetadata });
  }
  if (value.type === "tool-call") heard.set(`call ${value.toolCallId}`, value);
  if (value.type === "file" || value.type === "reasoning-file") heard.set(`file ${heard.size}`, value);
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

// Records what the list says that the record does not. Where another writer comes first, it is compared anew.
async function follow(ask, recipient, messages) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const body = { messages, wire: "openai-chat", follow: true };
      return await ask("POST", `/conversations/${await current(ask, recipient)}/entries`, body);
    } catch (error) {
      if (error.code !== "conflict" || attempt === ATTEMPTS) throw error;
    }
  }
}

async function keep(ask, id, content) {
  const [message] = toChat({ role: "assistant", content });
  if (message.content?.length || message.tool_calls || message.reasoning_content) {
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
  const parts = content.map(toPart).filter(Boolean);
  const plain = parts.every((part) => part.type === "text");
  const said = plain ? parts.map((part) => part.text).join("") : parts;
  if (role === "user") return [{ role, content: said }];
  // What the provider executed itself has its result in the same message, and no entry of its own.
  const calls = content.filter((part) => part.type === "tool-call" && !part.providerExecuted);
  const message = { role: "assistant", content: said.length ? said : calls.length ? null : "" };
  if (calls.length) {
    message.tool_calls = calls.map((call) => ({
      id: call.toolCallId,
      type: "function",
      function: { name: call.toolName, arguments: typeof call.input === "string" ? call.input : JSON.stringify(call.input) },
    }));
  }
  const thoughts = content.filter((part) => part.type === "reasoning");
  if (thoughts.some((part) => part.text)) message.reasoning_content = thoughts.map((part) => part.text).join("\n\n");
  // Signatures and the like, by which a provider knows its own thoughts again.
  const details = thoughts.filter((part) => part.providerMetadata ?? part.providerOptions);
  if (details.length) {
    message.reasoning_details = details.map((part) => ({
      type: "reasoning.text",
      text: part.text,
      provider: part.providerMetadata ?? part.providerOptions,
    }));
  }
  return [message];
}

// A text, picture, sound or file as a part of OpenAI chat; what has a place of its own in the message is none.
function toPart(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "file" && part.type !== "reasoning-file") return undefined;
  const { mediaType = "application/octet-stream", filename } = part;
  const data = part.data?.type === undefined ? { type: "data", data: part.data } : part.data;
  if (data.type === "text") return { type: "text", text: data.text };
  if (data.type === "reference") return { type: "file", file: { file_id: Object.values(data.reference)[0] ?? "", reference: data.reference } };
  const kind = mediaType.split("/")[0];
  const inside = data.type === "data";
  const url = inside ? `data:${mediaType};base64,${base64(data.data)}` : String(data.url);
  if (kind === "image") return { type: "image_url", image_url: { url } };
  if (!inside) {
    const name = `${kind === "audio" || kind === "video" ? kind : "document"}_url`;
    return { type: name, [name]: { url, media_type: mediaType } };
  }
  if (kind === "audio") return { type: "input_audio", input_audio: { data: base64(data.data), format: mediaType.split("/")[1] } };
  return { type: "file", file: { ...(filename && { filename }), file_data: url } };
}

const base64 = (data) => (typeof data === "string" ? data : btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join("")));

// The part of a prompt that a part of OpenAI chat stands for.
function fromPart(part) {
  if (part.type === "text") return part.text ? { type: "text", text: part.text } : undefined;
  const held = part[part.type];
  if (typeof held !== "object" || held === null) return undefined;
  if (held.reference) return { type: "file", mediaType: "application/octet-stream", data: { type: "reference", reference: held.reference } };
  if (part.type === "input_audio") {
    return { type: "file", mediaType: `audio/${held.format}`, data: { type: "data", data: held.data } };
  }
  const url = held.url ?? held.file_data;
  if (typeof url !== "string") return undefined;
  const [, inside, data] = url.match(/^data:([^;,]*);base64,(.*)$/s) ?? [];
  const mediaType = inside ?? held.media_type ?? (part.type === "image_url" ? "image/*" : "application/octet-stream");
  const content = data === undefined ? { type: "url", url: new URL(url) } : { type: "data", data };
  return { type: "file", mediaType, ...(held.filename && { filename: held.filename }), data: content };
}

function outputText(output) {
  const plain = (_, value) => (value instanceof Uint8Array ? base64(value) : value);
  return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? output.reason ?? null, plain);
}

function fromChat({ role, content, tool_calls, tool_call_id, reasoning_content, reasoning_details }, names) {
  const text = typeof content === "string" ? content : texts(content ?? []);
  if (role === "system") return { role, content: text };
  const parts = typeof content === "string" ? [{ type: "text", text }] : (content ?? []).map(fromPart).filter(Boolean);
  if (role === "user") return { role, content: parts };
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
  const thoughts = reasoning_details
    ? reasoning_details.map((one) => ({ type: "reasoning", text: one.text ?? "", providerOptions: one.provider }))
    : reasoning_content
      ? [{ type: "reasoning", text: reasoning_content }]
      : [];
  return { role: "assistant", content: [...thoughts, ...parts.filter((part) => part.type !== "text" || part.text), ...calls] };
}
