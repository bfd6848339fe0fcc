"""The google-genai package: a tool, an answer, and a second round. Argument: where the provider is."""

import sys

from google import genai
from google.genai import types

client = genai.Client(api_key="key-of-the-client", http_options=types.HttpOptions(base_url=sys.argv[1]))


def weather(city: str) -> str:
    """The weather."""
    return f"Rain in {city}"


settings = types.GenerateContentConfig(system_instruction="Be brief.", tools=[weather])
chat = client.chats.create(model="gemini-3-pro", config=settings)
for words in ["What is the weather in Oslo?", "And tomorrow?"]:
    print(chat.send_message(words).text)
