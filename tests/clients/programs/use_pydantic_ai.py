"""Pydantic AI: a tool, an answer, and a second round. Arguments: where the provider is, and which."""

import sys

from pydantic_ai import Agent

url, which = sys.argv[1:3]
if which == "anthropic":
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    model = AnthropicModel("claude-opus-4-8", provider=AnthropicProvider(api_key="sk-ant-of-the-client", base_url=url))
elif which == "google":
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    model = GoogleModel("gemini-3-pro", provider=GoogleProvider(api_key="key-of-the-client", base_url=url))
else:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="sk-of-the-client", base_url=url + "/v1"))

agent = Agent(model, instructions="Be brief.")


@agent.tool_plain
def weather(city: str) -> str:
    """The weather."""
    return f"Rain in {city}"


history = []
for words in ["What is the weather in Oslo?", "And tomorrow?"]:
    done = agent.run_sync(words, message_history=history)
    history = done.all_messages()
    print(done.output)
