"""A wire between a client and Scrollback that copies every byte and keeps what the client sent."""

import socket
import threading

from codings import unpacked


class Tap:
    """Listens on 127.0.0.1, and passes everything on to wherever `target()` says."""

    def __init__(self, target):
        self.target, self.streams, self.lock = target, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        host, port = self.target().removeprefix("http://").split(":")
        try:
            server = socket.create_connection((host, int(port)))
        except OSError:
            return client.close()
        kept = bytearray()
        with self.lock:
            self.streams.append(kept)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self.copy, args=(client, server, kept), daemon=True).start()
        self.copy(server, client, None)

    @staticmethod
    def copy(source, target, kept):
        try:
            while data := source.recv(65536):
                if kept is not None:
                    kept.extend(data)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.listener.close()

    def bodies(self):
        """(path, body) of every request the client sent, those of one connection in order; bodies as they are unpacked."""
        with self.lock:
            return [one for stream in self.streams for one in requests(bytes(stream))]


def requests(stream):
    """A connection's bytes as its requests."""
    found = []
    while b"\r\n\r\n" in stream:
        head, rest = stream.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while b"\r\n" in rest:
                size, rest = rest.split(b"\r\n", 1)
                size = int(size.split(b";")[0], 16)
                body, rest = body + rest[:size], rest[size + 2 :]
                if size == 0:
                    break
        else:
            size = int(headers.get("content-length", 0))
            body, rest = rest[:size], rest[size:]
        found.append((first.split(" ")[1], unpacked(body, headers.get("content-encoding"))))
        stream = rest
    return found
