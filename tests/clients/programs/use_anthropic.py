"""The anthropic package: a tool, an answer, and a second round. Arguments: where the provider is, and how."""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="sk-ant-of-the-client", max_retries=2)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "weather", "description": "The weather", "input_schema": SCHEMA}]
WORDS = ["What is the weather in Oslo?", "And tomorrow?"]
MODEL = "claude-opus-4-8"


def results(answer):
    found = []
    for block in answer.content:
        if block.type == "tool_use":
            words = f"Rain in {block.input['city']}"
            found.append({"type": "tool_result", "tool_use_id": block.id, "content": words})
    return found


def messages():
    said = []
    for words in WORDS:
        said.append({"role": "user", "content": words})
        while True:
            with client.messages.stream(model=MODEL, max_tokens=500, system="Be brief.", messages=said, tools=TOOLS) as stream:
                answer = stream.get_final_message()
            said.append({"role": "assistant", "content": answer.content})
            if not (found := results(answer)):
                break
            said.append({"role": "user", "content": found})
        print(answer.content[-1].text)


def threads():
    """The provider keeps the conversation; when it has lost it, everything is sent again."""
    said, before = [], None
    for words in WORDS:
        new = [{"role": "user", "content": words}]
        while new:
            said += new
            whole = {"system": "Be brief.", "messages": said, "tools": TOOLS, "thread": {"type": "create"}}
            asked = {"messages": new, "thread": {"type": "continue", "previous_message_id": before}} if before else whole
            shared = {"model": MODEL, "max_tokens": 500, "betas": ["message-threads-2026-08-12"]}
            try:
                answer = client.beta.messages.create(**shared, **asked)
            except anthropic.APIStatusError as error:
                code = (error.body["error"].get("details") or {}).get("error_code")
                print("the provider says", code)
                answer = client.beta.messages.create(**shared, **whole)
            before = answer.id
            said.append({"role": "assistant", "content": answer.content})
            found = results(answer)
            new = [{"role": "user", "content": found}] if found else []
        print(answer.content[-1].text)


{"messages": messages, "threads": threads}[sys.argv[2]]()
