"""A provider of our own on 127.0.0.1 that follows a script, keeps what it received to the byte, judges it and caches it.

    provider = Upstream([Role("main", steps)])
    provider.url, provider.received, provider.problems

A role has the steps of one conversation of the script; a request belongs to the first role that wants it. Replies and their
ids depend on the script alone, so a client that is run twice is told the same twice.
"""

import http.server
import json
import socket
import threading
import urllib.parse

import caching
import judge
import said
from caching import Usage
from codings import unpacked

WIRES = {
    "/v1/messages": "anthropic",
    "/v1/responses": "openai-responses",
    "/v1/chat/completions": "openai-chat",
}


# Seconds that the last reply of a role waits for another role; what never comes is a failure of its own (`left`).
WAIT = 180


class Role:
    """One conversation of a script: its steps, and which requests belong to it."""

    def __init__(self, name, steps, wants=None, after=(), waits=None):
        self.name, self.steps, self.wants = name, list(steps), wants or (lambda request: True)
        # Roles that are played to their end, and whose replies have reached the client, before one step of this one is
        # answered, the last where no other is named: a client that ends with this role would leave them half read.
        self.after = after
        self.waits = len(self.steps) if waits is None else waits
        self.at, self.played = 0, threading.Event()


class Received:
    """A request as it arrived, and what became of it."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.plain = body = unpacked(body, headers.get("content-encoding"))
        self.read = judge.readable(body) if body else None
        self.usage, self.role, self.status, self.reply = None, None, None, None
        # The whole list of a message thread, of which the body has only what is new.
        self.whole = None
        # Whether it was answered to the end.
        self.played = False

    @property
    def json(self):
        """The body, read. Once it is answered it is read anew each time: long sessions would fill the memory."""
        return self.read if self.read is not None or not self.plain else judge.readable(self.plain)

    def forget(self):
        self.read = None

    @property
    def bare(self):
        return urllib.parse.urlsplit(self.path).path

    @property
    def wire(self):
        if "GenerateContent" in self.path or ":generateContent" in self.path:
            return "gemini"
        return WIRES.get(self.bare)

    def texts(self):
        """Every text of the request, as one."""
        return json.dumps(self.json, ensure_ascii=False)

    def first_user(self):
        """The texts of the first user message."""
        listed = self.json.get("messages") or self.json.get("input") or self.json.get("contents") or []
        if isinstance(listed, str):
            return listed
        for message in listed:
            if message.get("role") == "user":
                return json.dumps(message.get("content") or message.get("parts"), ensure_ascii=False)
        return ""

    def tools(self):
        """The names of the tools that are offered."""
        found = self.json.get("tools") or []
        extra = [item for item in self.json.get("input") or [] if isinstance(item, dict) and item.get("type") == "additional_tools"]
        for item in extra:
            found = found + item.get("tools", [])
        return [tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type") for tool in found]


class Upstream:
    def __init__(self, roles, window=None, words=None):
        self.roles, self.window, self.words = roles, window, words or {}
        self.received, self.problems, self.lock = [], [], threading.Lock()
        self.messages_cache = caching.MessagesCache()
        self.openai_cache, self.gemini_cache = caching.PrefixCache(), caching.PrefixCache(step=1, least=1024)
        self.responses = {}  # id → everything that was said up to it
        self.threads = {}  # message id → {"body", "reply", "continued"}
        self.expired = set()
        # Returns when everything that was answered has reached the client; where there is something in between that knows.
        self.settle = lambda: None
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *_):
                pass

            def handle_any(self):
                try:
                    provider.handle(self)
                except OSError:
                    raise
                except Exception as error:
                    # Without this a client would try again for minutes, and nothing would say why.
                    provider.problems.append(f"the scripted provider failed: {error!r}")
                    raise

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = handle_any

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    # What was received

    def calls(self, role=None):
        """The calls of models, in the order in which they came."""
        return [one for one in self.received if one.wire and one.role and (role is None or one.role == role)]

    def answered(self, role=None):
        return [one for one in self.calls(role) if one.status == 200]

    def total(self, figure):
        return sum(figure(one.usage) for one in self.answered())

    def left(self):
        """Steps that were never asked for."""
        return {role.name: len(role.steps) - role.at for role in self.roles if role.at < len(role.steps)}

    # Answering

    def handle(self, http):
        body = http.rfile.read(int(http.headers.get("content-length") or 0))
        if http.headers.get("transfer-encoding") == "chunked":
            body = b"".join(iter(lambda: self.chunk(http), b""))
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Received(http.command, http.path, headers, body)
        with self.lock:
            self.received.append(request)
        if headers.get("upgrade", "").lower() == "websocket":
            return self.json(http, request, 426, {"error": {"message": "upgrade required"}})
        if request.wire is None or http.command != "POST":
            return self.other(http, request)
        if request.json is None:
            with self.lock:
                self.problems.append(f"{request.path}: the body is no JSON")
            return self.fail(http, request, said.Fail(400, "invalid_request_error", "the body is no JSON"))
        with self.lock:
            step = self.next(request)
            if isinstance(step, said.Reply):
                step = self.judged(request, step)
        role = next((one for one in self.roles if one.name == request.role), None)
        last = role is not None and role.at >= len(role.steps)
        waits = role is not None and role.at == role.waits
        for other in self.roles if waits else ():
            if other.name in role.after:
                other.played.wait(WAIT)
                self.settle()
        self.play(http, request, step)
        request.played = True
        if request.read is not None and not request.whole:
            request.forget()
        if last:
            role.played.set()

    @staticmethod
    def chunk(http):
        size = int(http.rfile.readline().split(b";")[0], 16)
        data = http.rfile.read(size)
        http.rfile.readline()
        return data

    def other(self, http, request):
        """What is no call of a model."""
        if request.bare == "/v1/messages/count_tokens":
            return self.json(http, request, 200, {"input_tokens": caching.tokens(request.plain)})
        if ":countTokens" in request.path:
            return self.json(http, request, 200, {"totalTokens": caching.tokens(request.plain)})
        if request.bare == "/v1/models":
            return self.json(http, request, 200, {"object": "list", "data": [], "models": [], "has_more": False})
        return self.json(http, request, 404, {"error": {"type": "not_found_error", "message": f"no {request.path}"}})

    def next(self, request):
        for role in self.roles:
            if role.wants(request):
                request.role = role.name
                if role.at >= len(role.steps):
                    self.problems.append(f"{role.name}: asked more often than its {len(role.steps)} steps")
                    return said.Fail(500, "api_error", "the script is over")
                step = role.steps[role.at]
                role.at += 1
                if callable(step):
                    step = step(request)
                if isinstance(step, said.Reply):
                    step = step.named(f"{role.name}{role.at:03}", self.words)
                elif isinstance(step, (said.Lost, said.Spoilt)) and step.reply:
                    step = type(step)(step.reply.named(f"{role.name}{role.at:03}", self.words))
                return step
        self.problems.append(f"no role wants {request.path}: {request.texts()[:300]}")
        return said.Fail(500, "api_error", "no role wants this")

    def judged(self, request, reply):
        """The reply, or why the provider refuses."""
        body, wire = request.json, request.wire
        if wire == "anthropic" and body.get("thread"):
            refused = self.continued(request, reply)
            if refused:
                return refused
            body = request.read = request.whole
        if wire == "openai-responses" and body.get("previous_response_id"):
            before = self.responses.get(body["previous_response_id"])
            if before is None:
                message = f"Previous response with id '{body['previous_response_id']}' not found."
                return said.Fail(400, "invalid_request_error", message, {"code": "previous_response_not_found"})
            given = body["input"]
            given = [{"role": "user", "content": given}] if isinstance(given, str) else given
            body = dict(body, input=before + given)
        found = {
            "anthropic": judge.messages,
            "openai-responses": lambda body: judge.responses(body, set()),
            "openai-chat": judge.chat,
            "gemini": judge.gemini,
        }[wire](body)
        if found:
            self.problems.extend(f"{request.role}: {problem}" for problem in found)
            return said.Fail(400, "invalid_request_error", found[0])
        request.usage = usage = self.cached(request, body)
        if self.window and usage.total > self.window:
            return self.overflow(wire, usage.total)
        usage.output = reply.output_tokens()
        if wire == "openai-responses":
            given = body["input"]
            given = [{"role": "user", "content": given}] if isinstance(given, str) else given
            self.responses["resp_" + reply.id] = given + list(said.responses_items(reply, ()))
        return reply

    def overflow(self, wire, total):
        if wire == "anthropic":
            return said.Fail(400, "invalid_request_error", f"prompt is too long: {total} tokens > {self.window} maximum")
        if wire == "gemini":
            message = f"The input token count ({total}) exceeds the maximum number of tokens allowed ({self.window})."
            return said.Fail(400, "INVALID_ARGUMENT", message)
        message = f"This model's maximum context length is {self.window} tokens. However, your messages resulted in {total} tokens."
        return said.Fail(400, "invalid_request_error", message, {"code": "context_length_exceeded"})

    def continued(self, request, reply):
        """A message thread: the whole list in place of what is new, or the documented error."""
        thread, body = request.json["thread"], dict(request.json)
        body.pop("thread")
        if thread["type"] == "continue":
            before = self.threads.get(thread["previous_message_id"])
            if before is None or thread["previous_message_id"] in self.expired:
                return said.Fail(404, "not_found_error", "thread not found", {"code": "thread_not_found"})
            if before["continued"]:
                return said.Fail(409, "invalid_request_error", "already continued", {"code": "thread_already_continued"})
            if body.get("system") or body.get("tools"):
                return said.Fail(400, "invalid_request_error", "system is fixed", {"code": "thread_fingerprint_mismatch"})
            before["continued"] = True
            body = {**before["body"], **body, "messages": before["body"]["messages"] + [before["reply"]] + body["messages"]}
        request.whole = body
        answer = {"role": "assistant", "content": list(said.messages_blocks(reply, judge.sign(body)))}
        self.threads["msg_" + reply.id] = {"body": body, "reply": answer, "continued": False}
        return None

    def cached(self, request, body):
        wire = request.wire
        if wire == "anthropic":
            return self.messages_cache.ask(body)
        if wire == "gemini":
            model = request.bare.rsplit("/", 1)[-1].split(":")[0]
            return self.gemini_cache.ask(model, None, list(caching.gemini_pieces(body)))
        pieces = caching.responses_pieces if wire == "openai-responses" else caching.chat_pieces
        return self.openai_cache.ask(body.get("model", ""), body.get("prompt_cache_key"), list(pieces(body)))

    def play(self, http, request, step):
        if isinstance(step, said.Fail):
            return self.fail(http, request, step)
        if isinstance(step, said.Lost) and step.reply is None:
            request.status = 0
            http.close_connection = True
            return http.connection.shutdown(socket.SHUT_RDWR)
        reply = step if isinstance(step, said.Reply) else step.reply
        request.reply = reply
        usage = request.usage or Usage(caching.tokens(request.plain))
        body, wire = request.json, request.wire
        freeform = {tool.get("name") for tool in body.get("tools") or [] if tool.get("type") == "custom"} if wire == "openai-responses" else ()
        model = request.bare.rsplit("/", 1)[-1].split(":")[0]
        stream = "streamGenerateContent" in request.path if wire == "gemini" else body.get("stream")
        if not stream:
            whole = {
                "anthropic": lambda: said.message(body, reply, usage, judge.sign(body)),
                "openai-responses": lambda: said.response(body, reply, usage, freeform),
                "openai-chat": lambda: said.completion(body, reply, usage),
                "gemini": lambda: said.generated(body, reply, usage, model),
            }[wire]()
            if isinstance(step, said.Reply):
                return self.json(http, request, 200, whole)
            request.status = 0
            http.close_connection = True
            return http.connection.shutdown(socket.SHUT_RDWR)
        pieces = {
            "anthropic": lambda: said.messages_stream(body, reply, usage, judge.sign(body)),
            "openai-responses": lambda: said.responses_stream(body, reply, usage, freeform),
            "openai-chat": lambda: said.chat_stream(body, reply, usage),
            "gemini": lambda: said.gemini_stream(body, reply, usage, model),
        }[wire]()
        self.stream(http, request, list(pieces), step)

    def stream(self, http, request, pieces, step):
        request.status = 200 if isinstance(step, said.Reply) else 0
        http.send_response(200)
        http.send_header("content-type", "text/event-stream")
        http.send_header("request-id", f"req_{len(self.received)}")
        http.send_header("transfer-encoding", "chunked")
        http.end_headers()
        if not isinstance(step, said.Reply):
            pieces = pieces[: max(1, len(pieces) // 2)]
        if isinstance(step, said.Spoilt):
            error = {"type": "error", "error": {"type": step.kind, "message": step.message}}
            if request.wire == "openai-responses":
                failed = {"id": "resp_failed", "object": "response", "status": "failed", "output": []}
                failed["error"] = {"code": "server_error", "message": step.message}
                error = {"type": "response.failed", "response": failed}
            pieces = pieces + [said.event(error["type"], error)]
        try:
            for piece in pieces:
                http.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                http.wfile.flush()
            if isinstance(step, said.Lost):
                http.close_connection = True
                return http.connection.shutdown(socket.SHUT_RDWR)
            http.wfile.write(b"0\r\n\r\n")
            http.wfile.flush()
        except OSError:
            http.close_connection = True

    def fail(self, http, request, failure):
        request.status = failure.status
        headers = {name: value for name, value in failure.headers.items() if name != "code"}
        code = failure.headers.get("code")
        if request.wire == "anthropic":
            error = {"type": "error", "error": {"type": failure.kind, "message": failure.message}}
            if code:
                error["error"]["details"] = {"error_code": code}
        elif request.wire == "gemini":
            error = {"error": {"code": failure.status, "status": failure.kind, "message": failure.message}}
        else:
            error = {"error": {"type": failure.kind, "message": failure.message, "code": code, "param": None}}
        self.json(http, request, failure.status, error, headers)

    @staticmethod
    def json(http, request, status, value, headers=()):
        request.status = status
        data = json.dumps(value).encode()
        http.send_response(status)
        http.send_header("content-type", "application/json")
        http.send_header("content-length", str(len(data)))
        for name, text in dict(headers).items():
            http.send_header(name, text)
        http.end_headers()
        try:
            if http.command != "HEAD":
                http.wfile.write(data)
                http.wfile.flush()
        except OSError:
            http.close_connection = True
