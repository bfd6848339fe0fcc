"""The openai package: a tool, an answer, and a second round. Arguments: where the provider is, and which API."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="sk-of-the-client", max_retries=2)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WORDS = ["What is the weather in Oslo?", "And tomorrow?"]


def chat():
    function = {"name": "weather", "description": "The weather", "parameters": PARAMETERS}
    tools = [{"type": "function", "function": function}]
    messages = [{"role": "system", "content": "Be brief."}]
    for words in WORDS:
        messages.append({"role": "user", "content": words})
        while True:
            with client.chat.completions.stream(model="gpt-4o", messages=messages, tools=tools) as stream:
                answer = stream.get_final_completion().choices[0].message
            messages.append(answer.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            for call in answer.tool_calls or []:
                city = json.loads(call.function.arguments)["city"]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": f"Rain in {city}"})
            if not answer.tool_calls:
                break
        print(answer.content)


def responses():
    """Everything is sent again each time."""
    tools = [{"type": "function", "name": "weather", "description": "The weather", "parameters": PARAMETERS, "strict": True}]
    given = []
    for words in WORDS:
        given.append({"role": "user", "content": words})
        while True:
            answer = client.responses.create(model="gpt-5.5", instructions="Be brief.", input=given, tools=tools, store=False)
            given += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            for call in calls:
                result = f"Rain in {json.loads(call.arguments)['city']}"
                given.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
            if not calls:
                break
        print(answer.output_text)


def state():
    """Only what is new is sent; the provider keeps the rest."""
    tools = [{"type": "function", "name": "weather", "description": "The weather", "parameters": PARAMETERS, "strict": True}]
    before = openai.omit
    for words in WORDS:
        given = [{"role": "user", "content": words}]
        while given:
            answer = client.responses.create(model="gpt-5.5", input=given, tools=tools, previous_response_id=before)
            before, given = answer.id, []
            for call in answer.output:
                if call.type == "function_call":
                    result = f"Rain in {json.loads(call.arguments)['city']}"
                    given.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
        print(answer.output_text)


{"chat": chat, "responses": responses, "state": state}[sys.argv[2]]()
