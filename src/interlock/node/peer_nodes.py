"""The other nodes on a shared engine: follow their entries, and report this node to them."""

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.errors import Refusal
from interlock.node.opening import absent
from interlock.rooms.identity.names import names
from interlock.stores.presence import Seen, Use, merged
from interlock.stores.shared.engine import SharedEngine
from interlock.stores.shared.locating import Located, reach
from interlock.stores.shared.remote import Remote
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.node import Node

_LOG = logging.getLogger("interlock.node")
_LOG.addHandler(logging.NullHandler())  # a command without a log reports the trouble itself
BEAT_INTERVAL_S = 1.0
TRY_AGAIN_S = 0.5
# Most commands end before there can be news, so the follower waits this long first.
SOON_S = 0.2
MAX_USES = 200


class PeerNodes:
    """Follows the engine in one thread while the node is open. `nodes` has the last report of each
    node. `trouble` is the reason why this node cannot follow the engine, or None."""

    def __init__(self, engine: SharedEngine, where: Located, *, is_joining: bool) -> None:
        self.engine = engine
        self.where = where
        self.nodes: dict[str, dict[str, Any]] = {}
        self.set_aside = 0
        self.trouble: Refusal | None = None
        self._is_joining = is_joining
        self._end = threading.Event()
        self._has_beaten = False
        self._is_waiting = False
        self._thread: threading.Thread | None = None

    @property
    def remote(self) -> Remote:
        return self.engine.remote

    def now(self) -> int:
        return self.engine.clock()

    def refuse_absent(self) -> None:
        """Refuse to create a log for a node that was given a key: its workspace must exist."""
        if self._is_joining:
            raise absent(self.where.workspace)

    def uses(self) -> dict[str | None, list[Use]]:
        """Return the uses of tokens at the other nodes, by the node's name. The name is None for
        nodes on this machine."""
        found: dict[str | None, list[Use]] = {}
        for name, report in self.nodes.items():
            if name != self.engine.node:
                where = None if report.get("machine") == self.engine.machine else name
                found.setdefault(where, []).extend(_uses(report.get("uses")))
        return found

    def standing(self, node: "Node") -> dict[str, Any]:
        """Return the position of each node: of this node now, of the others at their last report.
        Without the engine, these are the reports that this node heard last."""
        if self.trouble is None:
            with suppress(Refusal):
                self.hear(node)
        now = self.now()
        age_s = self.engine.age_s()
        with self.engine.file.reading() as db:
            here = {self.engine.node: self.engine.head(db).seq}
        reports = self.nodes  # the follower replaces the dictionary
        nodes = {name: here.get(name, report["seq"]) for name, report in reports.items()}
        return without_none(
            engine=self.remote.name,
            url=self.where.shown,
            name=self.where.workspace,
            node=self.engine.node,
            confirmed_s_ago=None if age_s is None else int(age_s),
            set_aside=self.set_aside,
            trouble=self.trouble and self.trouble.state,
            nodes=[
                {
                    "node": name,
                    "seq": seq,
                    "lag": max(0, self.engine.end - seq),
                    "seen_s_ago": max(0, now - reports[name]["at"]) // 1000,
                }
                for name, seq in sorted(nodes.items())
            ],
        )

    # --- following

    def follow(self, node: "Node") -> None:
        """Start the thread that follows the engine. Read the positions of the other nodes first:
        if the engine lost entries that they have, this node must write nothing."""
        self._end.clear()
        if self.engine.age_s() is not None:
            with suppress(Refusal):
                self.hear(node)
        self._thread = threading.Thread(
            target=self._run, args=(node, self._end), name="follower", daemon=True
        )
        self._thread.start()

    def begin_anew(self, node: "Node") -> None:
        """Give a forked child connections and a thread of its own."""
        self.engine.remote = reach(self.where)
        self._end = threading.Event()
        self.follow(node)

    def end(self) -> None:
        """Stop following. Do not join a thread that waits for news, because it does nothing
        afterwards and a command would wait for it."""
        self._end.set()
        if self._thread is not None and not self._is_waiting:
            self._thread.join(10)

    def _run(self, node: "Node", end: threading.Event) -> None:
        """Copy the entries of other nodes as they arrive. Report this node every second."""
        if self._has_beaten and end.wait(SOON_S):
            return
        beaten = time.monotonic() if self._has_beaten else 0.0
        unheard: Refusal | None = None
        while not end.is_set():
            try:
                if time.monotonic() - beaten >= BEAT_INTERVAL_S:
                    unheard = None
                    try:
                        self.hear(node)
                    except Refusal as trouble:
                        self.remote.remote_head()  # raises if the engine cannot be read
                        unheard = trouble
                    beaten = time.monotonic()
                before = node.reached
                self._is_waiting = True
                try:
                    if not end.is_set():
                        self.remote.wait(before, BEAT_INTERVAL_S / 2)
                finally:
                    self._is_waiting = False
                if end.is_set():
                    return
                # This node's own entries wake the follower too. The thread that appended them
                # folds them.
                node.wait_for_commit()
                if node.reached == before:
                    node.catch_up()
                self._note(unheard)
            except Refusal as trouble:
                if end.is_set():
                    return
                self._note(trouble)
                beaten = 0.0  # so that the next step reports this node at once
                end.wait(TRY_AGAIN_S)
            except Exception:  # noqa: BLE001 - a defect here must not end this thread
                if end.is_set():
                    return
                _LOG.exception("the follower failed")
                end.wait(TRY_AGAIN_S)

    def _note(self, trouble: Refusal | None) -> None:
        if trouble is not None and (
            self.trouble is None or self.trouble.message != trouble.message
        ):
            _LOG.warning(
                "the node cannot follow the engine",
                extra={"code": trouble.code, "why": trouble.message},
            )
        self.trouble = trouble

    def hear(self, node: "Node") -> None:
        """Report this node to the others. Read their positions and the senders that they saw."""
        with node.file.reading() as db:
            known = names(db)
        here = node.presence.here(known, self.now())
        self.set_aside = self.remote.aside()
        uses = node.presence.uses(self.now())[-MAX_USES:]
        self.nodes = self.engine.beat({"seen": here, "uses": uses})
        elsewhere: dict[str, Seen] = {}
        for name, report in self.nodes.items():
            if name != self.engine.node and self.now() - report["at"] < 10 * BEAT_INTERVAL_S * 1000:
                for sender, seen in _seen(report.get("seen")).items():
                    elsewhere[sender] = merged(seen, elsewhere.get(sender, Seen()))
        node.presence.elsewhere = elsewhere
        self._has_beaten = True


# A node of another version may report further members after the known ones. Reports are hints, so
# this node ignores malformed ones.


def _seen(report: Any) -> dict[str, Seen]:
    try:
        found = {sender: Seen(*seen[: len(Seen._fields)]) for sender, seen in report.items()}
    except (TypeError, AttributeError):
        return {}
    return {
        sender: seen
        for sender, seen in found.items()
        if isinstance(seen.at, int | None) and isinstance(seen.doing, str | None)
    }


def _uses(report: Any) -> list[Use]:
    try:
        found = [Use(*use[: len(Use._fields)]) for use in report]
    except TypeError:
        return []
    return [use for use in found if isinstance(use.since, int) and isinstance(use.at, int)]
