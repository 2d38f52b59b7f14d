"""tmux, the last resort: paste the pointer at an idle client's prompt, and press Enter.

The adapter is off unless the owner turns it on. It wakes only a client that it recognises, in the
client's own pane, at an empty prompt, and checks the screen before each step. It presses Enter
once, if the prompt contains the pasted line and no other text. It types nothing else.
"""

import os
import re
import secrets
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from interlock.agents import CLIENTS, module_of
from interlock.agents.wake.looks import Look, Screen, prompt, screen, squeezed, why_not
from interlock.machine.processes import ps
from interlock.plugins import InDoubt, NotWoken, Pointer, Window
from interlock.plugins.text import typed

LOOKS: dict[str, Look] = {name: module_of(name, "wake").LOOK for name in CLIENTS}
# The screen of an idle client does not change; the screen of a working client does.
QUIET_S = 0.5
SEEN_WITHIN_S = 5.0
POLL_INTERVAL_S = 0.1
COMMAND_TIMEOUT_S = 5.0

_ID = re.compile(r"%\d{1,9}")
# Programs that start a client: the interpreters of its language, and `interlock run`.
_LEADERS = re.compile(r"node|bun|deno|[Pp]ython[\d.]*|interlock")
_HINDRANCES = {
    "pane_dead": "its process has ended",
    "pane_in_mode": "a person is scrolling or searching in it",
    "pane_synchronized": "tmux sends its input to other panes too",
    "pane_input_off": "its input is off",
}
# The title comes last, because it may contain the separator.
_FACTS = ("pane_id", *_HINDRANCES, "pane_tty", "pane_current_command", "pane_title")
_SPINNING = re.compile(r"\s*[⠁-⣿]")


class Tmux:
    """Wakes a window whose ways name its pane: `{"tmux": {"socket": PATH, "pane": "%3"}}`."""

    name = "tmux"
    # A person may be typing, or a dialog may be open: only an attempt shows whether a wake works.
    is_sure = False

    def can_wake(self, window: Window) -> bool:
        way = window.ways.get(self.name, {})
        return window.client in LOOKS and window.pid is not None and {"socket", "pane"} <= set(way)

    def wake(self, window: Window, pointer: Pointer) -> None:
        if not self.can_wake(window):
            raise NotWoken("The window does not name a known client, its process and its pane.")
        assert window.client is not None
        assert window.pid is not None
        way, line = window.ways[self.name], typed(pointer.text)
        pane = _Pane(way["socket"], way["pane"], window.pid, LOOKS[window.client])
        if reason := pane.busy():
            raise NotWoken(f"Nothing was typed into pane {pane.id}: {reason}.")
        pane.paste(line)
        pasted = f"The line was pasted into pane {pane.id}"
        try:
            if not _until(lambda: pane.shows(line)):
                raise InDoubt(f"{pasted}, but its prompt does not show the line.")
            # If Enter follows at once, a client takes it for a part of the paste.
            time.sleep(QUIET_S)
            if pane.why_not() is not None or not pane.shows(line):
                raise InDoubt(f"{pasted}, then its screen changed. Enter was not pressed.")
            pane.run("send-keys", "-t", pane.id, "Enter", is_final=True)
            if not _until(lambda: not pane.shows(line)):
                raise InDoubt(
                    f"Enter was pressed in pane {pane.id}, but its prompt still shows the line."
                )
        except NotWoken as trouble:
            raise InDoubt(f"{pasted}. {trouble}") from None


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SEEN_WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


