"""The types of the installed package, as a user's program sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import scrollback

HERE = Path(__file__).parent


def test_the_program_uses_every_public_name() -> None:
    text = (HERE / "typed.py").read_text()
    assert [name for name in scrollback.__all__ if name not in text] == []


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=["mypy", "pyright"])
def test_a_users_program_is_clean(checker: list[str], tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text((HERE / "typed.py").read_text())
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    options = ["--pythonpath", sys.executable] if checker[0] == "pyright" else []
    command = [sys.executable, "-m", *checker, *options, "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
