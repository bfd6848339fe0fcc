"""What the tests stand on: stores of every kind, a server of our own, and the wheel that is installed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import scrollback
from scrollback import Store

ROOT = Path(__file__).resolve().parents[2]


def pytest_sessionstart() -> None:
    place = Path(scrollback.__file__).resolve()
    assert "site-packages" in place.parts, f"the installed wheel is tested, not {place}"


def missing(what: str, untested: str) -> None:
    """As in tests/support/required.rs: left out and said, or a failure if everything is required."""
    if os.environ.get("SCROLLBACK_REQUIRE") == "all":
        pytest.fail(f"{what} is missing, and SCROLLBACK_REQUIRE=all; untested: {untested}")
    pytest.skip(f"{what} is missing; left out: {untested}")


def program() -> str:
    named = os.environ.get("SCROLLBACK_PROGRAM", str(ROOT / "target/debug/scrollback"))
    if not Path(named).exists():
        missing("the program `scrollback`", "stores behind a server")
    return str(Path(named).resolve())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a port of its own; its address."""
    folder = tmp_path_factory.mktemp("server")
    command = [program(), "serve", "--json", "--listen", "127.0.0.1:0", "--store", f"sqlite:{folder}/record.db"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    try:
        assert running.stdout is not None
        import json

        told = json.loads(running.stdout.readline())
        yield f"http://{told['listen']}"
    finally:
        running.terminate()
        running.wait(30)


@pytest.fixture(params=["sqlite", "http"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The same tests for a store in this process and for one behind a server."""
    where = tmp_path / "chat.db" if request.param == "sqlite" else request.getfixturevalue("server")
    with Store(where) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A recipient of this test alone: the server is shared."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def file_store(tmp_path: Path) -> Callable[[], Store]:
    return lambda: Store(tmp_path / "chat.db")
