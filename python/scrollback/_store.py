"""A store and its conversations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ._backend import Backend, Chat, Embedded, manager_text, options_of, url_of
from ._check import MOST_HITS, MOST_LISTED, end_of, moment, position, positions_of, text, whole
from ._errors import ArgumentError, NotFoundError
from ._sending import sent_to
from ._text import Messages, text_of
from ._types import Certificate, Entry, Erased, Followed, Hit, Status, handle_of, parsed
from ._view import View

if TYPE_CHECKING:
    from datetime import datetime

    from .adapters.langchain import ScrollbackMiddleware
    from .adapters.openai_agents import ScrollbackSession
    from .adapters.pydantic_ai import ScrollbackCapability

__all__ = ["Conversation", "Store", "check_place"]

T = TypeVar("T")

#: Beyond every record.
END = 2**62


class Conversation:
    """Everything that was said with one recipient, and views of it. Made by `Store.conversation`; threads may share it."""

    def __init__(self, chat: Chat, recipient: str) -> None:
        self._chat = chat
        #: Whom it is with.
        self.recipient: str = recipient

    def append(self, messages: Messages, *, wire: str | None = None) -> list[str]:
        """Appends what was said: a message, a list of them, an object of a provider's SDK, or JSON text. It is durable when this
        returns. The handles of the new entries.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append({"role": "user", "content": "Where is my order?"})
        >>> len(chat)
        1
        """
        first, last = self._chat.append(text_of(messages), options_of(wire, None)[0])
        id = self.id or ""
        return [handle_of(id, position) for position in range(first, last + 1)]

    def follow(self, messages: Messages, *, wire: str | None = None) -> Followed:
        """Records what a list of messages says that the record does not say yet. For programs that keep a list of their own:
        call it with that list, or with its newest part, before each model call.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> own = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
        >>> chat.follow(own).appended
        2
        >>> own.append({"role": "user", "content": "two"})
        >>> chat.follow(own).appended
        1
        """
        return Followed(*self._chat.follow(text_of(messages), options_of(wire, None)[0]))

    def curated(
        self,
        messages: Sequence[T],
        manager: object = "auto(32k)",
        *,
        to_json: Callable[[T], Sequence[dict[str, Any]]],
        from_json: Callable[[dict[str, Any]], T | None],
        wire: str = "openai-chat",
        model: str | None = None,
    ) -> list[T]:
        """What a program that keeps its own list should send: what is new in it is recorded, and what the view shows comes back
        as the program's own objects wherever they are unchanged. `to_json` gives the messages that an object stands for,
        `from_json` makes an object of one; it may answer None to leave one out. A
        `model` that is not known counts as none, and `auto` without a known model is `auto(32k)`."""
        texts: list[dict[str, Any]] = []
        owners: list[int] = []
        for number, message in enumerate(messages):
            for text in to_json(message):
                texts.append(text)
                owners.append(number)
        positions = self.follow(texts, wire=wire).positions if texts else []
        owner_of: dict[int, int] = {}
        for position, owner in zip(positions, owners):
            owner_of.setdefault(position, owner)
        view = sent_to(lambda manager, model: self.view(manager, wire=wire, model=model), manager, model)
        same = {item.index for item in view.items if item.index is not None and not item.changed}
        partly = {owner for position, owner in owner_of.items() if position not in same}
        sent: list[T] = []
        given: set[int] = set()
        for item in view.items:
            whose = None if item.index is None else owner_of.get(item.index)
            if whose is not None and whose not in partly:
                if whose not in given:
                    given.add(whose)
                    sent.append(messages[whose])
            elif item.message is not None and (made := from_json(item.message)) is not None:
                sent.append(made)
        return sent

    def view(
        self,
        manager: object = "auto(32k)",
        *,
        wire: str | None = None,
        model: str | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> View:
        """What the next call is sent: the record through a manager. What the manager decides is recorded, so that the next view
        begins as this one did and the provider's cache is read.

        `request` is what the request holds beside the conversation: its `tools`, its instructions, the limit of the reply. They are
        counted, so that the budget leaves room for them.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append({"role": "user", "content": "hello"})
        >>> chat.view("sliding_window(20)", wire="anthropic", model="claude-sonnet-5").request
        {'model': 'claude-sonnet-5', 'messages': [{'role': 'user', 'content': 'hello'}]}
        """
        named = manager_text(manager)
        wire, model = options_of(wire, model)
        beside = None if not request else text_of(request)
        body, spoken, upto, entries, tokens, exact, told = self._chat.send(named, wire, model, beside)

        def explain() -> dict[str, Any]:
            return told if told is not None else self._chat.explain(named, spoken, model, beside, upto)

        return View(
            body, manager=named, wire=spoken, upto=upto, entries=entries, tokens=tokens, exact=exact, explain=explain
        )

    def search(
        self,
        words: str,
        *,
        limit: int = 20,
        role: str | None = None,
        tool: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        scope: str = "conversation",
    ) -> list[Hit]:
        """Entries that have all the words, best first. `"phrases"`, `prefix*` and `-without` work, and `/expressions/`.

        `role` and `tool` say who spoke and which tool was called, `since` and `before` when. `scope` is this `conversation`, its
        `session`, its `project`, or `all`.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append([{"role": "user", "content": "Where is order 17?"}, {"role": "assistant", "content": "Order 17 is on its way."}])
        >>> [hit.snippet for hit in chat.search("order", role="assistant")]
        ['«Order» 17 is on its way.']
        """
        wanted = wanted_of(words, role=role, tool=tool, since=since, before=before)
        wanted["scope"] = text(scope, "a scope", '"session"')
        return [Hit.of(one) for one in self._chat.search(wanted, whole(limit, "limit", 1, MOST_HITS))]

    def recall(self, tool: str, **arguments: Any) -> str:
        """What a recall tool answers a model that is in this conversation: `search`, `read`, `around` or `outline`, with the arguments
        that `recall_tools` describes. Text with handles; a mistake in the arguments is answered with a sentence, too.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append({"role": "user", "content": "Where is my order?"})
        >>> "Where is my order?" in chat.recall("outline")
        True
        """
        named = text(tool, "the name of a tool", '"search"')
        return self._chat.recall(named, text_of(arguments))[0]

    def around(self, handle: str, before: int = 5, after: int = 5) -> list[Entry]:
        """The entries before and after those that a handle of this conversation names, and these."""
        _, first, last = parsed(handle)
        if not self._is_here(handle):
            raise NotFoundError(f"{handle} is of another conversation: Store.around looks there", "not_found")
        return self.entries(max(first - whole(before, "before"), 0), last + whole(after, "after", 0, END - last))

    def _is_here(self, handle: str) -> bool:
        id = self.id
        return id is not None and id.lower().endswith(parsed(handle)[0])

    def read(self, handle: str) -> Entry:
        """What stands at a handle of this conversation, such as `sb:k7q2m9x4td#4`."""
        tail, first, last = parsed(handle)
        id = self.id
        found = self._chat.entries(first, last) if id is not None and id.lower().endswith(tail) else []
        if first != last:
            raise ArgumentError(f"{handle} names several entries: read them with entries({first}, {last})", "bad_handle")
        if not found or id is None:
            message = f"nothing stands at {handle} in this conversation; Store.read finds handles of others"
            raise NotFoundError(message, "not_found")
        return Entry.of(id, found[0])

    def entries(self, first: int = 0, last: int | None = None) -> list[Entry]:
        """The places of the record between two positions, both included.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello Anna."}])
        >>> [(entry.role, entry.text) for entry in chat.entries()]
        [('user', 'hello'), ('assistant', 'Hello Anna.')]
        """
        first = position(first)
        end = END if last is None else position(last)
        id = self.id or ""
        return [Entry.of(id, one) for one in self._chat.entries(first, end)]

    def last(self, count: int = 10) -> list[Any]:
        """The newest messages, as OpenAI chat has them. Instructions and the last question stay, and tool calls stay with their
        results, so there may be a few more than asked for."""
        return self.view(f"sliding_window({whole(count, 'count')})", wire="openai-chat").messages

    def pin(self, positions: Sequence[int]) -> None:
        """Protects whole groups from every manager.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append([{"role": "user", "content": f"question {number}"} for number in range(5)])
        >>> chat.pin([0])
        >>> [message["content"] for message in chat.last(1)]
        ['question 0', 'question 4']
        """
        self._chat.pin(positions_of(positions, "pin"), True)

    def unpin(self, positions: Sequence[int]) -> None:
        """Undoes `pin`."""
        self._chat.pin(positions_of(positions, "unpin"), False)

    def compact(self, keep: int = 3) -> str | None:
        """Has all but the last `keep` turns summarised, without a model. The summary; none if there is nothing to do.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append([{"role": role, "content": f"words {n}"} for n in range(4) for role in ("user", "assistant")])
        >>> chat.compact(1) == chat.summary
        True
        """
        return self._chat.compact(whole(keep, "keep"))

    @property
    def summary(self) -> str | None:
        """The summary in force."""
        return self._chat.summary()

    @property
    def status(self) -> Status:
        """Where it stands, and whether a follow-up is due."""
        return Status(*self._chat.status())

    def set_status(self, status: str) -> None:
        """Sets where it stands: `active`, `awaiting_answer`, `closed` or `idle`.

        >>> from scrollback import Store
        >>> chat = Store(":memory:").conversation("anna")
        >>> _ = chat.append({"role": "user", "content": "thanks"})
        >>> chat.set_status("closed")
        >>> chat.status.status
        'closed'
        """
        self._chat.set_status(text(status, "a status", '"closed"'))

    def erase(self, first: int | None = None, last: int | None = None, *, reason: str = "asked for") -> Erased:
        """Erases what was said, for good: everything, or the entries between two positions. Their places stay."""
        if first is None and last is not None:
            raise ArgumentError("erase(first, last): the first position is missing", "bad_argument")
        positions = None
        if first is not None:
            begin = position(first)
            positions = (begin, begin if last is None else end_of(begin, last, "erase"))
        return Erased(*self._chat.erase(positions, text(reason, "the reason", '"asked for"')))

    @property
    def id(self) -> str | None:
        """The id of the conversation; none before its first append."""
        return self._chat.facts()[0]

    def __len__(self) -> int:
        return self._chat.facts()[2]

    def __repr__(self) -> str:
        return f"<Conversation with {self.recipient!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a conversation cannot be pickled or copied: give the worker the URL of its store and the recipient")


def wanted_of(words: str, *, since: datetime | str | None, before: datetime | str | None, **named: str | None) -> dict[str, str]:
    """What a search is for, without what was not said."""
    wanted = {"words": text(words, "what to search for", '"order"')}
    wanted |= {name: text(value, f"the {name}", '"anna"') for name, value in named.items() if value is not None}
    wanted |= {name: moment(value, name) for name, value in (("since", since), ("before", before)) if value is not None}
    return wanted


def is_remote(url: str) -> bool:
    """Whether a store is behind a server."""
    return url.startswith(("http://", "https://"))


def check_place(where: str | os.PathLike[str], key: str | None, tenant: str | None) -> str:
    """The URL of a store, if its key and tenant fit to it."""
    url = url_of(where)
    if key is not None and not is_remote(url):
        raise ArgumentError("only a server takes a key: give the store's address, as in http://127.0.0.1:7275", "bad_argument")
    if tenant is not None and is_remote(url):
        raise ArgumentError("at a server the key says which tenant: give no tenant", "bad_argument")
    if tenant is not None:
        text(tenant, "a tenant", '"shop"')
    return url


class Store:
    """Where conversations are kept: a file, a PostgreSQL database, or a server.

    >>> from scrollback import Store
    >>> with Store(":memory:") as store:
    ...     chat = store.conversation("anna")

    A file name or `sqlite:PATH` opens SQLite in this process, `postgres://…` a database, `http://127.0.0.1:7275` a server, with
    its `key`. Threads may share a store; a child process after `fork()` has to open its own.
    """

    def __init__(
        self, where: str | os.PathLike[str] = "scrollback.db", *, key: str | None = None, tenant: str | None = None
    ) -> None:
        url = check_place(where, key, tenant)
        self._backend: Backend
        if is_remote(url):
            from ._remote import Remote

            self._backend = Remote(url, key)
        else:
            self._backend = Embedded(url, tenant)

    def conversation(self, recipient: str) -> Conversation:
        """The conversation with a person or channel. One that does not exist yet begins with its first append."""
        recipient = text(recipient, "a recipient", '"anna"')
        return Conversation(self._backend.conversation(recipient), recipient)

    def search(
        self,
        words: str,
        *,
        recipient: str | None = None,
        limit: int = 20,
        role: str | None = None,
        tool: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
    ) -> list[Hit]:
        """Entries of all conversations, or of those with one recipient, that have all the words: `Conversation.search`."""
        wanted = wanted_of(words, recipient=recipient, role=role, tool=tool, since=since, before=before)
        return [Hit.of(one) for one in self._backend.search(wanted, whole(limit, "limit", 1, MOST_HITS))]

    def erase(self, recipient: str, *, reason: str = "asked for") -> Certificate:
        """Erases a person, for good: everything that was said with them, in all conversations, forks and sub-agents, and their name.
        The certificate says what is gone, and what is left where. `Conversation.erase` erases one conversation.

        >>> from scrollback import Store
        >>> store = Store(":memory:")
        >>> _ = store.conversation("anna").append({"role": "user", "content": "I am Anna."})
        >>> store.erase("anna", reason="asked for by Anna").counts["entries"]
        1
        """
        recipient = text(recipient, "a recipient", '"anna"')
        return Certificate.of(self._backend.erase(recipient, text(reason, "the reason", '"asked for"')))

    def read(self, handle: str) -> list[Entry]:
        """What stands at a handle, in any conversation: one entry, or those of a range."""
        parsed(handle)
        told = self._backend.read(handle)
        return [Entry.of(told["conversation"], one) for one in told["entries"]]

    def around(self, handle: str, before: int = 5, after: int = 5) -> list[Entry]:
        """The entries before and after those that a handle names, in any conversation, and these."""
        tail, first, last = parsed(handle)
        first, last = max(first - whole(before, "before"), 0), last + whole(after, "after", 0, END - last)
        told = self._backend.read(f"sb:{tail}#{first}-{last}")
        return [Entry.of(told["conversation"], one) for one in told["entries"]]

    def list(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """The conversations written last: id, recipient, title, status, updated_at, turns and entries."""
        return self._backend.list(whole(limit, "limit", 1, MOST_LISTED))

    def session(self, recipient: str) -> ScrollbackSession:
        """A session of the OpenAI Agents SDK: `Runner.run(agent, text, session=store.session("anna"))`."""
        from .adapters.openai_agents import ScrollbackSession

        return ScrollbackSession(self.conversation(recipient))

    def run_config(self, manager: object = "auto", **options: Any) -> Any:
        """A run configuration of the OpenAI Agents SDK whose model calls are sent the curated list."""
        from .adapters.openai_agents import run_config

        return run_config(manager, **options)

    def middleware(self, manager: object = "auto", *, recipient: str | None = None) -> ScrollbackMiddleware:
        """A middleware of LangChain: `create_agent(model, tools, middleware=[store.middleware("auto")])`."""
        from .adapters.langchain import ScrollbackMiddleware

        return ScrollbackMiddleware(self, manager, recipient=recipient)

    def capability(self, manager: object = "auto", *, recipient: str | None = None) -> ScrollbackCapability:
        """A capability of Pydantic AI: `Agent(model, capabilities=[store.capability("auto")])`."""
        from .adapters.pydantic_ai import ScrollbackCapability

        return ScrollbackCapability(self, manager, recipient=recipient)

    def close(self) -> None:
        """Closes the store. Everything that was appended is durable already."""
        self._backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self._backend.describe()}>"

    def __reduce__(self) -> Any:
        raise TypeError("a store cannot be pickled or copied: give the worker its URL and open it there")
