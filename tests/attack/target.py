"""What is attacked: the built program before a provider of ours, and a listener that no one may ever reach."""

import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from pathlib import Path

OPERATORS = "sk-operator-0123456789abcdefghij"
SECRET = "sk-ant-api03-" + "aB3dE5fG7h" * 9
CONFIG = """
[server.limits]
header_seconds = 2
body_seconds = 2
shutdown_seconds = 2
connections_per_ip = 64
"""


class Provider:
    """A provider that notes what it is asked."""

    def __init__(self):
        self.asked, self.lock, outer = [], threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length).decode("utf-8", "replace")
                with outer.lock:
                    outer.asked.append((self.command, self.path, dict(self.headers.items()), body))
                if "redirect me" in body:
                    self.send_response(307)
                    self.send_header("location", f"http://127.0.0.1:{outer.canary}/v1/elsewhere")
                    self.send_header("content-length", "0")
                    return self.end_headers()
                if "a huge reply" in body:
                    return self.huge()
                if "hang" in body:
                    time.sleep(30)
                said = f"you sent {self.headers.get('authorization')}" if "what is my key" in body else "ok"
                if "say nul" in body:
                    said = "before\0after"
                told = {"id": "resp_victim", "object": "response", "status": "completed", "model": "gpt-5", "output": [
                    {"type": "message", "role": "assistant", "id": "m1", "status": "completed",
                     "content": [{"type": "output_text", "text": said, "annotations": []}]}]}
                if self.path.endswith("/chat/completions"):
                    told = {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [
                        {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}
                elif self.path.startswith("/v1/messages"):
                    told = {"id": "msg_victim", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "stop_reason": "end_turn",
                            "content": [{"type": "text", "text": said}], "usage": {"input_tokens": 1, "output_tokens": 1}}
                elif self.path.endswith("/embeddings"):
                    told = {"object": "list", "data": [], "usage": {"prompt_tokens": 1000, "total_tokens": 1000}}
                data = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                try:
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # Who asked has left or was killed.

            def huge(self):
                """A reply of 256 MB in one piece."""
                head = b'{"id":"c1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"finish_reason":"stop",' \
                       b'"message":{"role":"assistant","content":"'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.close_connection = True
                try:
                    self.wfile.write(head)
                    for _ in range(256):
                        self.wfile.write(b"word " * 209715)
                    self.wfile.write(b'"}}]}')
                except OSError:
                    pass  # The program has read enough.

            do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.canary = 0
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self):
        with self.lock:
            return len(self.asked)


class Canary:
    """A listener that counts who reaches it."""

    def __init__(self):
        self.reached = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            self.reached += 1
            connection.close()


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text

    def __str__(self):
        return str(self.status)


class Target:
    """The program, in a folder of its own."""

    def __init__(self, binary, provider, name, config=CONFIG, store=None, wrapper=(), variables=None):
        self.binary, self.provider = str(binary), provider
        self.folder = Path(tempfile.mkdtemp(prefix=f"scrollback-attack-{name}-"))
        self.store = store or "sqlite:record.db"
        self.wrapper, self.child, self.port = list(wrapper), None, None
        (self.folder / "scrollback.toml").write_text(config)
        self.environment = {key: value for key, value in os.environ.items() if not re.search(r"API_KEY|BASE_URL|SCROLLBACK", key)}
        self.environment |= {"XDG_CONFIG_HOME": str(self.folder / "none"), "OPENAI_API_KEY": OPERATORS,
                             "OPENAI_BASE_URL": f"http://127.0.0.1:{provider.port}/v1",
                             "ANTHROPIC_API_KEY": OPERATORS, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{provider.port}",
                             "GEMINI_API_KEY": OPERATORS, "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{provider.port}"}
        self.environment |= variables or {}

    def command(self, *arguments, text=""):
        return subprocess.run([self.binary, *arguments], cwd=self.folder, env=self.environment, input=text,
                              capture_output=True, text=True, timeout=120)

    def key(self, name, tenant, scope):
        made = self.command("key", "add", name, "--tenant", tenant, "--scope", scope, "--store", self.store)
        return made.stdout.strip()

    def start(self, *more):
        log = open(self.folder / "log", "a")
        serve = [self.binary, "serve", "--listen", "127.0.0.1:0", "--json", "--store", self.store, *more]
        self.child = subprocess.Popen([*self.wrapper, *serve], cwd=self.folder, env=self.environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.child.stdout.readline()
        if not line or "listen" not in json.loads(line):
            self.child.wait(15)
            return None
        self.port = int(json.loads(line)["listen"].rsplit(":", 1)[1])
        return self

    def stop(self):
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(15)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def ask(self, method, path, body=None, key=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = {"host": f"127.0.0.1:{self.port}"}
        if key:
            sent["authorization"] = f"Bearer {key}"
        if isinstance(body, (dict, list)):
            body, sent["content-type"] = json.dumps(body), "application/json"
        sent |= headers or {}
        try:
            connection.request(method, path, body=body.encode() if isinstance(body, str) else body, headers=sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode("utf-8", "replace"))
        except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
            return Answer(0, {}, type(error).__name__)
        finally:
            connection.close()

    def raw(self, data, timeout=10, wait=True):
        """What comes back for bytes that no library would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as stream:
            stream.settimeout(timeout)
            try:
                stream.sendall(data)
                got = b""
                while wait:
                    piece = stream.recv(65536)
                    if not piece:
                        break
                    got += piece
                return got.decode("latin-1")
            except (ConnectionError, TimeoutError) as error:
                return got.decode("latin-1") or type(error).__name__

    def chat(self, text, key=None, model="gpt-4o", timeout=60, headers=None):
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return self.ask("POST", "/v1/chat/completions", body, key, headers, timeout)

    def rows(self, sql):
        with sqlite3.connect(f"file:{self.folder / 'record.db'}?mode=ro", uri=True) as database:
            return database.execute(sql).fetchall()

    def files(self):
        """Everything the program has written."""
        return {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file() and path.name != "scrollback.toml"}

    def memory(self):
        """Resident bytes of the process."""
        for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0


class Postgres:
    """A server of PostgreSQL in a folder of its own; none where it is not installed."""

    def __init__(self, options=""):
        self.bin = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
        found = shutil.which("initdb")
        self.bin = Path(found).parent if found else self.bin
        if self.bin is None:
            return
        self.folder = Path(tempfile.mkdtemp(prefix="scrollback-attack-pg-", dir="/tmp"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.run("initdb", "-D", self.folder / "data", "-U", "root", "-A", "trust", "--no-sync")
        listen = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} {options}"
        self.run("pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", listen, "start")

    def run(self, name, *arguments):
        who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run([self.bin / name, *arguments], check=True, capture_output=True, cwd=self.folder, timeout=120, **who)

    def sql(self, text):
        self.run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "root", "-d", "postgres", "-c", text)

    def url(self, role="root"):
        return f"postgres://{role}@127.0.0.1:{self.port}/postgres"

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
