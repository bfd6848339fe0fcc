"""A client in a terminal: what a person types, and what the screen shows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

CODES = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Terminal:
    def __init__(self, command, cwd, env):
        self.shown, (self.end, other) = b"", pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            [str(part) for part in command], cwd=cwd, env={**env, "TERM": "xterm-256color"},
            stdin=other, stdout=other, stderr=other, start_new_session=True,
        )
        os.close(other)

    def read(self, seconds):
        ready, _, _ = select.select([self.end], [], [], seconds)
        if ready:
            try:
                self.shown += os.read(self.end, 65536)
            except OSError:
                return

    def screen(self):
        """Everything that was shown, without colours and places, without spaces."""
        return re.sub(rb"\s+", b"", CODES.sub(b"", self.shown)).decode(errors="replace")

    def until(self, true, what, seconds=180):
        """Reads what is shown until something is true."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come within {seconds} s; the screen: {self.screen()[-800:]}")
            self.read(0.1)

    def shows(self, words, seconds=180):
        words = words.replace(" ", "")
        self.until(lambda: words in self.screen(), words, seconds)

    def line(self, words):
        """Types a line: it is shown before it is sent, as with a person."""
        self.shown = b""
        os.write(self.end, words.encode())
        self.shows(words)
        os.write(self.end, b"\r")

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.end)
