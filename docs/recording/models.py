"""Scripted models on loopback: the Messages API for Claude Code, the Responses API for Codex.

Each client has a script, a list of steps. Each request of its conversation takes the next step:

    {"text": "…"}                          say it, and end the turn
    {"tool": "Bash", "input": {…}}         call a tool of Claude Code
    {"mcp": "claim", "arguments": {…}}     call a tool of Interlock, through Codex
    {"patch": "*** Begin Patch …"}         edit files through Codex
"""

import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = dict[str, Any]
# A model that answers at once would make the recording hard to follow.
THINKING_S = 1.2
TITLE = "single-line task title"
_numbers = itertools.count(1)


class Models:
    """Serve `/claude` and `/codex` on a free port."""

    def __init__(self, scripts: dict[str, list[Step]]) -> None:
        self.scripts = scripts
        self._lock = threading.Lock()
        models = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(b'{"data": [], "models": []}', "application/json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                data, kind = models.answer(self.path.split("?")[0], body)
                self._answer(data, kind)

            def _answer(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        if path.endswith("count_tokens"):
            return b'{"input_tokens": 100}', "application/json"
        client = path.strip("/").partition("/")[0]
        names = [tool.get("name") for tool in body.get("tools") or []]
        # Both clients also ask for a title of the conversation.
        is_main = "Bash" in names if client == "claude" else names and TITLE not in json.dumps(body)
        step = self._next(client) if is_main else {"text": '{"title": "Fix the total"}'}
        if is_main:
            time.sleep(THINKING_S)
        events = messages(step, body) if client == "claude" else responses(step)
        lines = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        return "".join(lines).encode(), "text/event-stream"

    def _next(self, client: str) -> Step:
        with self._lock:
            return self.scripts[client].pop(0) if self.scripts[client] else {"text": "Done."}


def messages(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed answer of the Messages API."""
    number = next(_numbers)
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    if "text" in step:
        block, delta, reason = (
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": step["text"]},
            "end_turn",
        )
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step["tool"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
        reason = "tool_use"
    end = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]


def responses(step: Step) -> list[dict[str, Any]]:
    """The events of a streamed answer of the Responses API."""
    number = next(_numbers)
    call = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    if "text" in step:
        content = [{"type": "output_text", "text": step["text"], "annotations": []}]
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": f"msg_{number}"}
        item["content"] = content
    elif "patch" in step:
        item = call | {"type": "custom_tool_call", "name": "apply_patch", "input": step["patch"]}
    else:
        item = call | {"type": "function_call", "namespace": "mcp__interlock", "name": step["mcp"]}
        item["arguments"] = json.dumps(step["arguments"])
    response = {"id": f"resp_{number}", "object": "response", "output": []}
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    done = response | {"status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": response | {"status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
