"""What a provider's prompt cache would have done with a request, by the providers' published rules.

Tokens are a fixed estimate (four bytes are one token), the same for every run that is compared. Time is counted in calls: one
call is twenty seconds, so that five minutes are over after fifteen calls that do not touch an entry.

Messages: an entry is written at every block with `cache_control`, at most four; a mark looks for entries up to twenty blocks
back; nothing shorter than the model's minimum is kept; tools come before the system prompt, that before the messages.
Responses and Chat: no marks; the longest prefix seen before under the same `prompt_cache_key`, from 1,024 tokens in steps of 128.
Gemini: the longest prefix seen before, from the model's minimum.
"""

import functools
import hashlib
import json
import pathlib

SECONDS_PER_CALL = 20

# Multiples of the input price. A write is 1.25 (five minutes) or 2 (an hour); a read is 0.1 but for the newest models.
WRITE = {"5m": 1.25, "1h": 2.0}
READ = 0.1
OUTPUT = 5.0
TABLE = pathlib.Path(__file__).resolve().parents[2] / "crates/core/data/models.csv"


@functools.cache
def read_price(model):
    """What a token costs that is read from the cache, by the table of prices, as a multiple of the input price."""
    for line in TABLE.read_text().splitlines():
        fields = line.split(",")
        if fields[0] == f"anthropic:{model}" and fields[5]:
            return float(fields[5]) / float(fields[3])
    return READ


def tokens(text):
    """The estimate: four bytes are one token."""
    return (len(text.encode() if isinstance(text, str) else text) + 3) // 4


def spelled(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def without_marks(block):
    return {key: value for key, value in block.items() if key != "cache_control"} if isinstance(block, dict) else block


def minimum(model):
    """The shortest prefix a model keeps."""
    if any(name in model for name in ("opus-4-5", "opus-4-6", "haiku-4-5")):
        return 4096
    if "opus-4-7" in model:
        return 2048
    return 512 if "-5" in model and "-4-" not in model else 1024


class Usage:
    """What one request used, in tokens."""

    def __init__(self, total, read=0, write=0, hour=0, output=0, read_price=READ):
        self.total, self.read, self.write, self.hour, self.output = total, read, write, hour, output
        self.read_price = read_price

    @property
    def fresh(self):
        """Neither read nor written."""
        return self.total - self.read - self.write - self.hour

    @property
    def uncached(self):
        """Everything that was not read from the cache."""
        return self.total - self.read

    def cost(self):
        """In input tokens at full price."""
        return self.input_cost() + OUTPUT * self.output

    def input_cost(self):
        return self.fresh + WRITE["5m"] * self.write + WRITE["1h"] * self.hour + self.read_price * self.read


class MessagesCache:
    """Anthropic's: entries at marks."""

    def __init__(self):
        self.entries = {}  # hash of a prefix → (when it ends, seconds it is kept)
        self.now = 0

    @staticmethod
    def blocks(body):
        """The request as (spelling, mark) in the order in which it is cached."""
        for tool in body.get("tools") or []:
            yield "tool" + spelled(without_marks(tool)), tool.get("cache_control")
        system = body.get("system") or []
        for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
            yield "system" + spelled(without_marks(block)), block.get("cache_control")
        settings = spelled([body.get("tool_choice"), (body.get("thinking") or {}).get("type")])
        for number, message in enumerate(body.get("messages") or []):
            content = message["content"]
            content = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in content:
                before = settings if number == 0 else ""
                mark = block.get("cache_control") if isinstance(block, dict) else None
                yield before + message["role"] + spelled(without_marks(block)), mark

    def ask(self, body):
        self.now += SECONDS_PER_CALL
        chain, places, total, marks = hashlib.sha256(body.get("model", "").encode()), [], 0, []
        for spelling, mark in self.blocks(body):
            chain.update(spelling.encode())
            total += tokens(spelling)
            places.append((chain.hexdigest(), total))
            if mark:
                marks.append((len(places) - 1, mark.get("ttl", "5m")))
        if body.get("cache_control") and places:
            marks.append((len(places) - 1, body["cache_control"].get("ttl", "5m")))
        kept = {key for key, (until, _) in self.entries.items() if until >= self.now}
        read = 0
        for place, _ in marks:
            for back in range(place, max(-1, place - 20), -1):
                key, reach = places[back]
                if key in kept:
                    seconds = self.entries[key][1]
                    self.entries[key] = (self.now + seconds, seconds)
                    read = max(read, reach)
                    break
        write, hour, least = 0, 0, minimum(body.get("model", ""))
        reached = read
        for place, ttl in sorted(marks):
            key, reach = places[place]
            if reach < least:
                continue
            seconds = 3600 if ttl == "1h" else 300
            self.entries[key] = (self.now + seconds, seconds)
            if reach > reached:
                if ttl == "1h":
                    hour += reach - reached
                else:
                    write += reach - reached
                reached = reach
        return Usage(total, read, write, hour, read_price=read_price(body.get("model", "")))


class PrefixCache:
    """OpenAI's and Gemini's: the longest prefix seen before."""

    def __init__(self, step=128, least=1024):
        self.step, self.least, self.seen = step, least, {}

    def ask(self, model, key, pieces):
        text = "\n".join([model, *pieces]).encode()
        seen = self.seen.setdefault((model, key), set())
        size, chain, read, unbroken = self.step * 4, hashlib.sha256(), 0, True
        for end in range(size, len(text) + 1, size):
            chain.update(text[end - size : end])
            place = chain.hexdigest()
            unbroken = unbroken and place in seen
            if unbroken:
                read = end // 4
            seen.add(place)
        return Usage(tokens(text), read if read >= self.least else 0)


def responses_pieces(body):
    yield spelled(body.get("tools") or [])
    yield body.get("instructions") or ""
    given = body.get("input") or []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        yield spelled({key: value for key, value in item.items() if key not in ("id", "status")})


def chat_pieces(body):
    yield spelled(body.get("tools") or [])
    for message in body.get("messages") or []:
        yield spelled(message)


def gemini_pieces(body):
    yield spelled(body.get("systemInstruction") or {})
    yield spelled(body.get("tools") or [])
    for content in body.get("contents") or []:
        yield spelled(content)
