"""A store behind `scrollback serve`, over its REST API."""

from __future__ import annotations

import http.client
import json
import os
import threading
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from . import _core
from ._backend import Chat, Sent
from ._check import text
from ._errors import ArgumentError, ClosedError, ConflictError, MessagesError, NotFoundError, RemoteError, of_code
from ._types import parsed

__all__ = ["Remote"]

#: Seconds without a byte from the server after which a call is given up.
PATIENCE = 120.0
#: What options of a search are called in the REST API.
SEARCHED = {"words": "q", "before": "until"}
#: How the recall tools are asked over HTTP.
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
#: How often a list is compared with the record again when other writers come first.
ATTEMPTS = 16
#: Places that one page of a record holds.
PAGE = 500
#: What a list of conversations says of each, as a store in this process does.
LISTED = ("id", "recipient", "title", "status", "updated_at", "turns", "entries")


class Remote:
    """A store behind a server. Each thread has a connection of its own, and so has each process."""

    def __init__(self, url: str, key: str | None) -> None:
        try:
            parts = urlsplit(url)
            known = parts.hostname is not None and parts.scheme in ("http", "https") and parts.port != 0
        except ValueError:
            known, parts = False, urlsplit("")
        if not known:
            raise ArgumentError(f"{url!r} is not the address of a server; write http://127.0.0.1:7275", "bad_url")
        if key is not None and (not text(key, "a key", '"sb_…"').isascii() or not key.isprintable()):
            raise ArgumentError("a key is printable ASCII, as `scrollback key add` printed it", "bad_argument")
        self._url = url.rstrip("/")
        self._parts = parts
        self._key = key
        self._closed = False
        self._local = threading.local()

    def describe(self) -> str:
        return self._url

    def close(self) -> None:
        self._closed = True
        self._hang_up()

    def ask(self, verb: str, path: str, body: str | None = None, more: dict[str, str] | None = None) -> Any:
        """One request; what it answers, read. A connection that the server closed meanwhile is opened again."""
        if self._closed:
            raise ClosedError("this store was closed: open it again", "closed")
        headers = {"content-type": "application/json", **(more or {})}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        data = None if body is None else body.encode()
        fresh = False
        while True:
            connection, fresh = self._connection()
            try:
                connection.request(verb, self._parts.path.rstrip("/") + (path if path == "/mcp" else f"/api{path}"), data, headers)
                answer = connection.getresponse()
                said = answer.read()
                break
            except (http.client.HTTPException, OSError) as error:
                self._hang_up()
                # Only what never reached the server may be sent again.
                stale = isinstance(error, (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError))
                if fresh or not (stale and verb == "GET"):
                    what = str(error) or type(error).__name__
                    raise RemoteError(f"no answer from {self._url}: {what}; is `scrollback serve` running?", "io") from error
            except BaseException:
                self._hang_up()
                raise
        return self._read(answer.status, said)

    def _read(self, status: int, said: bytes) -> Any:
        try:
            told: Any = json.loads(said)
        except ValueError:
            raise RemoteError(f"{self._url} answered {status} without JSON: is it a Scrollback server?", "io") from None
        if status < 400:
            return told
        code = str(told.get("type", "")).rsplit(":", 1)[-1]
        raise of_code(code, str(told.get("detail") or told.get("title") or status), str(told.get("path") or ""))

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        known: tuple[int, http.client.HTTPConnection] | None = getattr(self._local, "connection", None)
        if known is not None and known[0] == os.getpid():
            return known[1], False
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        made = kind(self._parts.hostname or "", self._parts.port, timeout=PATIENCE)
        self._local.connection = (os.getpid(), made)
        return made, True

    def _hang_up(self) -> None:
        known = getattr(self._local, "connection", None)
        self._local.connection = None
        if known is not None and known[0] == os.getpid():
            known[1].close()

    def conversation(self, name: str) -> Chat:
        if not name or len(name.encode()) > 512 or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
            raise ArgumentError("a recipient has 1 to 512 bytes and no control characters", "bad_argument")
        return RemoteChat(self, name)

    def search(self, wanted: dict[str, str], limit: int, **more: str) -> list[dict[str, Any]]:
        words = wanted["words"].strip()
        if "scope" in wanted or (len(words) > 2 and words.startswith("/") and words.endswith("/")):
            message = "a server finds expressions and wider scopes by its recall tools: chat.recall(\"search\", query=…, scope=…)"
            raise ArgumentError(message, "bad_argument")
        asked = {SEARCHED.get(name, name): value for name, value in wanted.items()}
        hits: list[dict[str, Any]] = self.ask("GET", f"/search?{urlencode({**asked, **more, 'limit': limit})}")["hits"]
        return hits

    def erase(self, recipient: str, reason: str) -> dict[str, Any]:
        asked = json.dumps({"all": True, "reason": reason})
        told: dict[str, Any] = self.ask("POST", f"/recipients/{quote(recipient, safe='')}/erase", asked)
        return told

    def read(self, handle: str) -> dict[str, Any]:
        tail, first, last = parsed(handle)
        entries: list[dict[str, Any]] = []
        more: str | None = f"sb:{tail}#{first}-{last}" if first != last else f"sb:{tail}#{first}"
        told: Any = None
        while more is not None:
            told = self.ask("GET", f"/entries/{quote(more, safe='')}")
            entries += told["entries"]
            more = told["next"]
        return {"conversation": told["conversation"], "entries": entries}

    def list(self, limit: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        after: str | None = None
        while len(rows) < limit:
            more = "" if after is None else f"&after={quote(after, safe='')}"
            page = self.ask("GET", f"/conversations?limit={min(PAGE, limit - len(rows))}{more}")
            rows += [{name: row[name] for name in LISTED} for row in page["conversations"]]
            after = page["next"]
            if after is None:
                break
        return rows


def entries_of(remote: Remote, id: str, first: int, last: int) -> list[dict[str, Any]]:
    """The places of a record between two positions, page by page."""
    found: list[dict[str, Any]] = []
    at: int | None = first
    while at is not None and at <= last:
        page = remote.ask("GET", f"/conversations/{id}/entries?from={at}&limit={min(PAGE, last - at + 1)}")
        found += page["entries"]
        at = page["next"]
    return found


class RemoteChat:
    """A conversation behind a server: the current one of a recipient."""

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote = remote
        self._name = name

    def _row(self) -> dict[str, Any] | None:
        page = self._remote.ask("GET", f"/conversations?{urlencode({'recipient': self._name, 'limit': 100})}")
        rows: list[dict[str, Any]] = page["conversations"]
        return next((row for row in rows if row["key"] is not None), None)

    def _id(self) -> str | None:
        row = self._row()
        return None if row is None else str(row["id"])

    def _needed(self) -> str:
        """The id; the conversation begins if there is none."""
        found = self._id()
        if found is not None:
            return found
        try:
            return str(self._remote.ask("POST", "/conversations", json.dumps({"recipient": self._name}))["id"])
        except ConflictError:
            # Another writer began it meanwhile.
            found = self._id()
            if found is None:
                raise
            return found

    def _append(self, messages: str, wire: str | None, follow: bool) -> Any:
        # Here, so that text which is refused has not begun a conversation, and cannot say more than its messages.
        if not _core.check(messages, wire) and not follow:
            raise MessagesError("there are no messages to append", "bad_input")
        named = "" if wire is None else f',"wire":{json.dumps(wire)}'
        following = ',"follow":true' if follow else ""
        # The text goes on as it came.
        return self._remote.ask(
            "POST", f"/conversations/{self._needed()}/entries", f'{{"messages":{messages}{named}{following}}}'
        )

    def append(self, messages: str, wire: str | None) -> tuple[int, int]:
        told = self._append(messages, wire, follow=False)
        return told["first"], told["last"]

    def follow(self, messages: str, wire: str | None) -> tuple[list[int], int, bool]:
        for attempt in range(ATTEMPTS):
            try:
                told = self._append(messages, wire, follow=True)
                break
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
        return told["positions"], told["appended"], told["branched"]

    def _view(self, manager: str, wire: str | None, model: str | None, request: str | None, **more: Any) -> Any:
        try:
            managers: Any = json.loads(manager)
        except ValueError:
            managers = None
        if not isinstance(managers, (dict, list)):
            managers = [manager]
        asked: dict[str, Any] = {"managers": managers, **more}
        if wire is not None:
            asked["wire"] = wire
        if model is not None:
            asked["model"] = model
        if request is not None:
            asked["request"] = json.loads(request)
        return self._remote.ask("POST", f"/conversations/{self._needed()}/views", json.dumps(asked))

    def send(self, manager: str, wire: str | None, model: str | None, request: str | None) -> Sent:
        named: str | None = None
        if model is not None:
            # As a store in this process does: the wire is the one that the model's provider speaks.
            named, wire = _core.request_for(model, wire)
        told = self._view(manager, wire, model, request, record=True)
        if wire is None and told["wire"] == "scrollback":
            # Messages of our own form are for no provider: the usual one is meant.
            told = self._view(manager, "openai-chat", model, request, record=True)
        body = told["body"] if named is None else {"model": named, **told["body"]}
        entries = (told["counts"]["original"], told["counts"]["curated"])
        tokens = told["tokens"]
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return sent, told["wire"], told["upto"], entries, tokens["curated"], tokens["method"] == "exact", told

    def explain(self, manager: str, wire: str | None, model: str | None, request: str | None, upto: int) -> dict[str, Any]:
        told: dict[str, Any] = self._view(manager, wire, model, request, upto=upto)
        return told

    def facts(self) -> tuple[str | None, int, int]:
        row = self._row()
        return (None, 0, 0) if row is None else (row["id"], row["head"]["position"], row["entries"])

    def entries(self, first: int, last: int) -> list[dict[str, Any]]:
        id = self._id()
        return [] if id is None else entries_of(self._remote, id, first, last)

    def search(self, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]:
        id = self._id()
        if id is None:
            return []
        # One conversation is what is searched unless more is said.
        wanted = {name: value for name, value in wanted.items() if (name, value) != ("scope", "conversation")}
        return self._remote.search(wanted, limit, conversation=id)

    def recall(self, tool: str, arguments: str) -> tuple[str, bool]:
        given = {"name": tool.removeprefix("recall_"), "arguments": json.loads(arguments)}
        asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given})
        told = self._remote.ask("POST", "/mcp", asked, {**MCP, "x-scrollback-session": self._id() or "none"})
        if "result" not in told:
            raise ArgumentError(str((told.get("error") or {}).get("message")), "bad_argument")
        result = told["result"]
        return "\n".join(part.get("text") or "" for part in result["content"]), bool(result.get("isError"))

    def erase(self, positions: tuple[int, int] | None, reason: str) -> tuple[int, int, int]:
        id = self._id()
        if id is None:
            return 0, 0, 0
        what = {"all": True} if positions is None else {"positions": positions}
        told = self._remote.ask("POST", f"/conversations/{id}/erase", json.dumps({**what, "reason": reason}))
        return told["erased"], told["sent"], told["forks"]

    def compact(self, keep: int) -> str | None:
        id = self._id()
        if id is None:
            return None
        told = self._remote.ask(
            "POST", f"/conversations/{id}/decisions", json.dumps({"decision": "summarize", "keep": keep})
        )
        summary: str | None = told["summary"]
        return summary

    def summary(self) -> str | None:
        id = self._id()
        if id is None:
            return None
        decisions = self._remote.ask("GET", f"/conversations/{id}/decisions")["decisions"]
        texts = [one["decision"]["text"] for one in decisions if one["decision"].get("decision") == "summary"]
        return texts[-1] if texts else None

    def pin(self, positions: list[int], pinned: bool) -> None:
        asked = {"decision": "pin" if pinned else "unpin", "positions": positions}
        self._remote.ask("POST", f"/conversations/{self._needed()}/decisions", json.dumps(asked))

    def status(self) -> tuple[str, bool]:
        id = self._id()
        if id is None:
            return "idle", False
        told = self._remote.ask("GET", f"/conversations/{id}/status")
        return told["status"], told["follow_up"]["due"]

    def set_status(self, name: str) -> None:
        id = self._id()
        if id is None:
            raise NotFoundError(f"the conversation with {self._name} has no id before its first append", "not_found")
        self._remote.ask("POST", f"/conversations/{id}/status", json.dumps({"status": name}))
