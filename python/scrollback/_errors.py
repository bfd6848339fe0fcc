"""The errors: one class for each kind, all of them under `ScrollbackError`."""

from __future__ import annotations

__all__ = [
    "AccessError",
    "ArgumentError",
    "ClosedError",
    "ConflictError",
    "ForkError",
    "ManagerError",
    "MessagesError",
    "ModelError",
    "NotFoundError",
    "RemoteError",
    "ScrollbackError",
    "StoreError",
    "ViewError",
]


class ScrollbackError(Exception):
    """Something that Scrollback could not do. `code` is stable and made for programs; `path` is a JSON pointer into the input.

    >>> from scrollback import ScrollbackError, curate
    >>> try:
    ...     curate([{"role": "user", "content": "hi"}], "slidin_window(20)")
    ... except ScrollbackError as error:
    ...     print(type(error).__name__, error.code)
    ManagerError unknown_manager
    """

    code: str
    path: str
    #: What a provider answered, where `wrap` could not record it.
    reply: object = None

    def __init__(self, message: str, code: str = "error", path: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.path = path

    def __reduce__(self) -> tuple[type[ScrollbackError], tuple[str, str, str]]:
        return (type(self), (str(self), self.code, self.path))


class ManagerError(ScrollbackError):
    """The text that names a manager cannot be read: unknown manager, unknown option, bad value."""


class ModelError(ScrollbackError):
    """The name of a model cannot be read, or belongs to no provider that is known."""


class MessagesError(ScrollbackError):
    """The messages are not JSON, or not in the format of any provider."""


class ViewError(ScrollbackError):
    """The view cannot be made: what must stay is larger than the budget or than the model's window."""


class ArgumentError(ScrollbackError, ValueError):
    """An argument that cannot be used: of a wrong type, out of its bounds, an unknown wire or status, a text that is no handle, the
    address of no store. The message says what was expected. It is a `ValueError`, too."""


class StoreError(ScrollbackError):
    """The store refused or failed."""


class NotFoundError(StoreError, LookupError):
    """There is no such thing in this store."""


class ConflictError(StoreError):
    """Another writer came first."""


class ClosedError(StoreError):
    """The store was closed."""


class ForkError(StoreError):
    """The store was opened before `fork()`, and this is the child process."""


class RemoteError(StoreError):
    """The server could not be reached, or answered something unexpected."""


class AccessError(StoreError):
    """The server does not let this key in: it is missing, unknown, revoked or used up, or it may not do this."""


#: The class of each code, wherever the store is.
_CODES: dict[str, type[ScrollbackError]] = {
    "unknown_manager": ManagerError,
    "unknown_option": ManagerError,
    "missing_option": ManagerError,
    "bad_option": ManagerError,
    "bad_syntax": ManagerError,
    "bad_manager": ManagerError,
    "bad_managers": ManagerError,
    "unknown_model": ModelError,
    "bad_json": MessagesError,
    "bad_message": MessagesError,
    "bad_input": MessagesError,
    "invalid_messages": MessagesError,
    "budget_too_small": ViewError,
    "no_view": ViewError,
    "summary_failed": ViewError,
    "unknown_wire": ArgumentError,
    "bad_handle": ArgumentError,
    "unknown_status": ArgumentError,
    "unknown_role": ArgumentError,
    "bad_argument": ArgumentError,
    "bad_request": ArgumentError,
    "bad_range": ArgumentError,
    "bad_url": ArgumentError,
    "bad_query": ArgumentError,
    "bad_pattern": ArgumentError,
    "bad_time": ArgumentError,
    "bad_limit": ArgumentError,
    "bad_decision": ArgumentError,
    "bad_recipient": ArgumentError,
    "bad_conversation": ArgumentError,
    "not_found": NotFoundError,
    "no_such_handle": NotFoundError,
    "conflict": ConflictError,
    "exists": ConflictError,
    "stale": ConflictError,
    "closed": ClosedError,
    "opened_before_fork": ForkError,
    "unauthorized": AccessError,
    "forbidden": AccessError,
    "too_many_requests": AccessError,
    "quota_exceeded": AccessError,
}

#: The class of each kind of error of the engine, for codes that have no class.
_KINDS: dict[str, type[ScrollbackError]] = {
    "manager": ManagerError,
    "model": ModelError,
    "messages": MessagesError,
    "view": ViewError,
    "argument": ArgumentError,
}


def made(kind: str, code: str, message: str, path: str) -> ScrollbackError:
    """The exception for an error of the engine."""
    return (_CODES.get(code) or _KINDS.get(kind, StoreError))(message, code, path)


def of_code(code: str, message: str, path: str) -> ScrollbackError:
    """The exception for a problem that a server reported."""
    return made("store", code, message, path)
