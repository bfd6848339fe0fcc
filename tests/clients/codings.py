"""Bodies of requests as they are packed on the way."""

import subprocess
import zlib

# Python has zstd from version 3.14 on only; a package that LangChain brings along has it. The harness says where.
PYTHON = "python3"
ZSTD = "import sys, zstandard; sys.stdout.buffer.write(zstandard.ZstdDecompressor().decompressobj().decompress(sys.stdin.buffer.read()))"


def unpacked(body, coding):
    """A body without its content coding."""
    if coding in ("gzip", "deflate"):
        return zlib.decompress(body, 47)
    if coding == "zstd":
        return subprocess.run([PYTHON, "-c", ZSTD], input=body, capture_output=True, check=True, timeout=60).stdout
    return body
