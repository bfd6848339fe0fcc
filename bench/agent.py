"""Drives one scripted server for 200 rounds with Scrollback, the OpenAI Agents SDK and Strands, each in a process of its own.

Usage: agent.py BENCH_BINARY. The server answers every request with a call of `weather`, and the last with a text.
"""

import asyncio
import json
import resource
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROUNDS = 200


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one write: nobody waits for a delayed acknowledgement
    count = 0
    received = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Server.count += 1
        Server.received += len(body)
        last = Server.count >= ROUNDS
        if last:
            delta, reason = {"role": "assistant", "content": "Sunny."}, "stop"
        else:
            call = {"index": 0, "id": f"call_{Server.count}", "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
            delta, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        common = {"id": "c", "created": 1, "model": "gpt-4o"}
        if json.loads(body).get("stream"):
            chunks = [
                {**common, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**common, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
                {**common, "object": "chat.completion.chunk", "choices": [], "usage": usage},
            ]
            answer = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            kind = "text/event-stream"
        else:
            for call in delta.get("tool_calls", []):
                call.pop("index")
            answer = json.dumps({**common, "object": "chat.completion", "usage": usage,
                                 "choices": [{"index": 0, "message": delta, "finish_reason": reason}]})
            kind = "application/json"
        data = answer.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def told(began, entries):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.perf_counter() - began, "megabytes": peak, "entries": entries}))


def openai_agents(url):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def weather(city: str) -> str:
        return "22 degrees, sunny"

    model = OpenAIChatCompletionsModel("gpt-4o", AsyncOpenAI(base_url=url, api_key="sk-bench"))
    agent = Agent(name="bench", instructions="Be brief.", model=model, tools=[weather])
    began = time.perf_counter()
    done = asyncio.run(Runner.run(agent, "What is the weather?", max_turns=ROUNDS + 5))
    told(began, len(done.to_input_list()))


def strands(url):
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    @tool
    def weather(city: str) -> str:
        """Weather by city."""
        return "22 degrees, sunny"

    model = OpenAIModel(client_args={"base_url": url, "api_key": "sk-bench"}, model_id="gpt-4o")
    agent = Agent(model=model, system_prompt="Be brief.", tools=[weather], callback_handler=None)
    began = time.perf_counter()
    agent("What is the weather?")
    told(began, len(agent.messages))


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    print(f"{ROUNDS} rounds against one scripted server, each with a tool call:")
    print(f"{'':24}{'seconds':>10}{'MB at most':>12}{'MB sent':>10}  messages kept")
    runs = [
        ("Scrollback", [sys.argv[1], "drive", url, str(ROUNDS)]),
        ("OpenAI Agents SDK", [sys.executable, __file__, "--drive", "openai_agents", url]),
        ("Strands Agents", [sys.executable, __file__, "--drive", "strands", url]),
    ]
    for name, command in runs:
        Server.count = Server.received = 0
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            print(f"{name:24}failed: {done.stderr.strip().splitlines()[-1:]}")
            continue
        result = json.loads(lines[-1])
        print(f"{name:24}{result['seconds']:>10.2f}{result['megabytes']:>12.0f}{Server.received / 1e6:>10.2f}  {result['entries']}")


if __name__ == "__main__":
    if sys.argv[1] == "--drive":
        {"openai_agents": openai_agents, "strands": strands}[sys.argv[2]](sys.argv[3])
    else:
        main()
