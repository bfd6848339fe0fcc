"""The attacks, by the promise they try to break."""

import gzip
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from target import OPERATORS, SECRET, Postgres, Target

ALL = []


def attack(row, tried, long=False):
    """Adds an attack to the list."""
    def add(function):
        function.row, function.tried, function.long = row, tried, long
        function.name = function.__name__
        ALL.append(function)
        return function
    return add


class Ground:
    """The servers that are attacked: one with keys of two tenants, one without keys."""

    def __init__(self, binary, provider, canary):
        self.binary, self.provider, self.canary, self.others = binary, provider, canary, []
        self.keyed = Target(binary, provider, "keyed")
        for tenant in ("victim", "thief"):
            for scope in ("admin", "read", "proxy"):
                setattr(self, f"{tenant}_{scope}", self.keyed.key(f"{tenant}-{scope}", tenant, scope))
        self.keyed.start()
        self.open = Target(binary, provider, "open")
        self.open.start()
        said = self.keyed.ask("POST", "/v1/responses", {"model": "gpt-5", "input": "hi"}, self.victim_proxy)
        assert said.status == 200, said.text
        made = self.keyed.ask("POST", "/api/conversations", {}, self.victim_admin)
        self.conversation = json.loads(made.text)["id"]
        text = "word " * 12 + f"lighthouse {SECRET} " + "more " * 60
        self.keyed.ask("POST", f"/api/conversations/{self.conversation}/entries",
                       {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]}, self.victim_admin)

    def another(self, name, **options):
        target = Target(self.binary, self.provider, name, **options)
        self.others.append(target)
        return target

    def end(self):
        for target in [self.keyed, self.open, *self.others]:
            target.stop()
            shutil.rmtree(target.folder, ignore_errors=True)


def refused(answer, *statuses):
    return answer.status in statuses, f"{answer.status}"


# A tenant reaches only its own objects at a provider.
WALL = "a tenant reaches only its own objects"
for method, path, tried in [
    ("GET", "/v1/responses/resp_victim", "read another tenant's response at the provider"),
    ("DELETE", "/v1/responses/resp_victim", "delete another tenant's response"),
    ("GET", "/v1/responses/resp_victim/input_items", "list what another tenant's response was made from"),
    ("POST", "/v1/responses/resp_victim/cancel", "cancel another tenant's response"),
    ("GET", "/v1/responses", "list all responses of the operator"),
    ("GET", "/v1/files", "list all files of the operator"),
    ("GET", "/v1/files/file-1/content", "read a file of the operator"),
    ("POST", "/v1/files", "upload a file under the operator's key"),
    ("GET", "/v1/batches", "list all batches"),
    ("POST", "/v1/conversations", "make a conversation at the provider"),
    ("GET", "/v1/conversations/conv_1/items", "read a conversation at the provider"),
    ("GET", "/v1/assistants", "list assistants"),
    ("GET", "/v1/vector_stores", "list vector stores"),
    ("GET", "/v1/organization/usage/completions", "read the operator's usage"),
    ("GET", "/v1/models/..%2ffiles", "leave an allowed path by `..%2f`"),
    ("GET", "/v1/models/%2e%2e/files", "leave an allowed path by `%2e%2e`"),
    ("POST", "/v1/embeddings/../files", "leave an allowed path by `..`"),
    ("POST", "/v1/embeddings//../files", "leave an allowed path by `//..`"),
    ("DELETE", "/v1/embeddings", "another verb at an allowed path"),
]:
    def one(ground, method=method, path=path):
        before = ground.provider.count()
        answer = ground.keyed.ask(method, path, None if method in ("GET", "DELETE") else {}, ground.thief_proxy)
        asked = ground.provider.count() - before
        return answer.status in (404, 405) and asked == 0, f"{answer.status}, the provider was asked {asked} times"
    one.__name__ = f"provider {method} {path}"
    attack(WALL, f"{tried}: `{method} {path}`")(one)


for name, body in [
    ("previous_response_id", {"model": "gpt-5", "input": "x", "previous_response_id": "resp_victim"}),
    ("conversation as text", {"model": "gpt-5", "input": "x", "conversation": "conv_1"}),
    ("conversation as object", {"model": "gpt-5", "input": "x", "conversation": {"id": "conv_1"}}),
]:
    def one(ground, body=body):
        before = ground.provider.count()
        answer = ground.keyed.ask("POST", "/v1/responses", body, ground.thief_proxy)
        asked = ground.provider.count() - before
        return answer.status in (400, 404) and asked == 0, f"{answer.status}, the provider was asked {asked} times"
    one.__name__ = f"names {name}"
    attack(WALL, f"go on from another tenant's state ({name})")(one)


RESPONSES, CHATS, MESSAGES, GEMINI = "/v1/responses", "/v1/chat/completions", "/v1/messages", "/v1beta/models/gemini-3-pro:generateContent"


def items(*parts, **more):
    return {"model": "gpt-5", "input": list(parts)} | more


def message(*parts, **more):
    return {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [{"role": "user", "content": list(parts)}]} | more


def contents(*parts, **more):
    return {"contents": [{"role": "user", "parts": list(parts)}]} | more


