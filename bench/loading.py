"""Clients of the server under measurement, in a separate process.

`python -m bench.loading` reads a task as JSON from standard input, and prints the result.
"""

import asyncio
import json
import sys
import time
from typing import Any

import httpx2
import uvloop
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

MCP_REVISION = "2026-07-28"


def main() -> None:
    task = json.load(sys.stdin)
    works: dict[str, Any] = {"posts": posts, "tools": tools, "seen": seen}
    work = works[task.pop("do")]
    print(json.dumps(uvloop.run(work(**task))))


# --- HTTP


def _post(url: str, path: str, token: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {url.partition('://')[2]}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.partition("://")[2].partition(":")
    return await asyncio.open_connection(host, int(port))


async def _answered(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head[:16]:
        raise SystemExit(f"bench: the server answered {head[:200]!r}")
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))


async def posts(url: str, path: str, tokens: list[str], bodies: list[str], each: int) -> float:
    """Return the posts a second, with one connection for each token."""

    async def one(token: str, body: str) -> None:
        reader, writer = await _connected(url)
        request = _post(url, path, token, body.encode())
        for _ in range(each):
            writer.write(request)
            await _answered(reader)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one(*pair) for pair in zip(tokens, bodies, strict=True)))
    return len(tokens) * each / (time.perf_counter() - started)


# --- MCP


async def tools(
    url: str, path: str, tool: str, tokens: list[str], arguments: list[dict[str, Any]], each: int
) -> dict[str, float]:
    """Return the calls a second of the official client, with one session for each token, and the
    median milliseconds of a call."""
    took: list[float] = []

    async def one(token: str, given: dict[str, Any], ready: asyncio.Barrier) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url + path, http_client=http)
            async with Client(transport, mode=MCP_REVISION) as client:
                await client.call_tool(tool, given)
                await ready.wait()
                for _ in range(each):
                    started = time.perf_counter()
                    result = await client.call_tool(tool, given)
                    took.append(time.perf_counter() - started)
                    assert not result.is_error, result

    ready = asyncio.Barrier(len(tokens) + 1)
    async with asyncio.TaskGroup() as callers:
        for token, given in zip(tokens, arguments, strict=True):
            callers.create_task(one(token, given, ready))
        await ready.wait()
        started = time.perf_counter()
    speed = len(took) / (time.perf_counter() - started)
    return {"speed": speed, "p50": sorted(took)[len(took) // 2] * 1000}


# --- events


async def seen(url: str, sender: str, body: str, listener: str, times: int) -> list[float]:
    """Return the milliseconds from the post of each message until its event arrives."""
    reader, writer = await _connected(url)
    writer.write(
        f"GET /v1/events HTTP/1.1\r\nHost: {url.partition('://')[2]}\r\n"
        f"Authorization: Bearer {listener}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry: 1000\n\n")
    posting, post = await _connected(url)
    found = []
    for _ in range(times):
        started = time.perf_counter()
        post.write(_post(url, "/v1/messages", sender, body.encode()))
        await reader.readuntil(b"event: message_sent\n")
        found.append((time.perf_counter() - started) * 1000)
        await _answered(posting)
    writer.close()
    post.close()
    return found


if __name__ == "__main__":
    main()
