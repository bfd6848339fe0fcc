"""The providers' packages against a server that passes requests on."""

import anthropic
import openai

client = openai.OpenAI(max_retries=0)
asked = [{"role": "user", "content": "Hello"}]
reply = client.chat.completions.create(model="gpt-4o", messages=asked)
assert reply.choices[0].message.content == "Good day to you", reply
stream = client.chat.completions.create(model="gpt-4o", messages=asked, stream=True)
text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
assert text == "Good day to you", text
response = client.responses.create(model="gpt-5", input="Hello")
assert response.output_text == "Good day to you", response
assert client.responses.retrieve(response.id).id == response.id
assert client.responses.create(model="gpt-5", input="More", previous_response_id=response.id).output_text == "Good day to you"

client = anthropic.Anthropic(max_retries=0)
ask = {"model": "claude-opus-4-8", "max_tokens": 100, "messages": asked}
assert client.messages.create(**ask).content[0].text == "Good day to you"
with client.messages.stream(**ask) as stream:
    assert "".join(stream.text_stream) == "Good day to you"