TEXT = {"type": "text", "text": "x"}
for name, path, body in [
    ("an item of a response (`item_reference`)", RESPONSES, items({"type": "item_reference", "id": "m1"})),
    ("the same with escapes in its JSON", RESPONSES, '{"model":"gpt-5","input":[{"type":"item_ref\\u0065rence","\\u0069d":"m1"}]}'),
    ("an item by its `id` alone", RESPONSES, items({"id": "m1"})),
    ("thoughts (`reasoning` without its content)", RESPONSES, items({"type": "reasoning", "id": "rs_1", "summary": []})),
    ("a picture (`image_generation_call` without its result)", RESPONSES, items({"type": "image_generation_call", "id": "ig_1"})),
    ("a file (`input_file.file_id`)", RESPONSES, items({"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]})),
    ("vector stores (`vector_store_ids`)", RESPONSES, items(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}])),
    ("a container (`container`)", RESPONSES, items(tools=[{"type": "code_interpreter", "container": "cntr_1"}])),
    ("a stored prompt (`prompt.id`)", RESPONSES, items(prompt={"id": "pmpt_1"})),
    ("a file in a chat (`file.file_id`)", CHATS, {"model": "gpt-4o", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}),
    ("a spoken reply (`audio.id`)", CHATS, {"model": "gpt-4o", "messages": [{"role": "assistant", "audio": {"id": "audio_1"}}, {"role": "user", "content": "x"}]}),
    ("a file of Anthropic's (`source.file_id`)", MESSAGES, message({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    ("a container of Anthropic's", MESSAGES, message(TEXT, container="container_1")),
    ("a cache of Gemini's (`cachedContent`)", GEMINI, contents({"text": "x"}, cachedContent="cachedContents/1")),
    ("a file of Gemini's (`fileData.fileUri`)", GEMINI, contents({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}})),
    ("tokens of another tenant's thread (`count_tokens`)", "/v1/messages/count_tokens",
     message(TEXT, thread={"type": "continue", "previous_message_id": "msg_victim"})),
]:
    def one(ground, path=path, body=body):
        before = ground.provider.count()
        answer = ground.keyed.ask("POST", path, body, ground.thief_proxy, {"content-type": "application/json"})
        asked = ground.provider.count() - before
        return answer.status in (400, 404) and asked == 0, f"{answer.status}, the provider was asked {asked} times"
    one.__name__ = f"names {name}"
    attack(WALL, f"use what another tenant keeps at the provider: {name}")(one)


@attack(WALL, "use an item that a reply gave this very tenant: it has to work")
def own_item(ground):
    answer = ground.keyed.ask("POST", RESPONSES, items({"type": "item_reference", "id": "m1"}, {"role": "user", "content": "x"}), ground.victim_proxy)
    return answer.status == 200, f"{answer.status}"


@attack("a caller goes on with its own conversations only", "name another person's response, thread or conversation behind one gateway, where every body has the same `user`")
def callers(ground):
    def ask(person, path, body):
        return ground.open.ask("POST", path, body | {"user": "gateway"}, headers={"authorization": f"Bearer eyJ-{person}-0123456789abcdef",
                                                                                  "content-type": "application/json"})
    first = ask("anna", RESPONSES, {"model": "gpt-5", "input": "mine"}).status
    begun = ask("anna", RESPONSES, {"model": "gpt-5", "input": "mine", "conversation": "conv_a"}).status
    before = ground.provider.count()
    stolen = [ask("bert", RESPONSES, {"model": "gpt-5", "input": "x", "previous_response_id": "resp_victim"}).status,
              ask("bert", RESPONSES, {"model": "gpt-5", "input": "x", "conversation": "conv_a"}).status]
    asked = ground.provider.count() - before
    own = ask("anna", RESPONSES, {"model": "gpt-5", "input": "x", "conversation": "conv_a"}).status
    return (first, begun, own) == (200, 200, 200) and stolen == [400, 404] and asked == 0, f"{stolen}, the provider was asked {asked} times; its own {own}"


LIMITS = "every pass-through call is charged and limited"


@attack(LIMITS, "spend on `/v1/embeddings` beyond a key's tokens a minute")
def embeddings(ground):
    made = ground.keyed.command("key", "add", "few-tokens", "--tenant", "thief", "--scope", "proxy", "--tpm", "2500", "--store", ground.keyed.store)
    key, statuses = made.stdout.strip(), []
    for _ in range(5):
        statuses.append(ground.keyed.ask("POST", "/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"}, key).status)
        time.sleep(0.1)
    return statuses == [200, 200, 200, 429, 429], f"{statuses}"


@attack(LIMITS, "spend with a key limited in dollars where no price is known")
def no_price(ground):
    made = ground.keyed.command("key", "add", "few-dollars", "--tenant", "thief", "--scope", "proxy", "--usd-per-day", "0.01", "--store", ground.keyed.store)
    key, before = made.stdout.strip(), ground.provider.count()
    statuses = [ground.keyed.ask("POST", path, {"model": "nameless", "input": "x"}, key).status
                for path in ("/v1/embeddings", "/v1/completions", "/v1/images/generations", "/v1/audio/speech")]
    return set(statuses) == {403} and ground.provider.count() == before, f"{statuses}, the provider was not asked"


@attack(WALL, "read, list, search, export and fork another tenant's conversation with an admin key of one's own")
def other_tenant(ground):
    id, statuses, told = ground.conversation, set(), ""
    for path in ("", "/entries", "/calls", "/decisions"):
        answer = ground.keyed.ask("GET", f"/api/conversations/{id}{path}", key=ground.thief_admin)
        statuses.add(answer.status)
        told += answer.text
    for path in ("/fork", "/erase", "/entries", "/views"):
        statuses.add(ground.keyed.ask("POST", f"/api/conversations/{id}{path}", {"at": 1, "messages": []}, ground.thief_admin).status)
    for path in ("/api/search?q=lighthouse", "/api/export?all=true", "/api/conversations", "/api/calls", "/lens/search?q=lighthouse"):
        told += ground.keyed.ask("GET", path, key=ground.thief_admin).text
    return statuses <= {400, 404} and "word word" not in told, f"statuses {sorted(statuses)}, nothing of it was told"


@attack(WALL, "go on with another tenant's conversation through the proxy (`x-scrollback-conversation`, `append`)")
def proxy_conversation(ground):
    headers = {"x-scrollback-conversation": ground.conversation, "x-scrollback-mode": "append"}
    before = ground.provider.count()
    answer = ground.keyed.chat("what did they say", ground.thief_proxy, headers=headers)
    sent = "".join(asked[3] for asked in ground.provider.asked[before:])
    return "lighthouse" not in sent, f"{answer.status}, nothing of it was sent"


KEYS = "revoking keys never opens the server"


@attack(KEYS, "ask without a key after the last key was revoked, and with the revoked key a second later")
def revoked(ground):
    target = ground.another("revoked")
    key = target.key("only", "default", "admin")
    target.start()
    first = target.ask("GET", "/api/conversations", key=key).status
    target.command("key", "revoke", "only", "--store", target.store)
    time.sleep(1.2)
    statuses = [target.ask("GET", "/api/conversations", key=key).status, target.ask("GET", "/api/conversations").status, target.chat("x").status]
    target.stop()
    target.start()
    statuses.append(target.ask("GET", "/api/conversations").status)
    return first == 200 and set(statuses) == {401}, f"{first} before, then {statuses}"


for header in ("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-proto"):
    def one(ground, header=header):
        return refused(ground.open.ask("GET", "/api/conversations", headers={header: "203.0.113.9"}), 403)
    one.__name__ = f"anonymous {header}"
    attack(KEYS, f"reach a server without keys through another machine's proxy (`{header}`)")(one)

for name, key in [("an empty key", " "), ("SQL as a key", "sb_' or '1'='1"), ("a long key", "sb_" + "a" * 4000), ("a provider's key", OPERATORS)]:
    def one(ground, key=key):
        return refused(ground.keyed.ask("GET", "/api/conversations", key=key), 401)
    one.__name__ = f"key {name}"
    attack(KEYS, f"log in with {name}")(one)


@attack(KEYS, "use keys beyond their scope: read with `proxy`, ask and write with `read`")
def scopes(ground):
    asks = [ground.keyed.ask("GET", "/api/conversations", key=ground.victim_proxy), ground.keyed.chat("x", ground.victim_read),
            ground.keyed.ask("POST", "/api/conversations", {}, ground.victim_read),
            ground.keyed.ask("POST", "/api/import", "{}", ground.victim_read), ground.keyed.ask("GET", "/metrics", key=ground.victim_proxy)]
    return all(answer.status == 403 for answer in asks), f"{[answer.status for answer in asks]}"


@attack("a stolen database is not a login", "forge a session cookie from the hashes of keys and the secret in the database")
def forged(ground):
    rows = ground.keyed.rows("select name, hex(key_hash) from keys")
    facts = dict(ground.keyed.rows("select key, value from meta"))
    until, statuses = int(time.time()) + 3600, set()
    guesses = [f"{name}.{until}.{hash.lower()}" for name, hash in rows]
    guesses += [f"{until}.{'00' * 16}.{hash.lower()}.{facts.get('session_secret', '00')}" for _, hash in rows]
    for guess in guesses:
        answer = ground.keyed.ask("GET", "/lens", headers={"cookie": f"scrollback_session={guess}"})
        statuses.add(answer.status)
    return statuses == {303}, f"{len(guesses)} cookies, all sent to the login"


@attack("a stolen database is not a login", "change a valid cookie; use it after its key was revoked; read it over plain HTTP behind TLS")
def cookies(ground):
    target = ground.another("cookies")
    key = target.key("one", "default", "admin")
    target.key("two", "default", "admin")
    target.start()
    form = {"content-type": "application/x-www-form-urlencoded"}
    login = lambda more: target.ask("POST", "/lens/login", f"key={key}", headers=form | more).headers.get("set-cookie", "")
    cookie = login({}).split(";")[0]
    secure = "Secure" in login({"x-forwarded-proto": "https"})
    look = lambda cookie: target.ask("GET", "/lens", headers={"cookie": cookie}).status
    valid, changed = look(cookie), look(cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    target.command("key", "revoke", "one", "--store", target.store)
    time.sleep(1.2)
    return (valid, changed, look(cookie), secure) == (200, 303, 303, True), "changed and revoked ones are sent to the login; `Secure` by TLS"


@attack("a stolen database is not a login", "read the files of the store as another user of the machine")
def modes(ground):
    found = {path.name: oct(path.stat().st_mode & 0o777) for path in ground.keyed.folder.glob("record.db*")}
    return set(found.values()) == {"0o600"}, ", ".join(f"{name} {mode}" for name, mode in sorted(found.items()))


HIDDEN = "secrets stay hidden"
for path in ("/api/search?q=lighthouse", "/lens/search?q=lighthouse", "/api/conversations/ID/entries", "/api/export?conversation=ID",
             "/api/export?conversation=ID&format=openai-chat", "/lens/conversations/ID", "/lens/conversations/ID?reveal=1"):
    def one(ground, path=path):
        answer = ground.keyed.ask("GET", path.replace("ID", ground.conversation), key=ground.victim_read)
        return answer.status == 200 and "sk-ant" not in answer.text and "aB3dE5fG7haB3d" not in answer.text, f"{answer.status}, redacted"
    one.__name__ = f"secret {path}"
    attack(HIDDEN, f"see a secret with a `read` key at `{path}`")(one)


@attack(HIDDEN, "guess a secret letter by letter with searches for its beginning")
def oracle(ground):
    found = [words for words in ("sk-ant-api03*", "api03", "aB3dE5*", "%22sk%20ant%22")
             if "lighthouse" in ground.keyed.ask("GET", f"/api/search?q={words}", key=ground.victim_read).text]
    return not found, "no search finds it"


@attack(HIDDEN, "ask to reveal with a `read` key; reveal with an admin key without leaving a line in the log")
def reveal(ground):
    path = f"/api/conversations/{ground.conversation}/entries?reveal=1"
    denied = ground.keyed.ask("GET", path, key=ground.victim_read).status
    shown = ground.keyed.ask("GET", path, key=ground.victim_admin)
    log = (ground.keyed.folder / "log").read_text()
    return denied == 403 and SECRET in shown.text and "secrets were revealed" in log, f"{denied}; the administrator's look is in the log"


@attack("a provider's echo of a key is not kept", "have a provider repeat the operator's key, then look for it in every file")
def echoed(ground):
    ground.keyed.chat("what is my key", ground.victim_proxy)
    time.sleep(0.3)
    found = [path.name for path, data in ground.keyed.files().items() if OPERATORS.encode() in data]
    return not found, "it is in no file" if not found else f"found in {found}"


@attack("a provider's echo of a key is not kept", "look for keys of clients in every file")
def client_keys(ground):
    keys = [ground.victim_admin, ground.victim_read, ground.victim_proxy, ground.thief_admin]
    found = [path.name for path, data in ground.keyed.files().items() for key in keys if key.encode() in data]
    return not found, "they are in no file" if not found else f"found in {found}"


BROWSER = "no cross-site or sniffing tricks"
for name, headers in [
    ("a POST that calls itself a navigation", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
    ("a POST with the origin of another site", {"origin": "https://evil.example"}),
    ("a POST from a sandboxed page (`Origin: null`)", {"origin": "null"}),
    ("a POST from another port of this machine", {"origin": "http://127.0.0.1:1"}),
]:
    def one(ground, headers=headers):
        return refused(ground.open.ask("POST", "/api/conversations", {}, headers=headers), 403)
    one.__name__ = f"browser {name}"
    attack(BROWSER, name)(one)

for host in ("evil.example", "127.0.0.1.evil.example", "0.0.0.0", "localhost.evil.example:7275"):
    def one(ground, host=host):
        return refused(ground.open.ask("GET", "/api/conversations", headers={"host": host}), 403)
    one.__name__ = f"rebinding {host}"
    attack(BROWSER, f"a name that was made to point here (`Host: {host}`)")(one)


@attack(BROWSER, "sniff, frame or run what any page or answer says")
def sniff(ground):
    paths = ("/healthz", "/api/conversations", "/nowhere", "/v1/models", "/lens", "/api/openapi.json", "/lens/login")
    missing = [(path, name) for path in paths for name in ("x-content-type-options", "content-security-policy", "referrer-policy")
               if name not in ground.open.ask("GET", path).headers]
    return not missing, f"{len(paths)} kinds of answers have all the headers" if not missing else f"missing: {missing}"


@attack(BROWSER, "send the person who logs in to another site")
def redirect(ground):
    form = {"content-type": "application/x-www-form-urlencoded"}
    places = [ground.keyed.ask("POST", "/lens/login", f"key={ground.victim_admin}&to={to}", headers=form).headers.get("location", "")
              for to in ("https://evil.example", "//evil.example", "/lens%0d%0aset-cookie:a=b", "/lens%5cevil", "javascript:1")]
    return set(places) == {"/lens"}, "all lead to /lens"


@attack(BROWSER, "run a script that a conversation holds")
def script(ground):
    made = json.loads(ground.open.ask("POST", "/api/conversations", {}).text)["id"]
    payload = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    ground.open.ask("POST", f"/api/conversations/{made}/entries", {"messages": [{"role": "user", "content": payload}]})
    page = ground.open.ask("GET", f"/lens/conversations/{made}")
    return "<script>alert" not in page.text and "<img src=x" not in page.text and "unsafe" not in page.headers["content-security-policy"], "shown as text, under a strict policy"


ELSEWHERE = "the destination is configuration"
for name, path, body, headers in [
    ("a base URL in the body", "/v1/chat/completions", {"base_url": "http://127.0.0.1:CANARY", "api_base": "http://127.0.0.1:CANARY"}, {}),
    ("a host as the model", "/v1/chat/completions", {"model": "http://127.0.0.1:CANARY/v1"}, {}),
    ("headers that name a host", "/v1/chat/completions", {}, {"x-forwarded-host": "127.0.0.1:CANARY", "x-upstream": "http://127.0.0.1:CANARY"}),
    ("a path with a host", "/v1//127.0.0.1:CANARY/x", {}, {}),
    ("a path with an `@`", "/v1/@127.0.0.1:CANARY/x", {}, {}),
    ("an absolute path that climbs", "/v1/../../127.0.0.1:CANARY", {}, {}),
]:
    def one(ground, path=path, body=body, headers=headers):
        fill = lambda text: text.replace("CANARY", str(ground.canary.port))
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]} | {k: fill(v) for k, v in body.items()}
        answer = ground.open.ask("POST", fill(path), body, headers={k: fill(v) for k, v in headers.items()})
        return ground.canary.reached == 0, f"{answer.status}, no other host was reached"
    one.__name__ = f"destination {name}"
    attack(ELSEWHERE, f"send a request elsewhere by {name}")(one)


@attack(ELSEWHERE, "have the provider point elsewhere, with the operator's key")
def redirected(ground):
    answer = ground.open.chat("redirect me")
    return ground.canary.reached == 0 and "location" not in answer.headers, f"{answer.status}, not followed and not handed on"


@attack(ELSEWHERE, "send a request line that names another host")
def absolute_form(ground):
    told = ground.open.raw(f"GET http://127.0.0.1:{ground.canary.port}/v1/models HTTP/1.1\r\nhost: 127.0.0.1:{ground.canary.port}\r\nconnection: close\r\n\r\n".encode())
    return ground.canary.reached == 0, told.split("\r\n")[0]


SHAPE = "bad input is an answer"
deep = '{"model":"gpt-4o","messages":' + "[" * 5000 + "]" * 5000 + "}"
for name, body, statuses in [
    ("JSON nested 5,000 levels deep", deep, (400,)),
    ("a key that stands twice (`role`)", '{"model":"m","messages":[{"role":"user","role":"system","content":"x"}]}', (400,)),
    ("a lone surrogate", '{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}', (400,)),
    ("bytes that are not UTF-8", b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}', (400,)),
    ("20,000 parts in one message", json.dumps({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 20000}]}), (400,)),
    ("a number of 400 digits", '{"model":"offline:echo","max_tokens":' + "9" * 400 + ',"messages":[{"role":"user","content":"x"}]}', (200, 400)),
]:
    def one(ground, body=body, statuses=statuses):
        answer = ground.open.ask("POST", "/v1/chat/completions", body, headers={"content-type": "application/json"})
        return answer.status in statuses and ground.open.ask("GET", "/healthz").status == 200, f"{answer.status}"
    one.__name__ = f"shape {name}"
    attack(SHAPE, name)(one)


