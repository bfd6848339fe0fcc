"""One conversation, written and read by Python, the command line and the server in turns. Rust takes its turn in
`crates/python/tests/wheel.rs`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from conftest import program, serving

from scrollback import Store

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"id":  "A-7"}'}}


def command(folder: Path, *arguments: str, given: str | None = None) -> Any:
    done = subprocess.run([program(), *arguments], input=given, capture_output=True, text=True, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_python_the_command_line_and_the_server_write_one_conversation(tmp_path: Path) -> None:
    where = f"sqlite:{tmp_path}/shared.db"
    with Store(where) as store:
        chat = store.conversation("anna")
        chat.append([{"role": "user", "content": "by Python: where is it?"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}])
        # The command line goes on, while Python has the conversation open.
        result = json.dumps([{"role": "tool", "tool_call_id": "c1", "content": "by the command line: in transit"}])
        command(tmp_path, "history", "anna", "append", "--file", "-", "--store", where, "--json", given=result)
        assert chat.entries()[-1].text == "by the command line: in transit"
        assert chat.view("passthrough", wire="openai-chat").messages[1]["tool_calls"] == [CALL]
        chat.append({"role": "assistant", "content": "by Python: on its way"})
    with serving(tmp_path, where) as address:
        # The server, which Python uses as a store, and the API underneath.
        remote = Store(address).conversation("anna")
        assert [entry.position for entry in remote.entries()] == [0, 1, 2, 3]
        remote.append({"role": "user", "content": "by the server: thanks"})
        with Store(where) as beside:
            beside.conversation("anna").append({"role": "assistant", "content": "by Python beside the server: welcome"})
        assert remote.entries()[-1].text == "by Python beside the server: welcome"
    shown = command(tmp_path, "history", "anna", "show", "--all", "--store", where, "--json")
    told = json.dumps(shown, ensure_ascii=False)
    with Store(where) as store:
        entries = store.conversation("anna").entries()
        texts = [entry.text for entry in entries if entry.text and entry.kind == "message"]
        assert len(entries) == 6 and len(texts) == 5
        assert all(text in told for text in texts), told
        assert entries[1].raw is not None and '\\"id\\":  \\"A-7\\"' in entries[1].raw, "arguments are kept as they were spelled"
    verified = subprocess.run([program(), "verify", "--store", where], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_memory_is_in_the_store_that_the_environment_names(tmp_path: Path) -> None:
    where = f"sqlite:{tmp_path}/named.db"
    said = command(tmp_path, "history", "anna", "append", "--content", "hello", "--store", where, "--json")
    assert said
    code = "from scrollback import Memory; print([m['content'] for m in Memory('anna').last()])"
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "SCROLLBACK_STORE": where}
    )
    assert done.stdout == "['hello']\n", done.stderr
