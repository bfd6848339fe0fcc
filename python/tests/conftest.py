"""What the tests stand on: stores of every kind, a server of our own, and the wheel that is installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def serving(folder: Path, where: str) -> Iterator[str]:
    """A server on a port of its own; its address."""
    command = [program(), "serve", "--json", "--listen", "127.0.0.1:0", "--store", where]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    try:
        assert running.stdout is not None
        yield f"http://{json.loads(running.stdout.readline())['listen']}"
    finally:
        running.terminate()
        running.wait(30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, f"sqlite:{folder}/record.db") as address:
        yield address


def as_postgres(*command: str) -> None:
    """Runs a program of PostgreSQL, which refuses to be root."""
    apart = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*apart, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of these tests alone; its URL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        missing("PostgreSQL", "stores in a database")
    tools = found[-1].parent
    with tempfile.TemporaryDirectory(prefix="scrollback-pg", dir="/tmp") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = f"{folder}/data"
        as_postgres(f"{tools}/initdb", "-D", data, "-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        as_postgres(f"{tools}/pg_ctl", "start", "-w", "-t", "60", "-D", data, "-l", f"{folder}/log", "-o", options)
        try:
            yield f"postgres://app@127.0.0.1:{port}/postgres"
        finally:
            as_postgres(f"{tools}/pg_ctl", "stop", "-m", "immediate", "-D", data)


@pytest.fixture(params=["sqlite", "http", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The same tests for a file, for a store behind a server, and for a database."""
    kind = {"http": "server"}.get(request.param, request.param)
    where = tmp_path / "chat.db" if kind == "sqlite" else request.getfixturevalue(kind)
    with Store(where) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A recipient of this test alone: the server is shared."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def file_store(tmp_path: Path) -> Callable[[], Store]:
    return lambda: Store(tmp_path / "chat.db")
