"""Curating without a store, bad input, and what importing costs."""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import scrollback
from scrollback import ArgumentError, ManagerError, MessagesError, ModelError, ScrollbackError, Store, curate, simulate

ROOT = Path(__file__).resolve().parents[2]


def talk(turns: int) -> list[dict[str, Any]]:
    return [
        {"role": "user" if number % 2 == 0 else "assistant", "content": f"text {number}"} for number in range(turns)
    ]


def test_unchanged_messages_are_the_callers_own_objects() -> None:
    messages = talk(10)
    shown = curate(messages, "sliding_window(3)")
    assert [one is other for one, other in zip(shown, messages[-3:])] == [True, True, True]
    assert messages == talk(10), "the list that was given is as it was"


def test_an_explanation_names_who_left_out_what() -> None:
    shown, why = curate(talk(6), "sliding_window(2)", model="gpt-4o", explain=True)
    assert len(shown) == 2 and [one.index for one in why.dropped] == [0, 1, 2, 3]
    assert str(why).startswith("2 sent, 4 left out, 0 changed")


def test_requests_keep_what_stands_around_the_messages() -> None:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": talk(5)}
    shown = curate(body, "sliding_window(1)")
    assert shown["max_tokens"] == 9 and shown["system"] == "Be brief." and len(shown["messages"]) == 1


def test_changed_results_are_new_objects_and_the_old_ones_stay() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * 5000},
    ]
    shown = curate(messages, "tool_result_truncator(100)")
    assert len(shown[2]["content"]) < 200 and len(str(messages[2]["content"])) == 5000


def test_markup_of_strangers_is_escaped_in_notebooks() -> None:
    chat = Store(":memory:").conversation("<script>")
    chat.append({"role": "user", "content": "<script>alert(1)</script>"})
    assert "<script>" not in chat.view("sliding_window(1)")._repr_html_()


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (7, "bad_input"),
        (None, "bad_input"),
        ("hello", "bad_json"),
        ("{", "bad_json"),
        ([{"role": "user", "content": math.nan}], "bad_json"),
        ([{"role": "user", "content": "x", "n": 10**5000}], "bad_json"),
        ([{"role": "user", "content": "half \ud800"}], "bad_text"),
        (b"\xff\xfe", "bad_text"),
        ([{"role": "user", "content": object()}], "bad_input"),
        ([{"role": "stranger", "content": "x"}], "bad_message"),
        ({"no": "messages"}, None),
    ],
)
def test_bad_messages_are_an_exception_that_says_what_to_do(messages: Any, code: str | None) -> None:
    chat = Store(":memory:").conversation("anna")
    for call in (lambda: curate(messages, "passthrough"), lambda: chat.append(messages)):
        with pytest.raises(MessagesError) as refused:
            call()
        assert code is None or refused.value.code == code, refused.value
        assert str(refused.value)
    assert len(chat) == 0


def test_a_list_that_contains_itself_is_an_exception() -> None:
    messages: list[Any] = [{"role": "user", "content": "x"}]
    messages[0]["more"] = messages
    with pytest.raises(MessagesError):
        curate(messages, "passthrough")


def test_big_integers_and_number_spellings_are_kept() -> None:
    chat = Store(":memory:").conversation("anna")
    chat.append('{"role":"user","content":"x","n":123456789012345678901234567890,"f":1.50}')
    raw = chat.entries()[0].raw
    assert raw is not None and '"n":123456789012345678901234567890,"f":1.50' in raw


def test_models_and_managers_are_checked() -> None:
    with pytest.raises(ModelError):
        curate(talk(2), "passthrough", model="opnai:gpt-4o")
    with pytest.raises(ManagerError) as refused:
        curate(talk(2), "sliding_window(size=3)")
    assert refused.value.code == "unknown_option"
    assert len(curate(talk(4), {"sliding_window": {"window_size": 2}})) == 2
    assert len(curate(talk(4), ["tool_result_truncator(100)", "sliding_window(2)"])) == 2


def test_errors_and_values_can_be_pickled_and_stores_cannot() -> None:
    error = pickle.loads(pickle.dumps(ManagerError("no", "unknown_manager", "/x")))
    assert (str(error), error.code, error.path) == ("no", "unknown_manager", "/x")
    _, why = curate(talk(4), "sliding_window(2)", explain=True)
    assert pickle.loads(pickle.dumps(why)) == why
    with pytest.raises(TypeError, match="URL"):
        pickle.dumps(Store(":memory:"))


def test_every_public_name_has_a_docstring_and_help_shows_the_ten_lines() -> None:
    undocumented = [name for name in scrollback.__all__ if not getattr(scrollback, name).__doc__]
    assert undocumented in ([], ["__version__"])
    assert "chat.view(" in (scrollback.__doc__ or "")
    assert issubclass(ManagerError, ScrollbackError)


def test_simulation_is_a_table() -> None:
    told = simulate(ROOT / "examples/session.jsonl", ["passthrough", "sliding_window(4)"])
    assert told.conversations >= 1 and [row["manager"] for row in told] == ["passthrough", "sliding_window(4)"]
    assert told.rows[0]["cost_ratio"] == 1.0 and told.rows[1]["input_tokens"] <= told.rows[0]["input_tokens"]
    assert "sliding_window(4)" in str(told) and "<table>" in told._repr_html_()
    with pytest.raises(ScrollbackError, match="nowhere"):
        simulate("nowhere", ["passthrough"])


def test_simulation_gives_a_data_frame_and_a_plot(tmp_path: Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("pandas in its newest version is for Python 3.11 and newer; left out: data frames and plots")
    import matplotlib

    matplotlib.use("agg")
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.json").write_text(json.dumps(talk(12)))
    table = simulate(folder, ["passthrough", "sliding_window(B)"], budgets=[2, 4], lost=True, model="gpt-4o")
    assert [row["manager"] for row in table] == ["passthrough", "sliding_window(2)", "sliding_window(4)"]
    assert [one["file"] for one in table.transcripts] == [str(folder / "0.json"), str(folder / "1.json")]
    assert all(len(one["managers"]) == 3 and "lost" in one["managers"][1] for one in table.transcripts)
    frame = table.to_pandas()
    assert list(frame["manager"]) == [row["manager"] for row in table]
    assert list(frame["input_tokens"]) == [row["input_tokens"] for row in table] and "at_cut_answer_grounding" in frame
    axes = table.plot()
    assert [text.get_text() for text in axes.texts] == [row["manager"] for row in table]
    assert axes.get_xlabel().startswith("cost")
    assert table.advice and table.advice in str(table) and "<table>" in table._repr_html_()
    usual = simulate(folder, model="gpt-4o")
    assert {"passthrough", "fit", "sliding_window(20)"} <= {row["manager"] for row in usual}


def test_names_that_are_no_utf8_are_refused_for_stores_and_read_as_transcripts(tmp_path: Path) -> None:
    named = os.fsencode(tmp_path) + b"/bad\xff.json"
    with open(named, "w") as file:
        file.write(json.dumps(talk(4)))
    with pytest.raises(ArgumentError) as refused:
        Store(os.fsdecode(named))
    assert refused.value.code == "bad_text"
    assert simulate(os.fsdecode(named), ["passthrough"]).conversations == 1
    with pytest.raises(ArgumentError):
        Store(":memory:").list(limit=10**9)
