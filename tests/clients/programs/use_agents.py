"""The OpenAI Agents SDK: a tool, an answer, and a second round. Argument: where the provider is."""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="sk-of-the-client")


@function_tool
def weather(city: str) -> str:
    """The weather."""
    return f"Rain in {city}"


async def main():
    model = OpenAIResponsesModel(model="gpt-5.5", openai_client=client)
    agent = Agent(name="Guide", instructions="Be brief.", tools=[weather], model=model)
    given = []
    for words in ["What is the weather in Oslo?", "And tomorrow?"]:
        done = await Runner.run(agent, [*given, {"role": "user", "content": words}])
        given = done.to_input_list()
        print(done.final_output)


asyncio.run(main())
