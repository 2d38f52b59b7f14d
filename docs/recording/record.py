"""Records docs/recording.svg: real Claude Code and Codex, a real server, and scripted models.

    CLAUDE=… CODEX=… .venv/bin/python docs/recording/record.py

CLAUDE and CODEX name the programs; by default they are on the path. tmux shows each client in a
terminal of its own. The script types as a person would, and takes a snapshot of every terminal five
times a second. Only the models are scripted: every line on the screens comes from the programs.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from animation import Frame, Panel, document
from models import Models

DOCS = Path(__file__).parent.parent
CLAUDE = shutil.which(os.environ.get("CLAUDE", "claude"))
CODEX = shutil.which(os.environ.get("CODEX", "codex"))
INTERLOCK = str(Path(sys.executable).parent / "interlock")
COLUMNS, ROWS = 104, {"claude": 20, "codex": 18, "vera": 9}
TITLES = {
    "claude": "Claude Code, as @claude",
    "codex": "Codex, as @codex",
    "vera": "Vera, a person, in a shell",
}
LIMIT_S = 90.0
INTERVAL_S = 0.2
# A longer pause in the run is shown as a pause of this length.
MAX_PAUSE_S = 2.5
LAST_S = 5.0

SCRIPTS = {
    "claude": [
        {"tool": "mcp__interlock__task", "input": {"action": "take", "id": "SHOP-1"}},
        {"tool": "mcp__interlock__claim", "input": {"paths": ["shop.py"], "note": "fixing total"}},
        {
            "tool": "Bash",
            "input": {
                "command": "sed -i 's/prices\\[1:\\]/prices/' shop.py && "
                "git commit -qam 'Add up all prices' && "
                "interlock evidence run --task SHOP-1 --criterion 1 -- python3 check.py",
                "description": "Fix total, and record a run of the check",
            },
        },
        {"tool": "mcp__interlock__task", "input": {"action": "submit", "id": "SHOP-1"}},
        {"text": "I fixed total and submitted SHOP-1. @vera reviews it."},
        {"tool": "mcp__interlock__inbox", "input": {}},
        {
            "tool": "mcp__interlock__send",
            "input": {"to": "@codex", "text": "After the review of SHOP-1. I release it then."},
        },
        {"text": "@codex wants to rename total. I answered: after the review."},
        {"tool": "mcp__interlock__task", "input": {"action": "complete", "id": "SHOP-1"}},
        {"text": "@vera passed the gate. SHOP-1 is done."},
    ],
    "codex": [
        {
            "patch": "*** Begin Patch\n*** Update File: shop.py\n@@\n-def total(prices):\n"
            "+def sum_up(prices):\n*** End Patch\n"
        },
        {
            "mcp": "send",
            "arguments": {"to": "@claude", "text": "May I rename total() in shop.py to sum_up()?"},
        },
        {"text": "@claude holds shop.py, so I changed nothing. I asked @claude by mail."},
        {"mcp": "inbox", "arguments": {}},
        {"text": "@claude answered. I rename total after the review."},
    ],
}


class Recording:
    """Terminals in tmux, and the snapshots of their screens."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._socket, self._root, self._environment = str(root / "tmux"), root, environment
        self._start = time.monotonic()
        self.snapshots: dict[str, list[tuple[float, list[str]]]] = {name: [] for name in ROWS}
        self.captions: list[tuple[float, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        done = subprocess.run(  # noqa: S603
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def open(self, name: str, command: str, cwd: Path) -> None:
        size = ["-x", str(COLUMNS), "-y", str(ROWS[name])]
        self.tmux("new-session", "-d", "-s", name, *size, "-c", str(cwd), command)

    def screen(self, name: str) -> str:
        return self.tmux("capture-pane", "-p", "-t", name)

    def wait(self, name: str, text: str) -> None:
        self.until(lambda: text in self.screen(name), f"{text!r} in {name}")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                screens = "\n".join(f"--- {name}\n{self.screen(name)}" for name in ROWS)
                raise SystemExit(f"Waited {LIMIT_S:.0f} s for {what}.\n{screens}")
            time.sleep(0.1)

    def type(self, name: str, text: str) -> None:
        for character in text:
            self.tmux("send-keys", "-t", name, "-l", character)
            time.sleep(0.02)
        time.sleep(0.6)
        self.tmux("send-keys", "-t", name, "Enter")

    def caption(self, text: str) -> None:
        self.captions.append((time.monotonic() - self._start, text))

    def begin(self) -> None:
        self._start = time.monotonic()
        self._thread.start()

    def end(self) -> None:
        time.sleep(1)
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            now = time.monotonic() - self._start
            for name, kept in self.snapshots.items():
                lines = self.tmux("capture-pane", "-e", "-p", "-t", name).split("\n")
                while lines and not lines[-1].strip():
                    lines.pop()
                if not kept or kept[-1][1] != lines:
                    kept.append((now, lines))

    def svg(self) -> str:
        """The recording, with long pauses cut short."""
        changes = {at for kept in self.snapshots.values() for at, _ in kept}
        times = sorted({0.0, *changes, *(at for at, _ in self.captions)})
        shown, clock, before = {}, 0.0, 0.0
        for at in times:
            clock += min(at - before, MAX_PAUSE_S)
            shown[at], before = clock, at
        end = clock + LAST_S
        panels = []
        for name, kept in self.snapshots.items():
            starts = [shown[at] for at, _ in kept]
            frames = [
                Frame(start, stop, lines)
                for start, stop, (_, lines) in zip(starts, [*starts[1:], end], kept, strict=True)
            ]
            panels.append(Panel(TITLES[name], COLUMNS, ROWS[name], frames))
        captions = [(shown[at], text) for at, text in self.captions]
        title = "Claude Code, Codex and a person work on one task with Interlock"
        return document(title, panels, captions, end)


def main() -> None:
    if CLAUDE is None or CODEX is None:
        raise SystemExit("Set CLAUDE and CODEX to the programs of Claude Code and Codex.")
    root = Path(tempfile.mkdtemp(prefix="recording-"))
    home, shop = root / "home", root / "home" / "shop"
    for path in (home / ".claude", home / ".codex", shop, root / "bin"):
        path.mkdir(parents=True)
    for name, program in (("claude", CLAUDE), ("codex", CODEX), ("interlock", INTERLOCK)):
        (root / "bin" / name).symlink_to(program)
    models = Models(SCRIPTS)
    environment = {
        "HOME": str(home),
        "PATH": f"{root}/bin:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": f"{models.url}/claude",
        "ANTHROPIC_API_KEY": "scripted-0123456789abcdefghij",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "SCRIPTED_KEY": "x",
    }

    def run(*words: str) -> str:
        done = subprocess.run(  # noqa: S603
            words, cwd=shop, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    recording = Recording(root, environment)
    try:
        prepare(home, shop, models.url, run)
        play(recording, shop, run)
        (DOCS / "recording.svg").write_text(recording.svg(), encoding="utf-8")
    finally:
        recording.tmux("kill-server")
        subprocess.run([INTERLOCK, "down"], cwd=shop, env=environment, check=False)  # noqa: S603
        if "KEEP" not in os.environ:
            shutil.rmtree(root, ignore_errors=True)


def prepare(home: Path, shop: Path, models: str, run: Callable[..., str]) -> None:
    """Make a repository with a bug, start the server, and set both clients up. The clients' own
    dialogs (trust of the project, of its hooks and of the key) are answered in advance."""
    (home / ".gitconfig").write_text("[user]\nname = Vera\nemail = vera@example.com\n")
    (shop / "shop.py").write_text("def total(prices):\n    return sum(prices[1:])\n")
    (shop / "check.py").write_text(
        "from shop import total\n\nassert total([1, 2, 3]) == 6\nprint('ok')\n"
    )
    run("git", "init", "-q", "-b", "main")
    run("git", "add", ".")
    run("git", "commit", "-qm", "Add up prices")
    run("interlock", "init", "--here")
    run("interlock", "up", "--detach", "--port", "0")
    run("interlock", "join", "vera", "--kind", "human")
    run("interlock", "setup", "claude-code")
    run("interlock", "setup", "codex")
    words = ["--id", "SHOP-1", "--criterion", "check.py passes", "--gate", "review"]
    run("interlock", "gate", "create", "review", "--holder", "vera")
    run("interlock", "task", "create", "--title", "Add up all prices", *words, "--from", "vera")
    (home / ".claude.json").write_text(
        json.dumps(
            {
                "hasCompletedOnboarding": True,
                "theme": "dark",
                "customApiKeyResponses": {"approved": ["0123456789abcdefghij"], "rejected": []},
                "projects": {str(shop): {"hasTrustDialogAccepted": True}},
            }
        )
    )
    (home / ".claude" / "settings.json").write_text(
        json.dumps(
            {
                "enableAllProjectMcpServers": True,
                "permissions": {"allow": ["mcp__interlock__*", "Bash(*)"]},
            }
        )
    )
    config = home / ".codex" / "config.toml"
    config.write_text(
        f"""\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "workspace-write"

[model_providers.scripted]
name = "scripted"
base_url = "{models}/codex/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"

[projects."{shop}"]
trust_level = "trusted"
"""
    )
    with config.open("a") as file:
        for hook in codex_hooks(shop, run):
            file.write(f'\n[hooks.state."{hook["key"]}"]\n')
            file.write(f'trusted_hash = "{hook["currentHash"]}"\n')


def codex_hooks(shop: Path, run: Callable[..., str]) -> list[dict[str, str]]:
    """The hooks of the project, as Codex lists them for a person to trust."""
    about = {"clientInfo": {"name": "recording", "title": "recording", "version": "1"}}
    requests = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(shop)]}},
    ]
    lines = "\n".join(json.dumps(request) for request in requests)
    script = f"(printf '%s\\n' {shlex.quote(lines)}; sleep 5) | codex app-server"
    for line in run("sh", "-c", script).splitlines():
        answer = json.loads(line)
        if answer.get("id") == 2:
            found: list[dict[str, str]] = answer["result"]["data"][0]["hooks"]
            return found
    raise SystemExit("Codex listed no hooks.")