@attack(SHAPE, "a body that says it has 10 GB")
def claimed(ground):
    told = ground.open.raw(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10000000000\r\n\r\n{")
    return " 413 " in told.split("\r\n")[0] + " ", told.split("\r\n")[0]


@attack(SHAPE, "1 MB of gzip that unpacks to 1 GB")
def bomb(ground):
    before = ground.open.memory()
    packed = gzip.compress(b" " * (1 << 30), 9)
    answer = ground.open.ask("POST", "/v1/chat/completions", packed, headers={"content-encoding": "gzip", "content-type": "application/json"})
    grown = (ground.open.memory() - before) >> 20
    return answer.status == 413 and grown < 256, f"{answer.status}, {max(grown, 0)} MB more in memory"


for name, data in [
    ("both a length and chunks (request smuggling)", b"POST /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /lens HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
    ("two lengths", b"POST /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde"),
    ("two hosts", b"GET /api/conversations HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"),
    ("a folded header", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: b\r\n c\r\nconnection: close\r\n\r\n"),
    ("200 headers", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(200)) + b"\r\n"),
    ("headers of 200 KB", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: " + b"y" * 200000 + b"\r\n\r\n"),
    ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00" * 20),
]:
    def one(ground, name=name, data=data):
        told = ground.open.raw(data, timeout=4)
        first = told.split("\r\n")[0] or "closed"
        # Chunks win over a length (RFC 9112, 6.1), so what follows them is a request of its own, with an answer of its own.
        framed = name.startswith("both") and told.count("HTTP/1.1 ") <= 2
        fine = framed or not told.startswith("HTTP/1.1 2") and "<html" not in told
        return fine and ground.open.ask("GET", "/healthz").status == 200, first
    one.__name__ = f"framing {name}"
    attack(SHAPE, name)(one)

SLOW = "unauthenticated peers hold almost nothing"


def hold(ground, data, count=24, again=None, seconds=6):
    """Opens connections, sends the same on each, and says how many are still open after a while."""
    streams = []
    for _ in range(count):
        stream = socket.create_connection(("127.0.0.1", ground.keyed.port), timeout=5)
        stream.sendall(data)
        streams.append(stream)
    until = time.time() + seconds
    while time.time() < until:
        time.sleep(0.5)
        for stream in streams:
            try:
                if again:
                    stream.sendall(again)
            except OSError:
                pass
    still = 0
    for stream in streams:
        stream.setblocking(False)
        try:
            while stream.recv(65536):
                pass
        except BlockingIOError:
            still += 1
        except OSError:
            pass
        stream.close()
    return still


@attack(SLOW, "24 connections that send a header a second, for ever", long=True)
def slowloris(ground):
    still = hold(ground, b"GET /lens HTTP/1.1\r\nhost: 127.0.0.1\r\n", again=b"x-a: b\r\n")
    return still == 0, f"{still} open after 6 s"


@attack(SLOW, "24 connections that say nothing", long=True)
def silent(ground):
    still = hold(ground, b"")
    return still == 0, f"{still} open after 6 s"


@attack(SLOW, "24 logins with 30 MB of form each, without a key", long=True)
def fat_login(ground):
    before = ground.keyed.memory()
    head = b"POST /lens/login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 30000000\r\n\r\n"
    still = hold(ground, head + b"key=" + b"x" * 200000)
    grown = max(ground.keyed.memory() - before, 0) >> 20
    return grown < 32, f"{grown} MB more in memory, {still} open"


@attack(SLOW, "24 bodies with a key that send 4 MB at once and then nothing", long=True)
def falls_silent(ground):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {ground.thief_proxy}\r\ncontent-length: 30000000\r\n\r\n"
    still = hold(ground, head.encode() + b" " * (1 << 20))
    return still == 0, f"{still} open after 6 s"


@attack(SLOW, "100 connections from one address")
def many(ground):
    streams = [socket.create_connection(("127.0.0.1", ground.open.port), timeout=5) for _ in range(100)]
    time.sleep(0.3)
    refused_now = 0
    for stream in streams:
        stream.setblocking(False)
        try:
            refused_now += stream.recv(64).startswith(b"HTTP/1.1 429")
        except OSError:
            pass
        stream.close()
    return refused_now >= 30, f"{refused_now} were refused with 429"


FAIR = "one client cannot freeze others"


@attack(FAIR, "three bodies of 8 MB to `offline:echo` while another tenant asks", long=True)
def freeze(ground):
    big = {"model": "offline:echo", "messages": [{"role": "user", "content": "word " * 1600000}]}
    alone = [timed(lambda: ground.keyed.chat("alone", ground.victim_proxy, "offline:echo")) for _ in range(20)]
    with ThreadPoolExecutor(3) as pool:
        floods = [pool.submit(ground.keyed.ask, "POST", "/v1/chat/completions", big, ground.thief_proxy, None, 120) for _ in range(3)]
        beside = [timed(lambda: ground.keyed.chat(f"beside {n}", ground.victim_proxy, "offline:echo")) for n in range(20)]
        done = [flood.result().status for flood in floods]
    worst = max(beside)
    return worst < 2.5, f"floods {done}; the other's slowest call took {worst:.2f} s (alone {max(alone):.2f} s)"


def timed(work):
    began = time.time()
    answer = work()
    assert answer.status == 200, answer.text
    return time.time() - began


@attack(FAIR, "64 bodies of 8 MB at once: the memory of the process", long=True)
def budget(ground):
    big = {"model": "offline:echo", "messages": [{"role": "user", "content": "word " * 1600000}]}
    body, peak, going = json.dumps(big), [0], [True]

    def watch():
        while going[0]:
            peak[0] = max(peak[0], ground.keyed.memory())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(32) as pool:
        statuses = list(pool.map(lambda _: ground.keyed.ask("POST", "/v1/chat/completions", body, ground.thief_proxy,
                                                            {"content-type": "application/json"}, 180).status, range(64)))
    going[0] = False
    watcher.join()
    told = {status: statuses.count(status) for status in sorted(set(statuses))}
    # A client that sends slowly because the machine is busy is cut off (408, or 0 where it did not hear that).
    return set(statuses) <= {0, 200, 408, 429, 503} and peak[0] < 1280 << 20, f"{told}, at most {peak[0] >> 20} MB resident (`memory_bytes` is 512 MB)"


@attack("searches end", "30 searches that are left at once, then a call and a login", long=True)
def searches(ground):
    for _ in range(6):
        ground.keyed.ask("POST", f"/api/conversations/{ground.conversation}/entries",
                         {"messages": [{"role": "user", "content": "lantern " * 4000}] * 60}, ground.victim_admin)
    for _ in range(30):
        ground.keyed.raw(f"GET /api/search?q=lantern HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {ground.victim_read}\r\n\r\n".encode(), wait=False)
    began = time.time()
    statuses = [ground.keyed.chat("x", ground.victim_proxy, "offline:echo").status, ground.keyed.ask("GET", "/api/conversations", key=ground.victim_read).status]
    took = time.time() - began
    found = ground.keyed.ask("GET", "/api/search?q=lighthouse", key=ground.victim_read).status
    return statuses == [200, 200] and found == 200 and took < 5, f"answered in {took:.2f} s, and the next search found its entry"


@attack("no quadratic input", "6,000 calls that share one id, to be repaired and converted")
def same_id(ground):
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 6000
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    messages += [{"role": "tool", "tool_call_id": "c", "content": "x"}] * 6000
    text, began = json.dumps(messages), time.time()
    codes = [ground.open.command("check", "-", "--for", "openai-chat", "--repair", text=text).returncode,
             ground.open.command("convert", "-", "--from", "openai-chat", "--to", "anthropic", text=text).returncode]
    took = time.time() - began
    return codes == [0, 0] and took < 8, f"{took:.1f} s for {len(text) >> 10} KB"


PATHS = "HTTP tools stay on their path"


@attack(PATHS, "a tool argument that climbs (`..`), also encoded")
def tool_path(ground):
    seen = []
    for argument in ("../admin", "..", "%2e%2e", "a/../../b", "..\\admin"):
        before = ground.provider.count()
        script = [{"calls": [{"name": "look", "arguments": {"id": argument}}]}, {"reply": "done"}]
        (ground.open.folder / "script.yaml").write_text(json.dumps(script))
        agent = f"""name: t
model: offline:script=script.yaml
tools:
  - name: look
    description: d
    parameters: {{type: object, properties: {{id: {{type: string}}}}}}
    http: {{method: GET, url: "http://127.0.0.1:{ground.provider.port}/v1/users/{{id}}/notes"}}
"""
        (ground.open.folder / "AGENT.yaml").write_text(agent)
        ran = ground.open.command("agent", "AGENT.yaml", "--input", "go")
        seen += [asked[1] for asked in ground.provider.asked[before:]]
        told = ran.stdout + ran.stderr
    climbed = [path for path in seen if not path.startswith("/v1/users/") or ".." in path]
    return not climbed and "done" in told, f"none of 5 left the path" if not climbed else f"asked {climbed}"


@attack("PostgreSQL walls hold or say so", "make a key for the tenant `*`, who is all tenants to row security")
def star(ground):
    made = ground.open.command("key", "add", "star", "--tenant", "*", "--store", "sqlite:star.db")
    return made.returncode == 2 and not made.stdout, f"exit {made.returncode}: {made.stderr.strip()[:80]}"


TRACE = "every call leaves a trace"


@attack(TRACE, "kill the server while a provider is asked")
def killed(ground):
    target = ground.another("killed")
    target.start()
    threading.Thread(target=target.chat, args=("hang",), daemon=True).start()
    until = time.time() + 10
    while time.time() < until and not any("hang" in asked[3] for asked in ground.provider.asked):
        time.sleep(0.05)
    target.child.kill()
    target.child.wait()
    before = target.rows("select status from sent")
    target.start()
    target.stop()
    after = target.rows("select status from sent")
    return before == [("sent",)] and after == [("lost",)], f"{before[0][0]} when it died, {after[0][0]} after the next start"


@attack("/readyz tells the truth", "hold the store locked and ask whether the server is ready")
def locked(ground):
    import sqlite3
    target = ground.another("locked")
    target.start()
    first = target.ask("GET", "/readyz").status
    holder = sqlite3.connect(target.folder / "record.db", isolation_level=None)
    holder.execute("begin immediate")
    time.sleep(1.2)
    during = target.ask("GET", "/readyz").status
    holder.execute("rollback")
    time.sleep(1.2)
    after = target.ask("GET", "/readyz").status
    return (first, during, after) == (200, 503, 200), f"{first} before, {during} while it was locked, {after} after"


@attack("nothing is asked of a provider that is not durable", "let every sync of the log fail (strace), then ask", long=True)
def failed_sync(ground):
    if not shutil.which("strace"):
        return None, "strace is missing"
    target = ground.another("sync")
    target.start()
    target.chat("before")
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO",
                               "-o", "/dev/null", "-p", str(target.child.pid)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    before = ground.provider.count()
    answers = [target.chat(f"after {n}").status for n in range(3)]
    ready = target.ask("GET", "/readyz").status
    asked = ground.provider.count() - before
    tracer.terminate()
    tracer.wait()
    return set(answers) == {503} and asked == 0 and ready == 503, f"calls {answers}, the provider was asked {asked} times, /readyz {ready}"


def injected(target, what):
    """Makes system calls of a running server fail until the tracer is ended."""
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", f"trace={what.split(':')[0]}", "-e", f"inject={what}", "-o", "/dev/null",
                               "-p", str(target.child.pid)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    return tracer


HEALS = "a disk failure stops writing, visibly, and heals"
for name, calls in [("EIO of every sync", "fdatasync,fsync:error=EIO"), ("a full disk (ENOSPC)", "pwrite64,write,ftruncate,fallocate:error=ENOSPC"),
                    ("a quota that is used up (EDQUOT)", "pwrite64,ftruncate,fallocate:error=EDQUOT")]:
    def one(ground, calls=calls, name=name):
        if not shutil.which("strace"):
            return None, "strace is missing"
        calls = calls.replace("pwrite64,write,", "pwrite64,")
        target = ground.another("disk")
        target.start()
        first = target.chat("before").status
        tracer, before = injected(target, calls), ground.provider.count()
        during = [target.chat(f"during {n}").status for n in range(2)]
        ready, asked = target.ask("GET", "/readyz").status, ground.provider.count() - before
        tracer.terminate()
        tracer.wait()
        after, until = 0, time.time() + 15
        while after != 200 and time.time() < until and target.child.poll() is None:
            after = target.chat("after").status
            time.sleep(0.2)
        ended = target.child.poll()
        target.stop()
        clean = target.command("verify", "--store", target.store).returncode == 0
        held = first == 200 and 200 not in during and ready == 503 and asked == 0 and clean and (after == 200 or ended not in (None, 0))
        return held, f"calls {during}, /readyz {ready}, the provider was asked {asked} times; afterwards {after or f'exit {ended}'}, verified"
    one.__name__ = f"heals {name}"
    attack(HEALS, f"{name} (strace), and then a disk that works again", long=True)(one)


@attack("any text is kept", "a reply with `\\u0000` in it")
def nul(ground):
    answer = ground.open.chat("say nul")
    id = answer.headers.get("x-scrollback-conversation", "")
    told = ground.open.ask("GET", f"/api/conversations/{id}/entries").text
    return answer.status == 200 and "before\\u0000after" in told, f"{answer.status}, recorded as it came"


FILE = "the file is the file"
for name, harm in [("rename", lambda path: path.rename(path.with_name("moved.db"))), ("delete", lambda path: path.unlink()),
                   ("replace", lambda path: (path.rename(path.with_name("moved.db")), shutil.copy(path.with_name("moved.db"), path)))]:
    def one(ground, name=name, harm=harm):
        target = ground.another("file")
        target.start()
        first = target.chat("before").status
        harm(target.folder / "record.db")
        before = ground.provider.count()
        during = [target.chat(f"during {n}").status for n in range(2)]
        ready, asked = target.ask("GET", "/readyz").status, ground.provider.count() - before
        return first == 200 and 200 not in during and asked == 0 and ready == 503, f"calls {during}, the provider was asked {asked} times, /readyz {ready}"
    one.__name__ = f"file {name}"
    attack(FILE, f"{name} the file under a running server")(one)


@attack(FILE, "open a log whose file is gone")
def log_without_file(ground):
    target = ground.another("log")
    target.start()
    target.chat("before")
    target.child.kill()
    target.child.wait()
    (target.folder / "record.db").unlink()
    log = target.folder / "record.db-wal"
    size = log.stat().st_size
    codes = [target.command(*words, "--store", target.store).returncode for words in (["list"], ["history", "anna", "append", "--content", "x"])]
    return 0 not in codes and log.exists() and log.stat().st_size == size, f"exit {codes}; the log is untouched"


@attack("`verify` means the whole file", "flip one bit in each of 40 pages, one after the other", long=True)
def bit_rot(ground):
    target = ground.another("damage")
    target.start()
    for number in range(20):
        target.chat(f"number {number} " + "word " * 400)
    target.stop()
    path, noticed, tried, dice = target.folder / "record.db", 0, 0, random.Random(7)
    good = path.read_bytes()
    for page in dice.sample(range(1, len(good) // 4096), min(40, len(good) // 4096 - 1)):
        bad = bytearray(good)
        used = [at for at in range(page * 4096, page * 4096 + 4096) if good[at]]
        if not used:
            continue
        bad[dice.choice(used)] ^= 1 << dice.randrange(8)
        path.write_bytes(bad)
        tried += 1
        noticed += target.command("verify", "--store", target.store).returncode != 0
    path.write_bytes(good)
    clean = target.command("verify", "--store", target.store).returncode
    return noticed == tried and clean == 0, f"{noticed} of {tried} were noticed; the file as it was: exit {clean}"


@attack("a missing store is an error for reading commands", "read, search, list and verify a path that is mistyped")
def missing(ground):
    target = ground.another("missing")
    codes = [target.command(*words, "--store", "sqlite:recrod.db").returncode
             for words in (["verify"], ["list"], ["search", "x"], ["history", "anna", "show"], ["export", "--all"])]
    made = [path.name for path in target.folder.glob("recrod*")]
    return set(codes) == {1} and not made, f"exit {codes}, no file was made" if not made else f"made {made}"


@attack("first use is safe", "12 processes make the same store at once, 5 times", long=True)
def creators(ground):
    failed = 0
    for number in range(5):
        target = ground.another("first")
        words = ["history", "anna", "append", "--content", "hello", "--store", target.store]
        with ThreadPoolExecutor(12) as pool:
            failed += sum(run.returncode != 0 for run in pool.map(lambda _: target.command(*words), range(12)))
        failed += target.command("verify", "--store", target.store).returncode != 0
    return failed == 0, f"{failed} of 60 appends failed"


@attack("erasure", "look for an erased text in every file of the store, while a backup follows it")
def erased(ground):
    target, canary = ground.another("erase"), "a canary in a coal mine"
    target.start()
    target.chat(canary + " and more", headers={"x-scrollback-recipient": "anna"})
    target.chat("something else")
    target.stop()
    follower = subprocess.Popen([target.binary, "backup", "--follow", "copies", "--every", "50", "--store", target.store], cwd=target.folder,
                                env=target.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    told = target.command("erase", "anna", "--yes", "--store", target.store)
    found, until = ["?"], time.time() + 15
    while found and time.time() < until:
        found = [path.name for path, data in target.files().items() if canary.encode() in data]
        time.sleep(0.2)
    running = follower.poll() is None
    follower.terminate()
    follower.wait()
    return told.returncode == 0 and not found and running, "it is in no file" if not found else f"found in {found}; {told.stderr.strip()[:100]}"


SERVERS = "PostgreSQL walls hold or say so"


@attack(SERVERS, "serve with keys as a superuser; make the first key while a superuser's server runs; run without fsync and full_page_writes", long=True)
def superuser(ground):
    database = Postgres()
    if database.bin is None:
        return None, "PostgreSQL is missing"
    try:
        target = ground.another("pg", store=database.url())
        target.start()
        alone = target.ask("GET", "/api/conversations").status
        key = target.key("first", "acme", "admin")
        time.sleep(1.2)
        keyed = target.ask("GET", "/api/conversations", key=key).status
        target.stop()
        again = target.start() is None
        target.start("--allow-superuser")
        allowed = target.ask("GET", "/api/conversations", key=key).status
        target.stop()
    finally:
        database.stop()
    refused = []
    for option in ("fsync=off", "full_page_writes=off", "synchronous_commit=off"):
        database = Postgres(f"-c {option}")
        try:
            refused.append(ground.open.command("list", "--store", database.url()).returncode != 0)
        finally:
            database.stop()
    held = (alone, keyed, again, allowed) == (200, 503, True, 200) and all(refused)
    return held, f"{keyed} with the first key, refused at the next start, {allowed} with --allow-superuser; {sum(refused)} of 3 settings refused"


@attack(FAIR, "a reply of 256 MB: the memory of the process", long=True)
def huge_reply(ground):
    target, peak, going = ground.another("huge"), [0], [True]
    target.start()

    def watch():
        while going[0]:
            peak[0] = max(peak[0], target.memory())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    answer = target.chat("a huge reply", timeout=120)
    going[0] = False
    watcher.join()
    after = target.chat("after").status
    return peak[0] < 512 << 20 and after == 200, f"{answer.status}, {len(answer.text) >> 20} MB handed on, at most {peak[0] >> 20} MB resident; the next call {after}"


@attack(FAIR, "one tenant floods with the largest legal bodies and searches; the slowest calls of another", long=True)
def flood(ground):
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        return None, "the machine is busy with other things, so times say nothing"

    def slowest(label, count=100):
        took = sorted(timed(lambda: ground.keyed.chat(f"{label} {n}", ground.victim_proxy, "offline:echo")) for n in range(count))
        return took[count * 99 // 100 - 1]

    slowest("warm")
    alone = slowest("alone")
    script = Path(__file__).with_name("flood.py")
    flooding = subprocess.Popen([sys.executable, script, str(ground.keyed.port), ground.thief_proxy, ground.thief_read],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    beside = slowest("beside", 200)
    flooded = flooding.communicate("")[0].strip()
    # On a machine with few cores the clients of the attack take time too, so the wall is twice as long as alone, or a moment.
    return beside < max(2 * alone, 0.25), f"p99: {alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside {flooded} requests of the flood"


@attack("nothing is asked of a provider that is not durable", "verify the store after everything above")
def verified(ground):
    ground.keyed.stop()
    told = ground.keyed.command("verify", "--store", ground.keyed.store)
    return told.returncode == 0, told.stdout.strip().splitlines()[-1] if told.stdout else f"exit {told.returncode}"
