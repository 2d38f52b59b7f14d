"""A fake Claude Code: it runs the hooks of its settings, and has no model.

    python fake_claude_code.py SESSION   in the directory that it works in

Each line of standard input is a JSON object that names an event in `do`. The answer is one line
with the text that the model would have seen. The hooks, the shell and the MCP server are child
processes, as in the real client. A hook that waits in the background starts a new turn when it
exits with 2.
"""

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

LIMIT_S = 60.0
SETTINGS = os.path.join(".claude", "settings.local.json")
SERVERS = ".mcp.json"
WOKEN = 2
# The members that the real client accepts at the top level of an answer.
MEMBERS = {
    *("continue", "stopReason", "suppressOutput", "systemMessage"),
    *("decision", "reason", "hookSpecificOutput"),
}


class Client:
    """One session of the client, from its start to its end."""

    def __init__(self, session: str) -> None:
        self._session = session
        with open(SETTINGS, encoding="utf-8") as file:
            self._hooks = json.load(file)["hooks"]
        self._server: Server | None = None
        self._wakes: queue.Queue[str] = queue.Queue()
        self._waiting: list[subprocess.Popen[bytes]] = []
        self._is_held = False

    # --- events

    def start(self, source: str = "startup", session: str | None = None) -> dict[str, Any]:
        self._session = session or self._session
        return self._run("SessionStart", source=source)

    def prompt(self) -> dict[str, Any]:
        self._is_held = False
        return self._run("UserPromptSubmit", prompt="Go on.")

    def edit(self, path: str) -> dict[str, Any]:
        given = {"tool_name": "Edit", "tool_input": {"file_path": os.path.abspath(path)}}
        return self._run("PreToolUse", "Edit", **given)

    def tool(self) -> dict[str, Any]:
        given = {"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_response": {}}
        return self._run("PostToolUse", "Bash", **given)

    def stop(self) -> dict[str, Any]:
        seen = self._run("Stop", stop_hook_active=self._is_held)
        self._is_held = "held" in seen
        return seen

    def end(self) -> dict[str, Any]:
        return self._run("SessionEnd", reason="other")

    def woken(self) -> dict[str, Any]:
        """Wait for a wake-up of the model, and return its text."""
        try:
            return {"woken": self._wakes.get(timeout=LIMIT_S)}
        except queue.Empty:
            return {}

    def waiting(self) -> dict[str, Any]:
        """The hooks that wait in the background."""
        return {"pids": [hook.pid for hook in self._waiting if hook.poll() is None]}

    def shell(self, command: str) -> dict[str, Any]:
        """Run a command of the model."""
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, timeout=LIMIT_S, check=False
        )
        return {"status": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

    def connect(self) -> dict[str, Any]:
        """Start the MCP server. The real client does this before its session starts."""
        self._server = self._server or Server()
        return {}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of the MCP server for the model."""
        assert self._server is not None
        return self._server.call(tool, arguments)

    # --- hooks

    def _run(self, event: str, matched: str = "", **given: Any) -> dict[str, Any]:
        """Run the hooks of an event, and collect their answers for the model."""
        given |= {"session_id": self._session, "cwd": os.getcwd(), "hook_event_name": event}
        given |= {"transcript_path": os.path.abspath("transcript"), "permission_mode": "default"}
        seen: dict[str, Any] = {}
        for hook in self._named(event, matched):
            process = _started(hook, given)
            if hook.get("asyncRewake"):
                self._waiting.append(process)
                threading.Thread(target=self._await, args=(process,), daemon=True).start()
            else:
                out, err = process.communicate(timeout=hook["timeout"])
                _take(seen, event, process.returncode, out, err)
        return seen

    def _named(self, event: str, matched: str) -> Iterator[dict[str, Any]]:
        for group in self._hooks.get(event, []):
            if re.fullmatch(group.get("matcher", ".*"), matched):
                yield from group["hooks"]

    def _await(self, process: "subprocess.Popen[bytes]") -> None:
        _, err = process.communicate()
        if process.returncode == WOKEN:
            self._wakes.put(err.decode())


def _started(hook: dict[str, Any], given: dict[str, Any]) -> "subprocess.Popen[bytes]":
    assert hook["type"] == "command", hook
    pipe = subprocess.PIPE
    words = [hook["command"], *hook["args"]]
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    process.stdin.write(json.dumps(given).encode())
    process.stdin.close()
    process.stdin = None
    return process


def _take(seen: dict[str, Any], event: str, status: int, out: bytes, err: bytes) -> None:
    """Apply a hook's answer as the client does. Record answers that the client rejects."""
    answer = json.loads(out)
    specific = answer.get("hookSpecificOutput", {})
    fits = answer.keys() <= MEMBERS and specific.get("hookEventName", event) == event
    if status or err or not fits:
        seen.setdefault("complaints", []).append([event, status, out.decode(), err.decode()])
    if "additionalContext" in specific:
        seen["context"] = specific["additionalContext"]
    if specific.get("permissionDecision") == "deny":
        seen["denied"] = specific["permissionDecisionReason"]
    if answer.get("decision") == "block":
        seen["held"] = answer["reason"]


class Server:
    """The MCP server of the settings, over its standard streams."""

    def __init__(self) -> None:
        with open(SERVERS, encoding="utf-8") as file:
            server = json.load(file)["mcpServers"]["interlock"]
        words = [server["command"], *server["args"]]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe)
        self._asked = 0
        about = {"name": "fake-claude-code", "version": "1"}
        revision = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        self._ask("initialize", revision)
        self._say({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return {"answer": found["structuredContent"], "error": found.get("isError", False)}

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        self._say({"id": self._asked, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if said.get("id") == self._asked:
                return said["result"]
        raise SystemExit("the MCP server has ended")

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | what).encode() + b"\n")
        self._process.stdin.flush()


def main() -> None:
    client = Client(sys.argv[1])
    for line in sys.stdin:
        given = json.loads(line)
        seen = getattr(client, given.pop("do"))(**given)
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