def play(recording: Recording, shop: Path, run: Callable[..., str]) -> None:
    recording.open("claude", "claude --permission-mode acceptEdits", shop)
    recording.open("codex", "codex --no-daemon", shop)
    recording.open("vera", "env PS1='$ ' bash --norc --noprofile", shop)
    recording.wait("claude", "accept edits on")
    recording.wait("codex", "Ask Codex")
    time.sleep(3)
    recording.begin()
    recording.caption("Claude takes the task SHOP-1 and claims shop.py.")
    recording.type("claude", "Work on SHOP-1.")
    recording.wait("claude", "I fixed total and submitted SHOP-1.")
    time.sleep(2)
    recording.caption("Codex wants to edit the same file. Interlock denies the edit.")
    recording.type("codex", "Rename total in shop.py to sum_up.")
    recording.wait("codex", "so I changed nothing")
    time.sleep(3)
    recording.caption("The message of Codex wakes Claude, which is idle.")
    recording.wait("claude", "I answered: after the review.")
    time.sleep(2)
    recording.caption("Vera reviews the commit and passes the gate.")
    recording.type("vera", "interlock review")
    time.sleep(2)
    recording.type("vera", "interlock gate pass SHOP-1 review --from vera")
    recording.wait("claude", "SHOP-1 is done.")
    recording.type("vera", "interlock audit verify")
    time.sleep(2)
    recording.caption("The log has every step, and anyone can verify it.")
    recording.end()


if __name__ == "__main__":
    main()