class _Pane:
    """A pane, by the socket of its tmux and its id there, and the client that should run in it."""

    def __init__(self, socket: str, id: str, pid: int, look: Look) -> None:
        self.socket, self.id, self.pid, self.look = socket, id, pid, look

    def busy(self) -> str | None:
        """Return why the client must not be woken, as a part of a sentence. Compare two screens."""
        if reason := self.why_not():
            return reason
        before = self.screen()
        if reason := why_not(before, self.look):
            return reason
        time.sleep(QUIET_S)
        if self.screen() != before:
            return "its screen is changing"
        return self.why_not()

    def why_not(self) -> str | None:
        """Return why the adapter must not paste into the pane, as a part of a sentence. None if the
        client is in the foreground of the pane's terminal, and the pane accepts input as usual."""
        wanted = "|".join(f"#{{{name}}}" for name in _FACTS)
        output = self.run("display-message", "-p", "-t", self.id, wanted)
        facts = dict(zip(_FACTS, output.rstrip("\n").split("|", len(_FACTS) - 1), strict=False))
        # If the pane was closed, tmux may describe no pane or another one.
        if facts.get("pane_id") != self.id or len(facts) != len(_FACTS):
            raise NotWoken(f"Pane {self.id} no longer exists.")
        for name, reason in _HINDRANCES.items():
            if facts[name] not in ("0", ""):
                return reason
        command = facts["pane_current_command"]
        if not (self.look.programs.fullmatch(command) or _LEADERS.fullmatch(command)):
            return f"it runs {command or 'an unknown program'}, not the client"
        if not _has_terminal(self.pid, facts["pane_tty"], self.look):
            return "the client of this window is not in its foreground"
        return "the agent is working" if _SPINNING.match(facts["pane_title"]) else None

    def screen(self) -> Screen:
        return screen(self.run("capture-pane", "-p", "-e", "-t", self.id))

    def shows(self, line: str) -> bool:
        """Return whether the prompt contains the line and no other text."""
        return prompt(self.screen(), self.look) == squeezed(line)

    def paste(self, line: str) -> None:
        """Paste in bracketed mode, so that the client does not take the text for keys."""
        name = f"interlock-{secrets.token_hex(8)}"
        self.run("load-buffer", "-b", name, "-", stdin=line)
        try:
            self.run("paste-buffer", "-p", "-d", "-b", name, "-t", self.id, is_final=True)
        except NotWoken:
            with suppress(NotWoken):
                self.run("delete-buffer", "-b", name)
            raise

    def run(self, *words: str, stdin: str = "", is_final: bool = False) -> str:
        """Run a command of tmux. Raise NotWoken if it fails. Raise InDoubt if a command that
        `is_final`, which cannot be undone, times out."""
        if not _ID.fullmatch(self.id) or not _is_own_socket(self.socket):
            raise NotWoken("The window does not name a pane of this user's tmux.")
        try:
            done = subprocess.run(  # noqa: S603 - our own words, no shell
                ["tmux", "-u", "-S", self.socket, *words],  # noqa: S607 - the user's own tmux
                input=stdin.encode(),
                capture_output=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            error = InDoubt if is_final else NotWoken
            raise error(f"tmux {words[0]} did not end within {COMMAND_TIMEOUT_S:g} s.") from None
        except OSError as trouble:
            raise NotWoken(f"Cannot run tmux: {trouble.strerror}.") from None
        if done.returncode != 0:
            why = done.stderr.decode(errors="replace").strip()[:200]
            raise NotWoken(f"tmux {words[0]} failed: {why}")
        return done.stdout.decode(errors="replace")


def _is_own_socket(path: str) -> bool:
    """Return whether the path is a socket of this user. Behind another user's socket could be any
    program that imitates tmux."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()


def _has_terminal(pid: int, tty: str, look: Look) -> bool:
    """Return whether the process is the client, belongs to this user, and is in the foreground of
    the terminal. If a client is suspended, its shell is in the foreground."""
    try:
        fields = ps("uid=,pgid=,tpgid=,tty=,args=", "-ww", "-p", str(pid)).split(None, 4)
    except OSError:
        return False
    if len(fields) != 5:
        return False
    uid, group, foreground, terminal, args = fields
    if uid != str(os.geteuid()) or group != foreground or f"/dev/{terminal}" != tty:
        return False
    program, *rest = args.split() or [""]
    if look.programs.fullmatch(os.path.basename(program)):
        return True
    # An interpreter counts if the script that it runs has the client's name.
    script = next((word for word in rest if not word.startswith("-")), "")
    name = re.sub(r"\.[cm]?js$", "", os.path.basename(script))
    return bool(_LEADERS.fullmatch(os.path.basename(program)) and look.programs.fullmatch(name))
