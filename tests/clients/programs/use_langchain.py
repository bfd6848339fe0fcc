"""LangChain's agents: a tool, an answer, and a second round. Arguments: where the provider is, and which."""

import sys

from langchain.agents import create_agent
from langchain_core.tools import tool

url, which = sys.argv[1:3]
if which == "anthropic":
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(model="claude-opus-4-8", base_url=url, api_key="sk-ant-of-the-client", max_tokens=500)
else:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4o", base_url=url + "/v1", api_key="sk-of-the-client", use_responses_api=which == "responses")


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"Rain in {city}"


agent = create_agent(model, [weather], system_prompt="Be brief.")
said = []
for words in ["What is the weather in Oslo?", "And tomorrow?"]:
    said = agent.invoke({"messages": [*said, {"role": "user", "content": words}]})["messages"]
    print(said[-1].text)
