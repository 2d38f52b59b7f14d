"""Presence: when a sender was last seen, whether it listens now, and what its clients do. Presence
is never in the log.

Each request touches the sender's file. A process that waits for mail has a bell in the sender's
directory, and the bell ends with the process. A client's hooks report the activity of its window at
each step. Presence is a hint: a request succeeds even if its presence cannot be written.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from interlock.machine.processes import RUN, is_alive, is_stopped, space
from interlock.stores.doorbell import Doorbell
from interlock.verbs.addresses import filename

FRESH_MS = 10 * 60_000
# A client on another machine counts as ended after this silence: its process cannot be checked.
FORGOTTEN_MS = 60 * 60_000
# A longer step counts as idle: no hook reports that a user interrupted it.
MAX_STEP_MS = 30 * 60_000
KEPT_MS = 24 * 60 * 60_000
# A sweep is slow: it reads the file of every window.
SWEEP_EVERY_MS = 60 * 60_000
GLANCE_MS = 200
DRAFT, STALE_DRAFT_S = "~", 60.0
SAME_MS = 2_000

TOKENS = "tokens"

LIVE, ASLEEP = ".live", ".asleep"
WORKING, IDLE, ENDED = "working", "idle", "ended"
# The activity of a client's window after each step.
DOING = dict.fromkeys(("prompt", "edit", "tool", "busy"), WORKING)
DOING |= {"start": IDLE, "stop": IDLE, "rest": IDLE, "end": ENDED}


class Seen(NamedTuple):
    """When a sender was last seen, whether it listens for mail, its activity by its hooks' reports,
    and whether an adapter can wake it."""

    at: int | None = None
    listening: bool = False
    doing: str | None = None
    wakeable: bool = False


class Window(NamedTuple):
    """A client of a sender, as its hooks last reported it. `about` is their description of it."""

    sender: str
    session: str | None
    doing: str
    at: int
    about: dict[str, Any]


class Use(NamedTuple):
    """The use of a token in one session and from one address, between the times `since` and `at`. A
    use from this machine has no `peer`."""

    token: str
    session: str | None
    peer: str | None
    since: int
    at: int


class Presence:
    """The presence of senders at this node. `elsewhere` has the reports of other nodes."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "presence")
        self._glances: dict[str, tuple[int, Seen]] = {}
        self._swept: dict[str, int] = {}
        self.elsewhere: dict[str, Seen] = {}

    def touch(self, sender: str, at_ms: int | None = None) -> None:
        """Record that the sender acts now, or at `at_ms` by the clock that all nodes share."""
        self._glances.pop(sender, None)
        with suppress(OSError):
            os.makedirs(self._directory, 0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(self._path(sender), flags, 0o600))
            os.utime(self._path(sender), None if at_ms is None else (at_ms / 1000, at_ms / 1000))

    def here(self, senders: Iterable[str], now_ms: int) -> dict[str, Seen]:
        """Return the presence at this node of senders that were seen recently or are reachable."""
        found = {}
        for sender in senders:
            seen = self._look(sender, now_ms)
            lately = seen.at is not None and now_ms - seen.at < FRESH_MS
            if lately or seen.listening or seen.wakeable or seen.doing in (WORKING, IDLE):
                found[sender] = seen
        return found

    @contextmanager
    def listening(self, sender: str, *, asleep: bool = False) -> Iterator[None]:
        """Show that the sender listens, until the context ends. With `asleep`, show that an adapter
        can wake it."""
        try:
            bell = Doorbell(self._path(sender) + (ASLEEP if asleep else LIVE)).listen()
        except OSError:
            yield
            return
        with closing(bell):
            yield

    # --- tokens

    def used(self, token: str, session: str | None, peer: str | None, at_ms: int) -> None:
        """Record where a token is used. The file contains the start of the use, which a long pause
        ends. The file's modification time is the last use."""
        own = os.path.join(self._directory, TOKENS)
        directory = os.path.join(own, filename(token))
        name = f"{filename(session or '')},{filename(peer or '')}"
        path = os.path.join(directory, name)
        with suppress(OSError):
            if not os.path.exists(path) or at_ms - _touched_ms(path) > FRESH_MS:
                if self._is_time_to_sweep(TOKENS, at_ms):
                    self._sweep_uses(own, at_ms)
                os.makedirs(directory, 0o700, exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(Use(token, session, peer, at_ms, at_ms), file)
            os.utime(path, (at_ms / 1000, at_ms / 1000))

    def uses(self, now_ms: int) -> list[Use]:
        """Return the uses of tokens within the last `FRESH_MS`."""
        own = os.path.join(self._directory, TOKENS)
        found = []
        for token in _names(own):
            for name in _names(os.path.join(own, token)):
                path = os.path.join(own, token, name)
                with suppress(OSError, ValueError, TypeError), open(path, "rb") as file:
                    use = Use(*json.load(file))._replace(at=_touched_ms(path))
                    if now_ms - use.at <= FRESH_MS:
                        found.append(use)
        return found

    def _sweep_uses(self, own: str, now_ms: int) -> None:
        """Remove the files of uses that ended, and the directories of unused tokens."""
        for token in _names(own):
            directory = os.path.join(own, token)
            for name in _names(directory):
                path = os.path.join(directory, name)
                with suppress(OSError):
                    if now_ms - _touched_ms(path) > FRESH_MS:
                        os.unlink(path)
            with suppress(OSError):  # a directory that is not empty stays
                os.rmdir(directory)

    # --- windows

    def attended(
        self, sender: str, session: str | None, step: str, about: dict[str, Any] | None, at: int
    ) -> None:
        """Record the activity of a client's window after this step. Ignore steps that are not in
        `DOING`, such as waiting."""
        if step not in DOING:
            return
        self._glances.pop(sender, None)
        path = self._window(sender, session)
        if (about or {}).get("client") == RUN and os.path.exists(path):
            return  # the hooks of the client that `interlock run` started report more
        doing = DOING[step]
        if step == "start" and (before := _read(path)) is not None and before.doing == WORKING:
            pid = (about or {}).get("pid")
            if pid is not None and pid == before.about.get("pid"):
                doing = WORKING  # the same process compacted its context while it worked
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            if not os.path.exists(path) and self._is_time_to_sweep(os.path.dirname(path), at):
                self.sweep(sender, at)
            draft = f"{path}.{os.urandom(4).hex()}{DRAFT}"
            with open(draft, "w", encoding="utf-8") as file:
                record = {"sender": sender, "session": session, "doing": doing, "at": at}
                json.dump(record | {"about": about or {}}, file)
            os.replace(draft, path)

    def windows(self, sender: str, now_ms: int) -> list[Window]:
        """Return the sender's clients. A client that died, or was silent too long, has ended."""
        found = []
        for window in self._reported(sender):
            if window.doing != ENDED:
                runs, silent_ms = _runs(window), now_ms - window.at
                if runs is False or (runs is None and silent_ms > FORGOTTEN_MS):
                    window = window._replace(doing=ENDED)
                elif window.doing == WORKING and silent_ms > MAX_STEP_MS:
                    window = window._replace(doing=IDLE)
            found.append(window)
        return found

    def _reported(self, sender: str) -> list[Window]:
        directory = self._windows(sender)
        names = [name for name in _names(directory) if not name.endswith(DRAFT)]
        read = (_read(os.path.join(directory, name)) for name in names)
        return [window for window in read if window is not None]

    def lost(self, sender: str) -> list[str]:
        """Return the sessions that have not ended, but whose client died on this machine."""
        found = self._reported(sender)
        return [w.session for w in found if w.session and w.doing != ENDED and _runs(w) is False]

    def living(self, sender: str) -> set[str | None]:
        """Return the sessions whose client runs on this machine. A client that a signal stopped
        does not count, so that its claims expire."""
        found = [
            window for window in self._reported(sender) if window.doing != ENDED and _runs(window)
        ]
        return {window.session for window in found if not is_stopped(window.about["pid"])}

    def sweep(self, sender: str, now_ms: int) -> None:
        """Remove drafts of killed processes, and windows that reported nothing for `KEPT_MS` and
        ended or belong to another machine. The window of a client that died on this machine stays
        until its session ends: the session may hold claims."""
        for window in self._reported(sender):
            if now_ms - window.at > KEPT_MS and (window.doing == ENDED or _runs(window) is None):
                with suppress(OSError):
                    os.unlink(self._window(sender, window.session))
        for name in _names(self._windows(sender)):
            draft = os.path.join(self._windows(sender), name)
            with suppress(OSError):
                if name.endswith(DRAFT) and time.time() - os.stat(draft).st_mtime > STALE_DRAFT_S:
                    os.unlink(draft)

    def _is_time_to_sweep(self, what: str, now_ms: int) -> bool:
        is_time = now_ms - self._swept.get(what, 0) > SWEEP_EVERY_MS
        if is_time:
            self._swept[what] = now_ms
        return is_time

    def _window(self, sender: str, session: str | None) -> str:
        return os.path.join(self._windows(sender), filename(session or "alone"))

    def _windows(self, sender: str) -> str:
        return self._path(sender) + ".windows"

    # --- reach

    def reach(
        self,
        senders: Iterable[str],
        now_ms: int,
        may_wake: Callable[[], bool] = lambda: True,
    ) -> tuple[str, int | None]:
        """Return how soon one of these senders would see a message, and when one was last seen.
        Call `may_wake` only if an adapter could wake one.

        `wakes`: a sender listens now, or an adapter would wake it. `working`: it sees the message
        at its next step. `waits`: it is idle or acted recently, and sees the message when a person
        prompts it. `offline`: it was seen earlier. `unknown`: it was never seen."""
        found = [self._glance(sender, now_ms) for sender in senders]
        at = max((seen.at for seen in found if seen.at is not None), default=None)
        if any(seen.listening for seen in found):
            return "wakes", now_ms
        if any(seen.wakeable for seen in found) and may_wake():
            return "wakes", at  # a wakeable sender was not necessarily seen now
        if any(seen.doing == WORKING for seen in found):
            return "working", at
        for seen in found:
            # A sender without hooks reports no activity. If it acted recently, it has a client.
            is_recent = seen.at is not None and now_ms - seen.at < FRESH_MS
            if seen.doing == IDLE or (seen.doing is None and is_recent):
                return "waits", at
        return ("offline", at) if at is not None else ("unknown", None)

    def _glance(self, sender: str, now_ms: int) -> Seen:
        """Return the presence of a sender at all nodes, at most `GLANCE_MS` old."""
        glance = self._glances.get(sender)
        if glance is None or not 0 <= now_ms - glance[0] < GLANCE_MS:
            seen = merged(self._look(sender, now_ms), self.elsewhere.get(sender, Seen()))
            glance = self._glances[sender] = now_ms, seen
        return glance[1]

    def _look(self, sender: str, now_ms: int) -> Seen:
        at: int | None = None
        with suppress(OSError):
            at = os.stat(self._path(sender)).st_mtime_ns // 1_000_000
        live, asleep = (Doorbell(self._path(sender) + kind).count() > 0 for kind in (LIVE, ASLEEP))
        windows = self.windows(sender, now_ms)
        activities = {window.doing for window in windows}
        doing = WORKING if WORKING in activities else IDLE if IDLE in activities else None
        # A sender that acted after its clients ended has a new client without hooks.
        if doing is None and windows:
            last = max(window.at for window in windows)
            doing = ENDED if (at or 0) < last + SAME_MS else None
        return Seen(at, live, doing, asleep)

    def _path(self, sender: str) -> str:
        return os.path.join(self._directory, filename(sender))


def merged(one: Seen, other: Seen) -> Seen:
    """Combine the reports of two nodes about one sender."""
    at = max((seen for seen in (one.at, other.at) if seen is not None), default=None)
    reported = {one.doing, other.doing}
    doing = next((doing for doing in (WORKING, IDLE, ENDED) if doing in reported), None)
    listening, wakeable = one.listening or other.listening, one.wakeable or other.wakeable
    return Seen(at, listening, doing, wakeable)


def _runs(window: Window) -> bool | None:
    """Return whether the client's process runs; None for a process of another machine."""
    about = window.about
    pid, started = about.get("pid"), about.get("started")
    if not isinstance(pid, int) or not isinstance(started, str) or about.get("space") != space():
        return None
    return is_alive(pid, started)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _touched_ms(path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000


def _read(path: str) -> Window | None:
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        return Window(*(record[name] for name in Window._fields))
    except (OSError, ValueError, KeyError, TypeError):
        return None
