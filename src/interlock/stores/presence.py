"""Presence: who was seen when, who is listening now, and what its clients are doing. Never in the
log.

A sender's file is touched when it acts; whoever waits for mail hangs a bell into its directory,
which nobody hears any more once the process has died; and a client's hooks say at each step what
its window is doing. All of it is a hint: where it cannot be written, nobody is refused for it.
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
# Of a client elsewhere nobody knows whether it still runs.
FORGOTTEN_MS = 60 * 60_000
# A turn that somebody breaks off ends without a word.
MAX_STEP_MS = 30 * 60_000
KEPT_MS = 24 * 60 * 60_000
# Sweeping reads every window there is.
SWEEP_EVERY_MS = 60 * 60_000
GLANCE_MS = 200
DRAFT, STALE_DRAFT_S = "~", 60.0
SAME_MS = 2_000

TOKENS = "tokens"

LIVE, ASLEEP = ".live", ".asleep"
WORKING, IDLE, ENDED = "working", "idle", "ended"
# What a client's window is doing after each step.
DOING = dict.fromkeys(("prompt", "edit", "tool", "busy"), WORKING)
DOING |= {"start": IDLE, "stop": IDLE, "rest": IDLE, "end": ENDED}


class Seen(NamedTuple):
    """When a sender was seen, whether it listens to everything, what it is doing, where its hooks
    tell, and whether what should wake it would."""

    at: int | None = None
    listening: bool = False
    doing: str | None = None
    wakeable: bool = False


class Window(NamedTuple):
    """A client of a sender, as its hooks told of it last. `about` is what they said of it."""

    sender: str
    session: str | None
    doing: str
    at: int
    about: dict[str, Any]


class Use(NamedTuple):
    """A token, as it was used in one session and from one address between two moments. Whoever
    asks on this machine has no `peer`."""

    token: str
    session: str | None
    peer: str | None
    since: int
    at: int


class Presence:
    """`elsewhere` is what other nodes say of senders."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "presence")
        self._glances: dict[str, tuple[int, Seen]] = {}
        self._swept: dict[str, int] = {}
        self.elsewhere: dict[str, Seen] = {}

    def touch(self, sender: str, at_ms: int | None = None) -> None:
        """Notes that the sender acts, now or, where nodes share a clock, by that."""
        self._glances.pop(sender, None)
        with suppress(OSError):
            os.makedirs(self._directory, 0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(self._path(sender), flags, 0o600))
            os.utime(self._path(sender), None if at_ms is None else (at_ms / 1000, at_ms / 1000))

    def here(self, senders: Iterable[str], now_ms: int) -> dict[str, Seen]:
        """What this node itself knows of those that were seen lately."""
        found = {}
        for sender in senders:
            seen = self._look(sender, now_ms)
            lately = seen.at is not None and now_ms - seen.at < FRESH_MS
            if lately or seen.listening or seen.wakeable or seen.doing in (WORKING, IDLE):
                found[sender] = seen
        return found

    @contextmanager
    def listening(self, sender: str, *, asleep: bool = False) -> Iterator[None]:
        """Shows the sender as reachable at once for as long as this lasts; one that is `asleep`,
        by what may wake it."""
        try:
            bell = Doorbell(self._path(sender) + (ASLEEP if asleep else LIVE)).listen()
        except OSError:
            yield
            return
        with closing(bell):
            yield

    # --- tokens

    def used(self, token: str, session: str | None, peer: str | None, at_ms: int) -> None:
        """Notes from where a token is used. The file says since when without a long pause, and is
        as old as the last time."""
        own = os.path.join(self._directory, TOKENS)
        directory = os.path.join(own, filename(token))
        name = f"{filename(session or '')},{filename(peer or '')}"
        path = os.path.join(directory, name)
        with suppress(OSError):
            if not os.path.exists(path) or at_ms - _touched_ms(path) > FRESH_MS:
                if self._is_time_to_sweep(TOKENS, at_ms):
                    _sweep_uses(own, at_ms)
                os.makedirs(directory, 0o700, exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(Use(token, session, peer, at_ms, at_ms), file)
            os.utime(path, (at_ms / 1000, at_ms / 1000))

    def uses(self, now_ms: int) -> list[Use]:
        """How tokens were used lately."""
        own = os.path.join(self._directory, TOKENS)
        found = []
        for token in _names(own):
            for name in _names(os.path.join(own, token)):
                use = _read_use(os.path.join(own, token, name))
                if use is not None and now_ms - use.at <= FRESH_MS:
                    found.append(use)
        return found

    # --- windows

    def attended(
        self, sender: str, session: str | None, step: str, about: dict[str, Any] | None, at: int
    ) -> None:
        """Notes what a client's window does from this step on. Waiting changes nothing."""
        if step not in DOING:
            return
        self._glances.pop(sender, None)
        path = self._window(sender, session)
        if (about or {}).get("client") == RUN and os.path.exists(path):
            return  # the hooks of what it runs know more
        doing = DOING[step]
        if step == "start" and (before := _read(path)) is not None and _is_same(before, about):
            doing = before.doing  # its context was shortened, in the middle of whatever it does
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            if not os.path.exists(path) and self._is_time_to_sweep(os.path.dirname(path), at):
                self.sweep(sender, at)
            draft = f"{path}.{os.urandom(4).hex()}{DRAFT}"
            with open(draft, "w", encoding="utf-8") as file:
                said = {"sender": sender, "session": session, "doing": doing, "at": at}
                json.dump(said | {"about": about or {}}, file)
            os.replace(draft, path)

    def windows(self, sender: str, now_ms: int) -> list[Window]:
        """The sender's clients. What has died, or was not heard of for long, has ended."""
        return [_as_of(window, now_ms) for window in self._told(sender)]

    def _told(self, sender: str) -> list[Window]:
        directory = self._windows(sender)
        names = [name for name in _names(directory) if not name.endswith(DRAFT)]
        read = (_read(os.path.join(directory, name)) for name in names)
        return [window for window in read if window is not None]

    def lost(self, sender: str) -> list[str]:
        """The sessions whose client has surely died, and that nobody has ended yet."""
        found = self._told(sender)
        return [w.session for w in found if w.session and w.doing != ENDED and _runs(w) is False]

    def living(self, sender: str) -> set[str | None]:
        """The sessions whose client surely runs here. One that is stopped holds nothing longer than
        it would by itself."""
        found = [window for window in self._told(sender) if window.doing != ENDED and _runs(window)]
        return {window.session for window in found if not is_stopped(window.about["pid"])}

    def sweep(self, sender: str, now_ms: int) -> None:
        """Forgets windows that ended, or fell silent elsewhere, a while ago; and the drafts of
        whoever was killed while it wrote one. One whose client has died here stays until somebody
        has ended its session: it may hold something."""
        for window in self._told(sender):
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
        """How soon any of these would see a message, and when one was last seen. Whether it may
        wake them is asked only where something would.

        `wakes`: something listens for it now, or would wake it. `working`: sees it at its next
        step. `waits`: is there, or acted lately, and looks when somebody prompts it. `offline`:
        seen once. `unknown`: never seen."""
        found = [self._glance(sender, now_ms) for sender in senders]
        at = max((seen.at for seen in found if seen.at is not None), default=None)
        if any(seen.listening for seen in found):
            return "wakes", now_ms
        if any(seen.wakeable for seen in found) and may_wake():
            return "wakes", at  # that we would wake it is no sign of life
        if any(seen.doing == WORKING for seen in found):
            return "working", at
        if any(_waits(seen, now_ms) for seen in found):
            return "waits", at
        return ("offline", at) if at is not None else ("unknown", None)

    def _glance(self, sender: str, now_ms: int) -> Seen:
        """What is known of a sender, here and elsewhere; as of a moment ago."""
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
        return Seen(at, live, self._doing(sender, at or 0, now_ms), asleep)

    def _doing(self, sender: str, at: int, now_ms: int) -> str | None:
        windows = self.windows(sender, now_ms)
        for doing in (WORKING, IDLE):
            if any(window.doing == doing for window in windows):
                return doing
        # Whoever did something after its clients had ended has come back without hooks.
        last = max((window.at for window in windows), default=None)
        return ENDED if last is not None and at < last + SAME_MS else None

    def _path(self, sender: str) -> str:
        return os.path.join(self._directory, filename(sender))


def merged(one: Seen, other: Seen) -> Seen:
    """What two nodes know of a sender together."""
    at = max((seen for seen in (one.at, other.at) if seen is not None), default=None)
    told = {one.doing, other.doing}
    doing = next((doing for doing in (WORKING, IDLE, ENDED) if doing in told), None)
    listening, wakeable = one.listening or other.listening, one.wakeable or other.wakeable
    return Seen(at, listening, doing, wakeable)


def _waits(seen: Seen, now_ms: int) -> bool:
    """Whoever acts without hooks says nothing of its client; one that acted lately has one."""
    if seen.doing is not None:
        return seen.doing == IDLE
    return seen.at is not None and now_ms - seen.at < FRESH_MS


def _as_of(window: Window, now_ms: int) -> Window:
    if window.doing == ENDED:
        return window
    runs, silent_ms = _runs(window), now_ms - window.at
    if runs is False or (runs is None and silent_ms > FORGOTTEN_MS):
        return window._replace(doing=ENDED)
    if window.doing == WORKING and silent_ms > MAX_STEP_MS:
        return window._replace(doing=IDLE)
    return window


def _runs(window: Window) -> bool | None:
    """Whether the client's process runs; None where nobody here can tell."""
    about = window.about
    pid, started = about.get("pid"), about.get("started")
    if not isinstance(pid, int) or not isinstance(started, str) or about.get("space") != space():
        return None
    return is_alive(pid, started)


def _is_same(window: Window, about: dict[str, Any] | None) -> bool:
    """Whether a window was at work in the very process that says that it starts."""
    pid = (about or {}).get("pid")
    return window.doing == WORKING and pid is not None and window.about.get("pid") == pid


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _touched_ms(path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000


def _sweep_uses(own: str, now_ms: int) -> None:
    """Forgets how tokens were used that were not used so for long, and those not used at all."""
    for token in _names(own):
        directory = os.path.join(own, token)
        for name in _names(directory):
            path = os.path.join(directory, name)
            with suppress(OSError):
                if now_ms - _touched_ms(path) > FRESH_MS:
                    os.unlink(path)
        with suppress(OSError):  # one that is not empty stays
            os.rmdir(directory)


def _read_use(path: str) -> Use | None:
    try:
        with open(path, encoding="utf-8") as file:
            return Use(*json.load(file))._replace(at=_touched_ms(path))
    except (OSError, ValueError, TypeError):
        return None


def _read(path: str) -> Window | None:
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        return Window(*(said[name] for name in Window._fields))
    except (OSError, ValueError, KeyError, TypeError):
        return None
