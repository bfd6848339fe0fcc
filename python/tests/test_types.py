"""The types of the installed package, as a user's program sees them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

import scrollback

HERE = Path(__file__).parent


def test_the_program_uses_every_public_name() -> None:
    text = (HERE / "typed.py").read_text()
    assert [name for name in scrollback.__all__ if name not in text] == []


def test_the_program_uses_every_name_of_every_adapter() -> None:
    text = (HERE / "typed.py").read_text()
    package = Path(scrollback.__file__).parent / "adapters"
    names = [name for file in package.glob("*.py") for name in re.findall(r'^__all__ = \[(.*)\]', file.read_text(), re.M)]
    listed = {name.strip().strip('"') for line in names for name in line.split(",")}
    assert len(listed) > 9 and [name for name in sorted(listed) if name not in text] == []
    members = [
        member
        for kind in (scrollback.Store, scrollback.Conversation, scrollback.AsyncStore, scrollback.AsyncConversation, scrollback.View)
        for member in vars(kind)
        if not member.startswith("_")
    ]
    assert [member for member in members if f".{member}" not in text] == []


def test_the_types_of_the_engine_are_those_it_has(tmp_path: Path) -> None:
    # Alone: with the package around it, mypy would read every framework.
    alone = tmp_path / "scrollback"
    alone.mkdir()
    for file in Path(scrollback.__file__).parent.glob("_core.*"):
        shutil.copy(file, alone)
    (alone / "__init__.py").touch()
    stubtest = [sys.executable, "-m", "mypy.stubtest", "scrollback._core", "--concise", "--ignore-disjoint-bases"]
    places = {"PYTHONPATH": str(tmp_path), "MYPYPATH": str(tmp_path)}
    done = subprocess.run(stubtest, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **places})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_and_a_users_program_are_clean_for_mypy(tmp_path: Path) -> None:
    """A copy of what is installed: mypy passes over what lies among installed packages."""
    left = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(Path(scrollback.__file__).parent, tmp_path / "scrollback", ignore=left)
    shutil.copy(HERE / "typed.py", tmp_path)
    # The frameworks take a minute to read; what was read is kept for the next time.
    cache = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mypy-cache"
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "-p", "scrollback", "-m", "typed"]
    done = subprocess.run(mypy, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_users_program_is_clean_for_pyright(tmp_path: Path) -> None:
    shutil.copy(HERE / "typed.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
