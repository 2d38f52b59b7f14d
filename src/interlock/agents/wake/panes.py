"""A pane of tmux, and the process in it. All that is ever done to a pane is to paste a line, and to
press Enter."""

import os
import re
import secrets
import stat
import subprocess
from contextlib import suppress
from typing import NamedTuple

from interlock.agents.wake.looks import Look
from interlock.agents.wake.screens import Screen, screen
from interlock.plugins import InDoubt, NotWoken

PATIENCE_S = 5.0

_ID = re.compile(r"%\d{1,9}")
# What may lead the client's processes: what it is written in, and `interlock run`.
_LEADERS = re.compile(r"node|bun|deno|[Pp]ython[\d.]*|interlock")
_HINDRANCES = {
    "pane_dead": "its process has ended",
    "pane_in_mode": "a person is looking through what was said",
    "pane_synchronized": "what is typed there goes to other panes too",
    "pane_input_off": "it takes no input",
}
# The title comes last, since it may hold anything.
_FACTS = ("pane_id", *_HINDRANCES, "pane_tty", "pane_current_command", "pane_title")
_SPINNING = re.compile(r"\s*[⠁-⣿]")


class Pane(NamedTuple):
    """A pane by the socket of its tmux and its id there."""

    socket: str
    id: str

    def why_not(self, pid: int, look: Look) -> str | None:
        """Why nothing may be put into the pane, in the words of a sentence. None where the client
        with that process id has the pane's terminal, and the pane takes input as usual."""
        facts = self._facts()
        for name, reason in _HINDRANCES.items():
            if facts[name] not in ("0", ""):
                return reason
        command = facts["pane_current_command"]
        if not (look.programs.fullmatch(command) or _LEADERS.fullmatch(command)):
            return f"{command or 'something unknown'} runs there"
        if not _has_terminal(pid, facts["pane_tty"], look):
            return "the client that asked to be woken is not what runs there"
        return "it is at work" if _SPINNING.match(facts["pane_title"]) else None

    def screen(self) -> Screen:
        return screen(self._asked("capture-pane", "-p", "-e", "-t", self.id))

    def paste(self, line: str) -> None:
        """As one bracketed paste, which no client takes for keys."""
        name = f"interlock-{secrets.token_hex(8)}"
        self._asked("load-buffer", "-b", name, "-", told=line)
        try:
            self._done("paste-buffer", "-p", "-d", "-b", name, "-t", self.id)
        except NotWoken:
            with suppress(NotWoken):
                self._asked("delete-buffer", "-b", name)
            raise

    def enter(self) -> None:
        self._done("send-keys", "-t", self.id, "Enter")

    def _facts(self) -> dict[str, str]:
        wanted = "|".join(f"#{{{name}}}" for name in _FACTS)
        said = self._asked("display-message", "-p", "-t", self.id, wanted)
        facts = dict(zip(_FACTS, said.rstrip("\n").split("|", len(_FACTS) - 1), strict=False))
        # For a pane that is gone tmux may speak of none, or of another.
        if facts.get("pane_id") != self.id or len(facts) != len(_FACTS):
            raise NotWoken(f"There is no pane {self.id} any more.")
        return facts

    def _done(self, *words: str) -> None:
        """Something that cannot be taken back: where no answer comes, nobody knows."""
        try:
            self._run(words, None)
        except subprocess.TimeoutExpired:
            raise InDoubt(f"tmux did not answer to {words[0]}.") from None

    def _asked(self, *words: str, told: str | None = None) -> str:
        try:
            return self._run(words, told)
        except subprocess.TimeoutExpired:
            raise NotWoken(f"tmux did not answer to {words[0]}.") from None

    def _run(self, words: tuple[str, ...], told: str | None) -> str:
        if not _ID.fullmatch(self.id) or not _own_socket(self.socket):
            raise NotWoken("This is no pane of a tmux of ours.")
        try:
            done = subprocess.run(  # noqa: S603 - words of ours, no shell
                ["tmux", "-u", "-S", self.socket, *words],  # noqa: S607 - the user's own tmux
                input=(told or "").encode(),
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except OSError as trouble:
            raise NotWoken(f"tmux cannot be run: {trouble.strerror}.") from None
        if done.returncode != 0:
            raise NotWoken(f"tmux said no: {done.stderr.decode(errors='replace').strip()[:200]}")
        return done.stdout.decode(errors="replace")


def _own_socket(path: str) -> bool:
    """A stranger's socket could be anything that speaks like tmux."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()


def _has_terminal(pid: int, tty: str, look: Look) -> bool:
    """Whether the process is the client, is ours, and is in the foreground of that terminal: a
    shell in front of a client that was suspended has the foreground itself."""
    try:
        done = subprocess.run(  # noqa: S603 - words of ours, no shell
            ["ps", "-ww", "-o", "uid=,pgid=,tpgid=,tty=,args=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    said = done.stdout.decode(errors="replace").split(None, 4)
    if done.returncode != 0 or len(said) != 5:
        return False
    uid, group, foreground, terminal, args = said
    ours = uid == str(os.geteuid()) and group == foreground and f"/dev/{terminal}" == tty
    return ours and _is_client(args.split(), look)


def _is_client(words: list[str], look: Look) -> bool:
    """By the name it was started with, or by the script that its interpreter runs."""
    program, *rest = words or [""]
    if look.programs.fullmatch(os.path.basename(program)):
        return True
    script = next((word for word in rest if not word.startswith("-")), "")
    name = re.sub(r"\.[cm]?js$", "", os.path.basename(script))
    return bool(_LEADERS.fullmatch(os.path.basename(program)) and look.programs.fullmatch(name))
