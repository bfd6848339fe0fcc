"""Floods a server from a process of its own until its input ends: `flood.py PORT PROXY_KEY READ_KEY`; then prints how much it asked."""

import http.client
import json
import sys
import threading

port, proxy, read = int(sys.argv[1]), sys.argv[2], sys.argv[3]
BODY = json.dumps({"model": "offline:echo", "messages": [{"role": "user", "content": "word " * 1600000}]}).encode()
going, done = threading.Event(), [0]


def ask(method, path, body, key):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    try:
        connection.request(method, path, body=body, headers=headers)
        connection.getresponse().read()
        done[0] += 1
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()


def flood(number):
    while not going.is_set():
        if number % 2:
            ask("POST", "/v1/chat/completions", BODY, proxy)
        else:
            ask("GET", "/api/search?q=word*", None, read)


threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(4)]
for thread in threads:
    thread.start()
sys.stdin.read()
going.set()
print(done[0], flush=True)
