"""The adapters once more, in the real frameworks: replies that stream, tools, and runs beside each other; mostly with
`auto`, for models that nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from test_frameworks import langchain_model, said

from scrollback import Store

NAMES = [f"person {number}" for number in range(5)]
ROUND = ["user", "assistant", "tool", "assistant"]


def check(store: Store, names: Sequence[str] = NAMES, roles: Sequence[str] = ROUND) -> None:
    """Each conversation has its own question, the call, the result and the answer, once and in that order."""
    for name in names:
        entries = said(store, name)
        assert [role for role, _ in entries] == list(roles), (name, entries)
        assert name in str(entries[0][1])
        others = [other for other in NAMES if other != name]
        assert not any(other in str(text) for _, text in entries for other in others)
        if len(roles) == 4:
            assert "sunny" in str(entries[-1][1])


# OpenAI Agents SDK


async def test_openai_agents_stream_with_tools_and_beside_each_other() -> None:
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
            raise NotImplementedError

        async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> AsyncIterator[Any]:
            await asyncio.sleep(0.01)
            last = input[-1]
            output: Any
            if last.get("type") == "function_call_output":
                text = ResponseOutputText(type="output_text", text=f"it is {last['output']}", annotations=[])
                output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            else:
                output = ResponseFunctionToolCall(type="function_call", call_id="c1", name="look", arguments="{}")
            told = Response(
                id="r", created_at=1, model="m", object="response", output=[output], tool_choice="auto", tools=[], parallel_tool_calls=False
            )
            yield ResponseCompletedEvent(type="response.completed", response=told, sequence_number=1)

    @function_tool
    def look() -> str:
        return "sunny"

    store = Store(":memory:")
    agent = Agent(name="weather", model=Scripted(), tools=[look])

    async def run(name: str) -> None:
        result = Runner.run_streamed(agent, name, session=store.session(name), run_config=store.run_config("auto"))
        async for _ in result.stream_events():
            pass
        assert result.final_output == "it is sunny"

    await asyncio.gather(*map(run, NAMES))
    check(store)


# LangChain


async def test_langchain_streams() -> None:
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    @tool
    def look() -> str:
        """Looks."""
        return "sunny"

    store, asked = Store(":memory:"), list[Any]()
    agent: Any = create_agent(langchain_model(asked), [look], middleware=[store.middleware("auto")])
    seen: list[str] = []
    for kind, _ in agent.stream(
        {"messages": [HumanMessage("person 0")]}, {"configurable": {"thread_id": "person 0"}}, stream_mode=["messages", "updates"]
    ):
        seen.append(kind)
    assert "messages" in seen and "updates" in seen

    async def run(name: str) -> None:
        async for _ in agent.astream({"messages": [HumanMessage(name)]}, {"configurable": {"thread_id": name}}, stream_mode="messages"):
            pass

    await asyncio.gather(*map(run, NAMES[1:]))
    check(store)


# Pydantic AI


async def test_pydantic_ai_streams_with_tools_and_beside_each_other() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    async def model(messages: Any, info: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            yield "it is "
            yield last.content
        else:
            yield {0: DeltaToolCall("look", "{}", tool_call_id="c1")}

    store = Store(":memory:")

    async def run(name: str) -> None:
        agent: Any = Agent(FunctionModel(stream_function=model), capabilities=[store.capability("auto", recipient=name)])

        @agent.tool_plain
        def look() -> str:
            return "sunny"

        async with agent.run_stream(name) as result:
            assert [text async for text in result.stream_text(delta=True, debounce_by=None)] == ["it is ", "sunny"]

    await asyncio.gather(*map(run, NAMES))
    check(store)


# Strands


async def test_strands_agents_beside_each_other_do_not_mix() -> None:
    from strands import Agent, tool
    from strands.models import Model

    from scrollback.adapters.strands import ScrollbackConversationManager, ScrollbackSessionManager

    class Scripted(Model):
        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **more: Any) -> Any:
            await asyncio.sleep(0.01)
            yield {"messageStart": {"role": "assistant"}}
            if any("toolResult" in block for block in messages[-1]["content"]):
                for text in ("it is ", "sunny"):
                    yield {"contentBlockDelta": {"delta": {"text": text}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "end_turn"}}
            else:
                yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "c1", "name": "look"}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "tool_use"}}

    @tool
    def look() -> str:
        """Looks."""
        return "sunny"

    store = Store(":memory:")

    async def run(name: str) -> None:
        agent: Any = Agent(
            model=Scripted(),
            tools=[look],
            callback_handler=None,
            conversation_manager=ScrollbackConversationManager(),
            session_manager=ScrollbackSessionManager(store.conversation(name)),
        )
        pieces = [event["data"] async for event in agent.stream_async(name) if "data" in event]
        assert pieces == ["it is ", "sunny"]

    await asyncio.gather(*map(run, NAMES))
    check(store)


def test_strands_tries_again_with_less_when_the_model_says_that_it_was_too_much() -> None:
    from strands import Agent
    from strands.models import Model
    from strands.types.exceptions import ContextWindowOverflowException

    from scrollback.adapters.strands import ScrollbackConversationManager

    sent: list[int] = []

    class Small(Model):
        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **more: Any) -> Any:
            sent.append(len(messages))
            if len(messages) > 3:
                raise ContextWindowOverflowException("too much")
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    before: list[Any] = [
        {"role": role, "content": [{"text": f"{role} {number}"}]} for number in range(5) for role in ("user", "assistant")
    ]
    agent: Any = Agent(
        model=Small(),
        messages=before,
        callback_handler=None,
        conversation_manager=ScrollbackConversationManager("passthrough", fallback="sliding_window(3)"),
    )
    agent("one more")
    assert sent == [11, 3] and len(agent.messages) == 12, "the agent keeps everything"
    with pytest.raises(ContextWindowOverflowException):
        strict: Any = Agent(
            model=Small(),
            messages=before,
            callback_handler=None,
            conversation_manager=ScrollbackConversationManager("passthrough", fallback="passthrough"),
        )
        strict("one more")


# Microsoft Agent Framework


async def test_agent_framework_streams_with_tools_and_beside_each_other() -> None:
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        FunctionInvocationLayer,
        Message,
        ResponseStream,
        tool,
    )

    from scrollback.adapters.agent_framework import ScrollbackCompaction, ScrollbackHistoryProvider

    asked: list[list[str]] = []

    def reply(messages: Sequence[Message]) -> list[Content]:
        asked.append([str(one.role) for one in messages])
        results = [content for content in messages[-1].contents if content.type == "function_result"]
        if results:
            return [Content.from_text("it is "), Content.from_text(str(results[0].result))]
        return [Content.from_function_call("c1", "look", arguments="{}")]

    class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[type-arg,misc]
        def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **more: Any) -> Any:
            async def answer() -> ChatResponse:
                await asyncio.sleep(0.01)
                return ChatResponse(messages=[Message("assistant", reply(messages))])

            async def updates() -> AsyncIterator[ChatResponseUpdate]:
                await asyncio.sleep(0.01)
                for content in reply(messages):
                    yield ChatResponseUpdate(contents=[content], role="assistant")

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else answer()

    @tool(approval_mode="never_require")
    def look() -> str:
        """Looks."""
        return "sunny"

    store = Store(":memory:")
    agent: Any = Agent(
        Scripted(),
        tools=[look],
        context_providers=[ScrollbackHistoryProvider(store)],
        compaction_strategy=ScrollbackCompaction("turn_window(1)"),
    )

    async def run(name: str) -> None:
        session = agent.create_session(session_id=name)
        stream = agent.run(name, session=session, stream=True)
        assert "".join([update.text async for update in stream]) == "it is sunny"

    await asyncio.gather(*map(run, NAMES))
    check(store)
    await agent.run("person 0 again", session=agent.create_session(session_id="person 0"))
    assert asked[-1] == ["user", "assistant", "tool"], "the model is sent the last turn alone"
    check(store, NAMES[:1], ROUND * 2)


# LlamaIndex


async def test_llama_index_agents_stream_with_tools_and_beside_each_other() -> None:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ToolCallBlock
    from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
    from llama_index.core.llms.function_calling import FunctionCallingLLM
    from llama_index.core.tools import FunctionTool, ToolSelection

    from scrollback.adapters.llama_index import ScrollbackMemory

    asked: list[list[str]] = []

    class Scripted(FunctionCallingLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

        def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **more: Any) -> Any:
            return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

        def get_tool_calls_from_response(self, response: Any, error_on_no_tool_call: bool = True, **more: Any) -> Any:
            calls = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
            return [ToolSelection(tool_id=str(one.tool_call_id), tool_name=one.tool_name, tool_kwargs={}) for one in calls]

        async def astream_chat(self, messages: Sequence[ChatMessage], **more: Any) -> Any:
            asked.append([message.role.value for message in messages])

            async def pieces() -> Any:
                await asyncio.sleep(0.01)
                if messages[-1].role == "tool":
                    yield ChatResponse(message=ChatMessage(role="assistant", content="it is "), delta="it is ")
                    text = f"it is {messages[-1].content}"
                    yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=str(messages[-1].content))
                else:
                    call = ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={})
                    yield ChatResponse(message=ChatMessage(role="assistant", blocks=[call]), delta="")

            return pieces()

        async def achat(self, messages: Any, **more: Any) -> Any:
            raise NotImplementedError

        def chat(self, messages: Any, **more: Any) -> Any:
            raise NotImplementedError

        def stream_chat(self, messages: Any, **more: Any) -> Any:
            raise NotImplementedError

        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> CompletionResponse:
            raise NotImplementedError

        async def acomplete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

        def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

        async def astream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

    def look() -> str:
        """Looks."""
        return "sunny"

    store = Store(":memory:")

    async def run(name: str, words: str) -> None:
        memory = ScrollbackMemory(store.conversation(name), "turn_window(1)")
        agent = FunctionAgent(tools=[FunctionTool.from_defaults(look)], llm=Scripted(), streaming=True)
        handler = agent.run(words, memory=memory)
        async for _ in handler.stream_events():
            pass
        assert str(await handler) == "it is sunny"

    await asyncio.gather(*(run(name, name) for name in NAMES))
    check(store)
    await run("person 0", "person 0 again")
    assert [role for role in asked[-1] if role != "system"] == ["user", "assistant", "tool"]
    check(store, NAMES[:1], ROUND * 2)


# Google ADK


async def test_adk_streams_with_tools_and_beside_each_other() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from scrollback.adapters.adk import ScrollbackPlugin

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            assert stream
            await asyncio.sleep(0.01)
            last = (llm_request.contents[-1].parts or [])[-1]
            if last.function_response is None:
                call = types.FunctionCall(name="look", args={}, id="c1")
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
                return
            for text in ("it is ", "sunny"):
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="it is sunny")]))

    def look() -> dict[str, str]:
        """Looks."""
        return {"weather": "sunny"}

    store = Store(":memory:")
    agent = LlmAgent(name="weather", model=Scripted(model="scripted"), tools=[look])
    runner: Any = InMemoryRunner(agent=agent, app_name="app", plugins=[ScrollbackPlugin(store)])

    async def run(name: str) -> None:
        session = await runner.session_service.create_session(app_name="app", user_id="u", session_id=name)
        content = types.Content(role="user", parts=[types.Part(text=name)])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        events = [one async for one in runner.run_async(user_id="u", session_id=session.id, new_message=content, run_config=config)]
        assert sum(bool(one.partial) for one in events) == 2

    await asyncio.gather(*map(run, NAMES))
    check(store)


# `auto` has the window of the model for its limit; of a model that nobody knows it has none.


def test_auto_cuts_at_the_window_of_a_model_that_is_known_and_at_32k_of_one_that_is_not() -> None:
    from scrollback._sending import sent_to

    chat = Store(":memory:").conversation("anna")
    chat.append({"role": "user", "content": "look at everything"})
    for number in range(120):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": f'{{"n":{number}}}'}}
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of the log " * 80}
        chat.append([{"role": "assistant", "content": None, "tool_calls": [call]}, result])
    known = sent_to(lambda manager, model: chat.view(manager, model=model), "auto", "gpt-4.1")
    unknown = sent_to(lambda manager, model: chat.view(manager, model=model), "auto", "a-model-of-our-own")
    assert known.sent == known.recorded and known.tokens > 32_000, "all of it fits into the window"
    assert unknown.tokens <= 32_000 and unknown.manager == "auto(32k)"


async def test_auto_needs_no_model_in_the_adapters_that_know_none() -> None:
    from agent_framework import Message
    from llama_index.core.llms import ChatMessage

    from scrollback.adapters.agent_framework import ScrollbackCompaction
    from scrollback.adapters.langchain import ScrollbackChatMessageHistory
    from scrollback.adapters.llama_index import ScrollbackMemory

    store = Store(":memory:")
    memory = ScrollbackMemory(store.conversation("anna"))
    memory.put(ChatMessage(role="user", content="hello"))
    assert [message.content for message in memory.get()] == ["hello"]
    assert [one.content for one in ScrollbackChatMessageHistory(store.conversation("anna"), "auto").messages] == ["hello"]
    assert await ScrollbackCompaction()([Message("user", ["hello"])]) is False
