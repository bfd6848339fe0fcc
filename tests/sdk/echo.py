"""The providers' packages against a server without a provider: every interface, streamed and not."""

import anthropic
import openai

client = openai.OpenAI(max_retries=0)
asked = [{"role": "user", "content": "Good day"}]

raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=asked)
assert raw.headers["x-scrollback-model"] == "offline:echo", raw.headers
conversation = raw.headers["x-scrollback-conversation"]
reply = raw.parse()
assert reply.choices[0].message.content == "Good day", reply
assert reply.usage.completion_tokens > 0

talk = asked + [reply.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "And on"}]
with client.chat.completions.with_streaming_response.create(model="gpt-4o", messages=talk, stream=True) as streamed:
    assert streamed.headers["x-scrollback-conversation"] == conversation, "the talk goes on"
    assert streamed.headers["x-scrollback-view"].startswith("entries=3/3; tokens="), streamed.headers
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed.parse() if chunk.choices)
assert text == "And on", text

response = client.responses.create(model="gpt-5", instructions="Be brief.", input="One")
assert response.output_text == "One", response
assert client.responses.retrieve(response.id).output_text == "One"
second = client.responses.create(model="gpt-5", input="Two", previous_response_id=response.id)
assert second.output_text == "Two", second
listed = client.responses.with_raw_response.create(
    model="gpt-5", input=[{"role": "user", "content": "A list"}])
items = [item.model_dump(exclude_none=True) for item in listed.parse().output]
again = client.responses.with_raw_response.create(
    model="gpt-5", input=[{"role": "user", "content": "A list"}, *items, {"role": "user", "content": "goes on"}])
assert again.headers["x-scrollback-conversation"] == listed.headers["x-scrollback-conversation"]
assert again.headers["x-scrollback-view"].startswith("entries=3/3;"), again.headers
events = client.responses.create(model="gpt-5", input="Three and more of it", stream=True)
deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
assert deltas == "Three and more of it", deltas
assert any(model.id == "offline:echo" for model in client.models.list())

try:
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "nobody", "content": "x"}])
    raise SystemExit("a wrong role was taken")
except openai.BadRequestError as error:
    assert error.code == "bad_message" and "nobody" in error.message, error

client = anthropic.Anthropic(max_retries=0)
ask = {"model": "claude-opus-4-8", "max_tokens": 100, "system": "Be brief."}
message = client.messages.create(messages=asked, **ask)
assert message.content[0].text == "Good day", message
with client.messages.stream(messages=asked + [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And on"}], **ask) as stream:
    assert "".join(stream.text_stream) == "And on"
    assert stream.get_final_message().stop_reason == "end_turn"
count = client.messages.count_tokens(model="claude-opus-4-8", messages=asked)
assert count.input_tokens > 0
try:
    client.messages.create(messages=[{"role": "nobody", "content": "x"}], **ask)
    raise SystemExit("a wrong role was taken")
except anthropic.BadRequestError as error:
    assert "nobody" in str(error), error
