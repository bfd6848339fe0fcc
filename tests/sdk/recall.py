"""The recall server, asked by the official Python SDK: over a pipe and over HTTP, by both eras of the protocol.

    recall.py BINARY STORE SESSION URL
"""

import asyncio
import re
import sys

from mcp import Client, StdioServerParameters

BINARY, STORE, SESSION, URL = sys.argv[1:5]


def text(result):
    return "\n".join(part.text for part in result.content)


async def ask(client, era):
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["search", "read", "around", "outline"], tools
    assert all(tool.annotations.read_only_hint for tool in tools), tools
    found = text(await client.call_tool("search", {"query": "staging port", "scope": "all"}))
    handle = re.search(r"sb:[a-z0-9]{10}#\d+", found)
    assert handle, found
    read = text(await client.call_tool("read", {"handle": handle[0]}))
    assert "48123" in read, read
    around = text(await client.call_tool("around", {"handle": handle[0]}))
    assert handle[0] in around, around
    outline = text(await client.call_tool("outline", {"handle": handle[0].split("#")[0]}))
    assert "turns:" in outline, outline
    wrong = await client.call_tool("read", {"handle": "sb:0000000000#1"})
    assert wrong.is_error and "search for the words instead" in text(wrong), wrong
    print(era, client.protocol_version)


async def main():
    pipe = StdioServerParameters(command=BINARY, args=["mcp", "--store", STORE, "--session", SESSION])
    for mode in ("legacy", "auto", "2026-07-28"):
        async with Client(pipe, mode=mode, read_timeout_seconds=30) as client:
            await ask(client, f"stdio {mode}")
            here = text(await client.call_tool("search", {"query": "staging port"}))
            assert "in this session" in here, here
        async with Client(URL, mode=mode, read_timeout_seconds=30) as client:
            await ask(client, f"http {mode}")


asyncio.run(main())
