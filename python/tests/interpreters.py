"""Which Pythons this machine has."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path


def interpreters() -> list[Path]:
    """Every Python of this machine that the wheel is for, oldest first, one of each version."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *(Path.home() / ".pyenv/versions").glob("*/bin")]
    found: dict[int, Path] = {}
    for folder in folders:
        for place in sorted(Path(folder).glob("python3.*")):
            minor = re.fullmatch(r"python3\.(\d+)", place.name)
            if minor is None or int(minor[1]) < 10 or int(minor[1]) in found:
                continue
            works = subprocess.run([place, "-c", "import ensurepip, venv"], capture_output=True, check=False)
            if works.returncode == 0:
                found[int(minor[1])] = place
    return [found[minor] for minor in sorted(found)]
