#!/usr/bin/env python3
"""Draws docs/chat.svg: a conversation with `scrollback chat` as a terminal shows it.

    tools/chat_screenshot.py [PROGRAM] [PICTURE]

The program runs in a terminal of its own, with an agent whose model answers from a script, so the picture is the same
each time. What it writes is kept on a small screen, and the screen is drawn.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

COLUMNS, ROWS = 92, 30
AGENT = "name: desk\nmodel: offline:script=script.yaml\nsystem: You are a travel desk. Be brief.\nhistory: turn_window(1)\n"
SCRIPT = """- {reply: "Gladly. For how many people, and when?"}
- {reply: "Noted: two people, the second week of May, near the sea."}
- {reply: "Then take the night train to Lisbon: it leaves at 21:43."}
- {reply: "Hotel Tejo has a room by the sea for 94 EUR."}
"""
TYPED = [
    ("I would like to go to Lisbon.", "when?"),
    ("Two of us, second week of May.", "near the sea."),
    ("How do we get there?", "21:43."),
    ("/recall may", "second week"),
    ("/why", "left out"),
    ("/undo", "taken back"),
    ("Find us a hotel.", "94 EUR."),
]
COLOURS = {30: "#6e7681", 31: "#f47067", 32: "#8ddb8c", 33: "#e0b05f", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#76e3ea", 37: "#d0d7de"}
PIECE = re.compile(r"\x1b\[([0-9;?<>=]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]|([\r\n\b])|([^\x1b\r\n\b]+)")


class Screen:
    """Lines of cells; each cell is a letter and how it is shown."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = [[]], 0, 0, ("", False, False)

    def take(self, text):
        for numbers, code, control, letters in PIECE.findall(text):
            if letters:
                for letter in letters:
                    self.put(letter)
            elif control == "\r":
                self.column = 0
            elif control == "\b":
                self.column = max(0, self.column - 1)
            elif control == "\n":
                self.row += 1
                while len(self.lines) <= self.row:
                    self.lines.append([])
            elif code == "m":
                self.dress([int(number or 0) for number in numbers.split(";")])
            elif code == "K":
                del self.lines[self.row][self.column :]
            elif code == "J":
                del self.lines[self.row][self.column :]
                del self.lines[self.row + 1 :]
            elif code in "ABCD":
                by = int(numbers or 1)
                self.row = max(0, self.row + {"A": -by, "B": by}.get(code, 0))
                self.column = max(0, self.column + {"C": by, "D": -by}.get(code, 0))

    def put(self, letter):
        line = self.lines[self.row]
        while len(line) <= self.column:
            line.append((" ", ("", False, False)))
        line[self.column] = (letter, self.style)
        self.column += 1
        if self.column == COLUMNS:
            self.column, self.row = 0, self.row + 1
            if len(self.lines) <= self.row:
                self.lines.append([])

    def dress(self, numbers):
        colour, bold, dim = self.style
        for number in numbers:
            if number == 0:
                colour, bold, dim = "", False, False
            elif number == 1:
                bold = True
            elif number == 2:
                dim = True
            elif number in (22,):
                bold = dim = False
            elif number == 39:
                colour = ""
            elif number in COLOURS:
                colour = COLOURS[number]
            elif number - 60 in COLOURS:
                colour = COLOURS[number - 60]
        self.style = (colour, bold, dim)

    def text(self):
        return "\n".join("".join(letter for letter, _ in line) for line in self.lines)


def talk(program):
    """What the terminal shows after the conversation."""
    screen, (end, other) = Screen(), pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("desk.yaml", AGENT), ("script.yaml", SCRIPT)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
        environment.pop("NO_COLOR", None)
        command = [program, "chat", "desk.yaml", "--recipient", "anna"]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=other, stdout=other, stderr=other, start_new_session=True)
        os.close(other)

        def until(true, what):
            last = time.monotonic() + 60
            while not true():
                if time.monotonic() > last or process.poll() is not None:
                    raise SystemExit(f"{what!r} did not come; the screen:\n{screen.text()}")
                if select.select([end], [], [], 0.1)[0]:
                    screen.take(os.read(end, 65536).decode(errors="replace"))

        def prompts():
            return sum(line.startswith(">") for line in screen.text().splitlines())

        screen.take("\x1b[2m$ scrollback chat desk.yaml --recipient anna\x1b[0m\r\n")
        for number, (line, answer) in enumerate(TYPED):
            until(lambda: prompts() > number, "the prompt")
            os.write(end, line.encode() + b"\r")
            until(lambda: answer in screen.text().split(line)[-1], answer)
        until(lambda: prompts() > len(TYPED), "the prompt")
        os.write(end, b"/quit\r")
        last = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < last:
            if select.select([end], [], [], 0.1)[0]:
                try:
                    os.read(end, 65536)
                except OSError:
                    break
        if process.poll() is None:
            process.wait(20)
    return screen


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def draw(screen):
    """The screen as a picture."""
    lines = [line for line in screen.lines]
    while lines and not "".join(letter for letter, _ in lines[-1]).strip(" >"):
        lines.pop()
    height, width = 19, 8.4
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * width + 32:.0f} {len(lines) * height + 60}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
        "<title>A conversation with scrollback chat in a terminal</title>",
        '<rect width="100%" height="100%" rx="8" fill="#1c2128"/>',
        '<g><circle cx="18" cy="18" r="5" fill="#f47067"/><circle cx="36" cy="18" r="5" fill="#e0b05f"/><circle cx="54" cy="18" r="5" fill="#8ddb8c"/></g>',
    ]
    for number, line in enumerate(lines):
        spans, at = [], 0
        while at < len(line):
            style, begin = line[at][1], at
            while at < len(line) and line[at][1] == style:
                at += 1
            letters = "".join(letter for letter, _ in line[begin:at])
            if letters.strip():
                colour, bold, dim = style
                more = (' font-weight="bold"' if bold else "") + (' opacity="0.6"' if dim else "")
                shown = letters.rstrip()
                spans.append(
                    f'<tspan x="{16 + begin * width:.1f}" textLength="{len(shown) * width:.1f}" fill="{colour or "#d0d7de"}"{more}>{escape(shown)}</tspan>'
                )
        if spans:
            picture.append(f'<text y="{52 + number * height}" xml:space="preserve">{"".join(spans)}</text>')
    picture.append("</svg>")
    return "\n".join(picture) + "\n"


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(here, "target/debug/scrollback")
    to = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "docs/chat.svg")
    picture = draw(talk(program))
    with open(to, "w") as file:
        file.write(picture)
    print(to)


if __name__ == "__main__":
    main()
