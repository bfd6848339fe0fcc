"""The adapters, each in the real framework with a scripted model: what the model is sent, what is recorded, what the framework
keeps, and that runs beside each other do not mix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from scrollback import Store


def said(store: Store, name: str) -> list[tuple[str | None, str | None]]:
    return [(entry.role, entry.text) for entry in store.conversation(name).entries() if entry.kind == "message"]


def fill(store: Store, name: str, turns: int = 10, wire: str = "openai-chat") -> None:
    for number in range(turns):
        if wire == "gemini":
            user = {"role": "user", "parts": [{"text": f"old {number}"}]}
            model = {"role": "model", "parts": [{"text": f"old answer {number}"}]}
            store.conversation(name).append([user, model], wire=wire)
        else:
            user = {"role": "user", "content": f"old {number}"}
            store.conversation(name).append([user, {"role": "assistant", "content": f"old answer {number}"}])


# OpenAI Agents SDK


async def test_openai_agents_session_and_filter() -> None:
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        def __init__(self) -> None:
            self.asked: list[Any] = []

        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
            self.asked.append(input)
            last = input[-1]
            output: Any
            if last.get("type") == "function_call_output":
                text = ResponseOutputText(type="output_text", text=f"it is {last['output']}", annotations=[])
                output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            else:
                output = ResponseFunctionToolCall(type="function_call", call_id=f"c{len(self.asked)}", name="look", arguments="{}")
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
            raise NotImplementedError

    @function_tool
    def look() -> str:
        return "sunny"

    store, model = Store(":memory:"), Scripted()
    agent = Agent(name="weather", model=model, tools=[look])
    for number in range(4):
        session = store.session("anna")
        result = await Runner.run(agent, f"question {number}", session=session, run_config=store.run_config("turn_window(1)"))
        assert result.final_output == "it is sunny"
    assert [item.get("content", item.get("type")) for item in model.asked[-1]] == [
        "question 3",
        "function_call",
        "function_call_output",
    ]
    items = await store.session("anna").get_items()
    assert len(items) == 16, "the session has everything"
    assert len(await store.session("anna").get_items(limit=3)) == 3
    popped = await store.session("anna").pop_item()
    assert popped is not None and popped.get("role") == "assistant"
    assert await store.session("anna").get_items() == items[:-1]
    await store.session("anna").clear_session()
    assert await store.session("anna").get_items() == []


# LangChain


def langchain_model(asked: list[Any]) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
            asked.append(messages)
            if messages[-1].type == "tool":
                reply = AIMessage(f"it is {messages[-1].content}")
            else:
                reply = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"c{len(asked)}"}])
            return ChatResult(generations=[ChatGeneration(message=reply)])

    return Scripted()


def test_langchain_middleware_and_history() -> None:
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import tool

    from scrollback.adapters.langchain import ScrollbackChatMessageHistory

    @tool
    def look() -> str:
        """Looks."""
        return "sunny"

    asked: list[Any] = []
    store = Store(":memory:")
    agent: Any = create_agent(langchain_model(asked), [look], system_prompt="Be brief.", middleware=[store.middleware("turn_window(1)")])
    state: Any = {"messages": []}
    for number in range(3):
        state = agent.invoke(
            {"messages": [*state["messages"], HumanMessage(f"question {number}")]}, {"configurable": {"thread_id": "anna"}}
        )
    assert [message.type for message in asked[-1]] == ["system", "human", "ai", "tool"]
    assert asked[-1][1].content == "question 2" and asked[-1][0].content == "Be brief."
    assert len(state["messages"]) == 12, "the agent's own state has everything"
    assert [role for role, _ in said(store, "anna")] == ["user", "assistant", "tool", "assistant"] * 3

    async def together() -> None:
        runs = (
            agent.ainvoke({"messages": [HumanMessage(f"from {name}")]}, {"configurable": {"thread_id": name}})
            for name in ("bert", "cleo", "dora")
        )
        await asyncio.gather(*runs)

    asyncio.run(together())
    for name in ("bert", "cleo", "dora"):
        assert said(store, name)[0] == ("user", f"from {name}") and len(said(store, name)) == 4
    history = ScrollbackChatMessageHistory(store.conversation("emil"), "sliding_window(2)")
    history.add_messages([HumanMessage("one"), AIMessage("two"), HumanMessage("three")])
    assert [message.content for message in history.messages] == ["two", "three"]
    history.clear()
    assert history.messages == []


# Pydantic AI


async def test_pydantic_ai_capability() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    asked: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
        asked.append(messages)
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            return ModelResponse(parts=[TextPart(f"it is {last.content}")])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id=f"c{len(asked)}")])

    store = Store(":memory:")
    agent: Any = Agent(FunctionModel(model), capabilities=[store.capability("turn_window(1)", recipient="anna")])

    @agent.tool_plain
    def look() -> str:
        return "sunny"

    history: Any = None
    for number in range(3):
        result = await agent.run(f"question {number}", message_history=history)
        history = result.all_messages()
    assert result.output == "it is sunny"
    assert [part.part_kind for one in asked[-1] for part in one.parts] == ["user-prompt", "tool-call", "tool-return"]
    assert asked[-1][0].parts[0].content == "question 2"  # type: ignore[union-attr]
    assert len(history) == 12, "the run's own history has everything"
    assert [role for role, _ in said(store, "anna")] == ["user", "assistant", "tool", "assistant"] * 3


# Strands


def test_strands_manager_and_session() -> None:
    from strands import Agent, tool
    from strands.models import Model

    from scrollback.adapters.strands import ScrollbackConversationManager, ScrollbackSessionManager

    class Scripted(Model):
        def __init__(self) -> None:
            self.asked: list[Any] = []

        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **more: Any) -> Any:
            self.asked.append(messages)
            yield {"messageStart": {"role": "assistant"}}
            if any("toolResult" in block for block in messages[-1]["content"]):
                yield {"contentBlockDelta": {"delta": {"text": "it is sunny"}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "end_turn"}}
            else:
                use = {"toolUse": {"toolUseId": f"c{len(self.asked)}", "name": "look"}}
                yield {"contentBlockStart": {"start": use}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "tool_use"}}

    @tool
    def look() -> str:
        """Looks."""
        return "sunny"

    store, model = Store(":memory:"), Scripted()

    def agent() -> Any:
        return Agent(
            model=model,
            tools=[look],
            callback_handler=None,
            conversation_manager=ScrollbackConversationManager("turn_window(1)"),
            session_manager=ScrollbackSessionManager(store.conversation("anna")),
        )

    first = agent()
    for number in range(3):
        first(f"question {number}")
    assert [block for block in model.asked[-1][0]["content"]] == [{"text": "question 2"}]
    assert len(model.asked[-1]) == 3 and len(first.messages) == 12
    again = agent()
    assert len(again.messages) == 12, "a new agent knows what was said"
    again("question 3")
    assert len(store.conversation("anna")) == 16


# Microsoft Agent Framework


async def test_agent_framework_history_and_compaction() -> None:
    from agent_framework import Agent, BaseChatClient, ChatResponse, Message

    from scrollback.adapters.agent_framework import ScrollbackCompaction, ScrollbackHistoryProvider

    class Scripted(BaseChatClient):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[list[tuple[str, str]]] = []

        def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **more: Any) -> Any:
            async def answer() -> ChatResponse:
                self.asked.append([(str(one.role), one.text) for one in messages])
                return ChatResponse(messages=[Message("assistant", [f"answer {len(self.asked)}"])])

            return answer()

    store, client = Store(":memory:"), Scripted()
    agent: Any = Agent(
        client,
        context_providers=[ScrollbackHistoryProvider(store)],
        compaction_strategy=ScrollbackCompaction("sliding_window(3)"),
    )
    session = agent.create_session(session_id="anna")
    for number in range(1, 5):
        await agent.run(f"question {number}", session=session)
    assert client.asked[-1] == [("user", "question 3"), ("assistant", "answer 3"), ("user", "question 4")]
    wanted = [(role, f"{what} {number}") for number in range(1, 5) for role, what in (("user", "question"), ("assistant", "answer"))]
    assert said(store, "anna") == wanted


# LlamaIndex


async def test_llama_index_memory() -> None:
    from llama_index.core.chat_engine import SimpleChatEngine
    from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse, CustomLLM, LLMMetadata

    from scrollback.adapters.llama_index import ScrollbackMemory

    asked: list[list[ChatMessage]] = []

    class Scripted(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(is_chat_model=True)

        def chat(self, messages: Sequence[ChatMessage], **more: Any) -> ChatResponse:
            asked.append(list(messages))
            return ChatResponse(message=ChatMessage(role="assistant", content=f"answer {len(asked)}"))

        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> CompletionResponse:
            raise NotImplementedError

        def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

    store = Store(":memory:")
    memory = ScrollbackMemory(store.conversation("anna"), "sliding_window(3)")
    engine = SimpleChatEngine.from_defaults(llm=Scripted(), memory=memory)
    for number in range(1, 5):
        engine.chat(f"question {number}")
    assert [message.content for message in asked[-1]] == ["question 3", "answer 3", "question 4"]
    assert len(memory.get_all()) == 8 and len(await memory.aget()) == 3
    memory.reset()
    assert memory.get_all() == []


# Google ADK


async def test_adk_plugin() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from scrollback.adapters.adk import ScrollbackPlugin

    asked: list[list[types.Content]] = []

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            asked.append(list(llm_request.contents))
            last = (llm_request.contents[-1].parts or [])[-1]
            if last.function_response is not None:
                part = types.Part(text="it is sunny")
            else:
                part = types.Part(function_call=types.FunctionCall(name="look", args={}, id=f"c{len(asked)}"))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def look() -> dict[str, str]:
        """Looks."""
        return {"weather": "sunny"}

    store = Store(":memory:")
    agent = LlmAgent(name="weather", model=Scripted(model="scripted"), tools=[look])
    runner: Any = InMemoryRunner(agent=agent, app_name="app", plugins=[ScrollbackPlugin(store, "turn_window(1)")])
    session = await runner.session_service.create_session(app_name="app", user_id="u", session_id="anna")
    for number in range(3):
        content = types.Content(role="user", parts=[types.Part(text=f"question {number}")])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=content):
            pass
    texts = [part.text or "call" for one in asked[-1] for part in one.parts or []]
    assert texts == ["question 2", "call", "call"]
    kept = await runner.session_service.get_session(app_name="app", user_id="u", session_id="anna")
    assert len(kept.events) == 12, "the session service has everything"
    assert len(said(store, "anna")) == 12
