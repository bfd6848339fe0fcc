"""What the comparisons with other libraries share: packages in a place of their own, our figures, and tables."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "bench"
VENV = BENCH / "venv"
PACKAGES = ["langchain-core==1.7.2", "langchain-anthropic==1.7.7", "litellm==1.106.2", "tiktoken==0.14.0"]


def run(script, before, then):
    """Runs `then` where the packages are, after `before` in the Python that was called."""
    if pathlib.Path(sys.prefix) == VENV:
        then()
        return
    python = VENV / "bin" / "python"
    if not installed(python):
        print("\nOther libraries: not compared, because pip could not install " + ", ".join(PACKAGES) + ".")
        return
    before()
    subprocess.run([python, script], check=True)


def installed(python):
    """Whether the packages are there, after an attempt to get them."""
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, capture_output=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(pip + PACKAGES, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def export(bench):
    """Has a Rust benchmark write its conversation and its own figures."""
    command = ["cargo", "bench", "--quiet", "-p", "scrollback-core", "--bench", bench, "--", "--export", BENCH]
    subprocess.run(command, cwd=ROOT, check=True)


def duration(seconds):
    for unit, size in [("s", 1), ("ms", 1e-3), ("µs", 1e-6)]:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def print_table(head, rows):
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, ["─" * width for width in widths], *rows]:
        cells = [cell.ljust(width) if column == 0 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        print("  " + "  ".join(cells).rstrip())
