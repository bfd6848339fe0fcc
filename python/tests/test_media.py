"""Pictures, files and thoughts in the frameworks' messages: recorded in a form that providers know, and given back."""

from __future__ import annotations

import base64
from typing import Any

from scrollback import Store

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PDF = b"%PDF-1.4 nothing"
PDF_URL = f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}"


def raw(store: Store, name: str) -> list[Any]:
    return [entry.message for entry in store.conversation(name).entries() if entry.kind == "message"]


def test_llama_index_keeps_blocks_of_every_kind() -> None:
    from llama_index.core.base.llms.types import (
        AudioBlock,
        CachePoint,
        ChatMessage,
        DocumentBlock,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
        VideoBlock,
    )

    from scrollback.adapters.llama_index import ScrollbackMemory

    store = Store(":memory:")
    memory = ScrollbackMemory(store.conversation("anna"), "passthrough")
    asked = ChatMessage(
        role="user",
        blocks=[
            TextBlock(text="what is this?"),
            ImageBlock(image=PNG, image_mimetype="image/png"),
            ImageBlock(url="https://example.com/a.png"),
            AudioBlock(audio=b"RIFF", format="wav"),
            VideoBlock(url="https://example.com/a.mp4"),
            DocumentBlock(data=PDF, title="a.pdf", document_mimetype="application/pdf"),
            CachePoint(cache_control={"type": "ephemeral"}),
        ],
    )
    thought = ThinkingBlock(content="a cat, I think", additional_information={"signature": "s1"})
    memory.put_messages([asked, ChatMessage(role="assistant", blocks=[thought, TextBlock(text="a cat")])])
    first, second = raw(store, "anna")
    assert first["content"][1] == {"type": "image_url", "image_url": {"url": DATA_URL}}
    assert first["content"][2] == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert first["content"][5] == {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}
    assert second["reasoning_content"] == "a cat, I think" and second["content"] == "a cat"
    shown = memory.get()
    assert [block.block_type for block in shown[0].blocks] == [block.block_type for block in asked.blocks]
    picture: Any = shown[0].blocks[1]
    assert picture.resolve_image().read() == PNG and picture.image_mimetype == "image/png"
    paper: Any = shown[0].blocks[5]
    assert paper.resolve_document().read() == PDF and paper.title == "a.pdf"
    assert shown[1].blocks[0] == thought


async def test_agent_framework_keeps_contents_of_every_kind() -> None:
    from agent_framework import Content, Message

    from scrollback.adapters.agent_framework import ScrollbackHistoryProvider

    store = Store(":memory:")
    history = ScrollbackHistoryProvider(store)
    usage = Content.from_usage({"input_token_count": 3})
    asked = Message(
        "user",
        [
            Content.from_text("what is this?"),
            Content.from_data(PNG, "image/png"),
            Content.from_uri("https://example.com/a.png", media_type="image/png"),
            Content.from_data(PDF, "application/pdf"),
            Content.from_hosted_file("file-1"),
        ],
    )
    thought = Content.from_text_reasoning(text="a cat, I think", protected_data="s1")
    call = Content.from_function_call("c1", "look", arguments="{}")
    result = Content.from_function_result("c1", result=[Content.from_text("see:"), Content.from_data(PNG, "image/png")])
    said = [asked, Message("assistant", [thought, call]), Message("tool", [result]), Message("assistant", [Content.from_text("a cat"), usage])]
    await history.save_messages("anna", said)
    texts = raw(store, "anna")
    assert texts[0]["content"][1] == {"type": "image_url", "image_url": {"url": DATA_URL}}
    assert texts[1]["reasoning_content"] == "a cat, I think" and texts[1]["tool_calls"][0]["id"] == "c1"
    assert texts[2]["content"][1] == {"type": "image_url", "image_url": {"url": DATA_URL}}
    back = await history.get_messages("anna")
    assert [content.type for content in back[0].contents] == [content.type for content in asked.contents]
    assert back[0].contents[1].uri == DATA_URL and back[0].contents[3].uri == PDF_URL
    assert back[0].contents[4].file_id == "file-1"
    assert (back[1].contents[0].text, back[1].contents[0].protected_data) == ("a cat, I think", "s1")
    items = back[2].contents[0].items or []
    assert [item.type for item in items] == ["text", "data"] and items[1].uri == DATA_URL
    assert back[3].contents[1].type == "usage" and back[3].text == "a cat"


async def test_pydantic_ai_records_and_sends_media_and_thoughts() -> None:
    from pydantic_ai import Agent, BinaryContent, DocumentUrl, ImageUrl
    from pydantic_ai.messages import FilePart, ModelMessage, ModelResponse, TextPart, ThinkingPart
    from pydantic_ai.models.function import FunctionModel

    from scrollback.adapters.pydantic_ai import from_json

    asked: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
        asked.append(messages)
        drawn = FilePart(BinaryContent(PNG, media_type="image/png"))
        return ModelResponse(parts=[ThinkingPart("a cat, I think", signature="s1"), TextPart("a cat"), drawn])

    store = Store(":memory:")
    agent: Any = Agent(FunctionModel(model), capabilities=[store.capability("passthrough", recipient="anna")])
    prompt = [
        "what is this?",
        ImageUrl("https://example.com/a.png"),
        BinaryContent(PDF, media_type="application/pdf"),
        DocumentUrl("https://example.com/a.pdf"),
    ]
    await agent.run(prompt)
    first, second = raw(store, "anna")
    assert first["content"][1] == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert first["content"][2]["file"]["file_data"] == PDF_URL
    assert first["content"][3] == {"type": "document_url", "document_url": {"url": "https://example.com/a.pdf"}}
    assert second["reasoning_content"] == "a cat, I think"
    assert second["content"][1] == {"type": "image_url", "image_url": {"url": DATA_URL}}
    assert asked[0][0].parts[0].content == prompt  # type: ignore[union-attr]
    again: Any = from_json(first)
    kinds = [getattr(one, "kind", "text") for one in again.parts[0].content]
    assert kinds == ["text", "image-url", "binary", "document-url"]
    assert again.parts[0].content[2].data == PDF
    reply: Any = from_json(second)
    assert [part.part_kind for part in reply.parts] == ["text", "file"] and reply.parts[1].content.data == PNG
