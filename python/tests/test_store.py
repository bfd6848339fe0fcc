"""Stores and conversations: the same for a file and for a server."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from scrollback import (
    ArgumentError,
    AsyncStore,
    ManagerError,
    Memory,
    MessagesError,
    NotFoundError,
    ScrollbackError,
    Store,
    View,
    ViewError,
)


def talk(turns: int) -> list[dict[str, str]]:
    said: list[dict[str, str]] = []
    for number in range(turns):
        said += [
            {"role": "user", "content": f"question {number} about order A-{number:04}"},
            {"role": "assistant", "content": f"answer {number}"},
        ]
    return said


def test_what_is_appended_is_what_a_request_holds(store: Store, name: str) -> None:
    chat = store.conversation(name)
    assert len(chat) == 0 and chat.id is None
    chat.append({"role": "system", "content": "Be brief."})
    handles = chat.append([{"role": "user", "content": "Where is my order?"}])
    view = chat.view("auto(32k)", wire="anthropic", model="claude-sonnet-5")
    assert view.request == {
        "model": "claude-sonnet-5",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Where is my order?"}],
    }
    assert view.tokens > 0 and not view.exact and len(view) == 2
    assert handles[0].startswith("sb:") and handles[0].endswith("#1")
    assert chat.read(handles[0]).text == "Where is my order?"


def test_a_view_leaves_out_and_says_so_and_the_record_keeps_everything(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append(talk(10))
    view = chat.view("sliding_window(4)", model="gpt-4o")
    assert isinstance(view, View) and view.exact and view.wire == "openai-chat"
    assert [message["content"] for message in view.messages][-1] == "answer 9"
    why = view.explain()
    assert len(why.dropped) == 16 and {one.manager for one in why.dropped} == {"sliding_window"}
    assert "sliding_window" in view._repr_html_() and "<table>" in why._repr_html_()
    assert len(chat) == 20 and len(chat.entries()) == 20
    assert [one.index for one in view.items] == [16, 17, 18, 19]
    later = chat.view("sliding_window(4)")
    chat.append(talk(1))
    assert len(later.explain().dropped) == 16, "a view explains what it was, not what came later"


def test_tool_calls_and_their_results_stay_together(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append(talk(3))
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"id":  "A-7"}'}}
    chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
    chat.append({"role": "tool", "tool_call_id": "c1", "content": "in transit"})
    shown = chat.view("sliding_window(1)", wire="openai-chat").messages
    assert shown[-2]["tool_calls"][0]["function"]["arguments"] == '{"id":  "A-7"}'
    assert shown[-1]["content"] == "in transit"
    shown = chat.view("sliding_window(2)", wire="anthropic").messages
    assert shown[-1]["content"][0]["tool_use_id"] == "c1"


def test_replies_of_sdks_are_appended_as_they_come(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append({"role": "user", "content": "hi"})
    reply = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    }
    from openai.types.chat import ChatCompletion

    chat.append(ChatCompletion.model_validate(reply))
    from anthropic.types import Message

    told = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "and hello again"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    chat.append(Message.model_validate(told))
    chat.append(json.dumps(told))
    assert [entry.text for entry in chat.entries()] == ["hi", "hello", "and hello again", "and hello again"]


def test_search_read_pin_and_erase(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append(talk(6))
    [hit] = chat.search('"order A-0003"')
    assert hit.position == 6 and "«" in hit.snippet and chat.read(hit.handle).role == "user"
    assert [one.handle for one in store.search("A-0003", recipient=name)] == [hit.handle]
    assert store.read(hit.handle)[0].text == "question 3 about order A-0003"
    chat.pin([0])
    assert chat.view("sliding_window(2)").items[0].index == 0
    chat.unpin([0])
    assert chat.view("sliding_window(2)").items[0].index == 10
    assert chat.erase(6).erased == 1 and chat.search("A-0003") == []
    assert chat.entries(6, 6)[0].kind == "erased"
    assert chat.erase().erased == 11


def test_a_list_of_the_programs_own_is_followed(store: Store, name: str) -> None:
    chat = store.conversation(name)
    own = talk(2)
    assert chat.follow(own).positions == [0, 1, 2, 3]
    own.append({"role": "user", "content": "and now?"})
    done = chat.follow(own)
    assert done.positions == [0, 1, 2, 3, 4] and done.appended == 1
    assert chat.follow(own[-1:]).appended == 0, "the newest part alone is known too"
    other = [*own[:2], {"role": "user", "content": "something else"}]
    done = chat.follow(other)
    assert done.branched and [entry.text for entry in chat.entries()][-1] == "something else"
    assert len(chat) == 3


def test_a_plan_is_recorded_so_that_the_next_view_begins_as_this_one(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append({"role": "user", "content": "look at everything"})
    for number in range(30):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": f'{{"n":{number}}}'}}
        chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
        chat.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} " * 60})
    first = chat.view("auto(2000)", model="gpt-4o").messages
    assert "decision" in {entry.kind for entry in chat.entries()}
    chat.append({"role": "assistant", "content": "seen"})
    chat.append({"role": "user", "content": "more"})
    second = chat.view("auto(2000)", model="gpt-4o").messages
    assert second[: len(first)] == first


def test_status_and_summary(store: Store, name: str) -> None:
    chat = store.conversation(name)
    assert chat.status.status == "idle" and chat.summary is None
    chat.append(talk(8))
    assert chat.status.status == "active"
    chat.set_status("closed")
    assert chat.status.status == "closed" and not chat.status.due
    text = chat.compact(keep=2)
    assert text is not None and chat.summary == text
    with pytest.raises(ArgumentError, match="active"):
        chat.set_status("gone")


def test_memory_is_one_line(store: Store, name: str) -> None:
    memory = Memory(name, store)
    for message in talk(12):
        memory.append(message["role"], message["content"])
    assert [message["content"] for message in memory.last(2)] == ["question 11 about order A-0011", "answer 11"]
    assert memory.summary and memory.erase().erased == 24


def test_each_kind_of_error_is_a_class_with_a_code(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append(talk(2))
    with pytest.raises(ManagerError) as manager:
        chat.view("slidin_window(3)")
    assert manager.value.code == "unknown_manager" and "sliding_window" in str(manager.value)
    with pytest.raises(MessagesError) as messages:
        chat.append([{"role": "user", "content": 7}])
    assert messages.value.path.startswith("/") and messages.value.code == "bad_message"
    with pytest.raises(ViewError) as view:
        chat.view("token_budget(3)")
    assert view.value.code == "budget_too_small"
    with pytest.raises(ArgumentError, match="anthropic"):
        chat.view("passthrough", wire="antropic")
    with pytest.raises(ArgumentError):
        chat.read("message 4")
    with pytest.raises(NotFoundError):
        chat.read((chat.id or "")[-10:].join(["sb:", "#99"]))
    with pytest.raises(ArgumentError):
        store.conversation("")
    assert len(chat) == 4, "nothing was half-written"


async def test_the_async_twins_do_the_same(store: Store, name: str) -> None:
    from scrollback import AsyncConversation

    chat = AsyncConversation(store.conversation(name))
    await chat.append(talk(3))
    assert await chat.length() == 6 and (await chat.view("sliding_window(2)")).sent == 2
    assert len(await chat.search("A-0001")) == 1 and (await chat.entries(0, 0))[0].role == "user"
    assert (await chat.erase()).erased == 6 and (await chat.status()).status == "active"
    async with AsyncStore(":memory:") as own:
        assert await (await own.conversation("anna")).length() == 0


def test_search_takes_the_options_of_recall(store: Store, name: str) -> None:
    chat = store.conversation(name)
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"order": "A-7"}'}}
    handles = chat.append(
        [
            {"role": "user", "content": "Where is zebra order A-7?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "zebra in transit"},
            {"role": "assistant", "content": "The zebra is on its way."},
        ]
    )
    assert [hit.handle for hit in chat.search("zebra", role="assistant")] == [handles[3]]
    assert [hit.handle for hit in chat.search("zebra", tool="track")] == [handles[2]]
    assert chat.search("zebra", since=datetime.now(timezone.utc) + timedelta(hours=1)) == []
    assert chat.search("zebra", before="2020-01-01T00:00:00Z") == []
    assert len(chat.search("zebra", since="2020-01-01T00:00:00Z")) == 3
    assert {hit.handle for hit in store.search("zebra", recipient=name, role="tool")} == {handles[2]}
    assert [entry.position for entry in chat.around(handles[1], before=1, after=1)] == [0, 1, 2]
    assert [entry.position for entry in store.around(handles[3], before=2, after=9)] == [1, 2, 3]
    assert [entry.position for entry in store.read(f"{handles[1]}-2")] == [1, 2]
    if "http" in repr(store):
        with pytest.raises(ArgumentError, match="recall"):
            chat.search("/zeb[r]a/")
        assert handles[0] in chat.recall("search", query="/zeb[r]a/", scope="conversation")
    else:
        assert {hit.handle for hit in chat.search("/zeb[r]a/")} == {handles[0], handles[2], handles[3]}
        assert {hit.handle for hit in chat.search("zebra", scope="session")} == {handles[0], handles[2], handles[3]}
    for bad in ({"role": "robot"}, {"since": "yesterday"}, {"before": 7}, {"since": datetime(2026, 1, 1)}):
        with pytest.raises(ArgumentError):
            chat.search("zebra", **bad)  # type: ignore[arg-type]


def test_the_recall_tools_answer_a_model_that_is_in_a_conversation(store: Store, name: str) -> None:
    chat = store.conversation(name)
    handles = chat.append([{"role": "user", "content": "The tulip is 42 cm high."}, {"role": "assistant", "content": "Noted."}])
    assert "tulip" in chat.recall("outline")
    assert handles[0] in chat.recall("recall_search", query="tulip", scope="conversation")
    assert "42 cm" in chat.recall("read", handle=handles[0])
    assert "Noted." in chat.recall("around", handle=handles[0])
    assert "no such handle" in chat.recall("read", handle="nonsense")
    with pytest.raises(ArgumentError):
        chat.recall("forget")


def test_a_person_is_erased_from_all_their_conversations(store: Store, name: str) -> None:
    chat, other = store.conversation(name), store.conversation(f"{name} other")
    chat.append([{"role": "user", "content": "My parrot is Kiki."}, {"role": "assistant", "content": "Hello Kiki."}])
    chat.follow([{"role": "user", "content": "My parrot is Koko."}])
    other.append({"role": "user", "content": "My parrot is Lola."})
    certificate = store.erase(name, reason="asked for by them")
    assert certificate.counts["conversations"] >= 1 and certificate.counts["entries"] >= 3
    assert certificate.pseudonym and certificate.pseudonym != name
    assert certificate.remains and all(set(one) == {"what", "place", "until"} for one in certificate.remains)
    assert [hit for hit in store.search("parrot") if hit.recipient == name] == []
    assert len(store.conversation(f"{name} other")) == 1
    with pytest.raises(NotFoundError):
        store.erase(f"{name} nobody")


def test_the_wire_is_that_of_the_models_provider_wherever_the_store_is(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append({"role": "user", "content": "hello"})
    for model, wire, named in (
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("openai:gpt-4o", "openai-chat", "gpt-4o"),
        ("openai:ft:gpt-4o:acme", "openai-chat", "ft:gpt-4o:acme"),
    ):
        view = chat.view("passthrough", model=model)
        assert (view.wire, view.request["model"]) == (wire, named)
    assert chat.view("passthrough").wire == "openai-chat"


def test_errors_are_the_same_wherever_the_store_is(store: Store, name: str) -> None:
    chat = store.conversation(name)
    chat.append({"role": "user", "content": "hello " * 50})
    seen = {}
    for what, call in {
        "manager": lambda: chat.view("slidin_window(3)"),
        "option": lambda: chat.view("sliding_window(few)"),
        "model": lambda: chat.view("fit", model="gpt-5000-nobody"),
        "fit without a model": lambda: chat.view("fit"),
        "budget": lambda: chat.view("token_budget(3)"),
        "status": lambda: chat.set_status("sleepy"),
        "range": lambda: chat.erase(70, 90),
        "pin": lambda: chat.pin([99]),
        "handle": lambda: store.read("sb:zzzzzzzzzz#4"),
        "message": lambda: chat.append([{"role": "robot", "content": "hi"}]),
    }.items():
        try:
            call()
            seen[what] = ("nothing", "")
        except ScrollbackError as refused:
            seen[what] = (type(refused).__name__, refused.code)
    wanted = {
        "manager": "ManagerError",
        "option": "ManagerError",
        "model": "ModelError",
        "budget": "ViewError",
        "status": "ArgumentError",
        "pin": "ArgumentError",
        "handle": "NotFoundError",
        "message": "MessagesError",
    }
    assert {what: kind for what, (kind, _) in seen.items() if what in wanted} == wanted, seen
    kinds = {what: kind for what, (kind, _) in seen.items()}
    assert kinds == KINDS.setdefault("first", kinds), "the same as in the first kind of store"


#: What each place answered, to compare them.
KINDS: dict[str, dict[str, str]] = {}
