"""Every block of the documentation runs as it stands there, page by page, and so does the notebook."""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from test_clients import Scripted, completion

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/python").glob("*.md"))


class Anthropic(BaseHTTPRequestHandler):
    """A provider for the blocks that call one."""

    def do_POST(self) -> None:
        import json

        from test_clients import message

        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(message(1)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def world() -> Any:
    """What the pages take for granted: models, clients, a provider's address."""
    import httpx
    import openai
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from pydantic_ai.models.test import TestModel

    provider = ThreadingHTTPServer(("127.0.0.1", 0), Anthropic)
    Thread(target=provider.serve_forever, daemon=True).start()
    transport = httpx.MockTransport(Scripted(completion))
    yield {
        "address": f"http://127.0.0.1:{provider.server_address[1]}",
        "client": openai.OpenAI(api_key="x", http_client=httpx.Client(transport=transport)),
        "openai_agents_model": agents_model(),
        "langchain_model": FakeListChatModel(responses=["hello"]),
        "pydantic_model": TestModel(),
        "strands_model": strands_model(),
        "framework_client": framework_client(),
        "llama_model": llama_model(),
        "adk_agent": adk_agent(),
    }
    provider.shutdown()
    provider.server_close()


def agents_model() -> Any:
    from agents import OpenAIChatCompletionsModel, set_tracing_disabled
    import httpx
    import openai

    set_tracing_disabled(True)
    transport = httpx.MockTransport(Scripted(completion))
    client = openai.AsyncOpenAI(api_key="x", http_client=httpx.AsyncClient(transport=transport))
    return OpenAIChatCompletionsModel("gpt-4o", client)


def strands_model() -> Any:
    from strands.models import Model

    class Says(Model):
        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *args: Any, **more: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockDelta": {"delta": {"text": "hello"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    return Says()


def framework_client() -> Any:
    from agent_framework import BaseChatClient, ChatResponse, Message

    class Says(BaseChatClient):  # type: ignore[type-arg]
        def _inner_get_response(self, **more: Any) -> Any:
            async def answer() -> ChatResponse:
                return ChatResponse(messages=[Message("assistant", ["hello"])])

            return answer()

    return Says()


def llama_model() -> Any:
    from llama_index.core.llms import ChatMessage, ChatResponse, CustomLLM, LLMMetadata

    class Says(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(is_chat_model=True)

        def chat(self, messages: Any, **more: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant", content="hello"))

        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

        def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

    return Says()


def adk_agent() -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class Says(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="hello")]))

    return LlmAgent(name="shop", model=Says(model="scripted"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = [(match.start(), match[1]) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    assert blocks, f"{page} has no blocks"
    for start, block in blocks:
        line = text[:start].count("\n") + 1
        exec(compile("\n" * line + block, str(page), "exec"), world)  # noqa: S102 - that is the test


def test_the_pages_are_the_four_tasks_and_the_start() -> None:
    assert {page.stem for page in PAGES} >= {"start", "keep", "adapters", "simulate", "notebooks"}


def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    book = nbformat.read(ROOT / "examples/notebook.ipynb", as_version=4)
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path / "examples")}}).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("text/html" in output.get("data", {}) for output in shown) >= 3


@pytest.mark.parametrize("name", ["_store", "_curate", "_errors", "_memory", "_async"])
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(f"scrollback.{name}"))
    assert done.failed == 0 and (done.attempted > 0 or name == "_errors")
