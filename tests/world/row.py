"""A row of the table over all verbs, and the callers and steps that rows share.

The rows are in `world/rows`, a file for each room. A row runs in a copy of the workspace of
`world/furnished.py`. Rows refer to names of that workspace with a dollar.
"""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from interlock.client import Client
from interlock.rooms.claims import verbs as claims
from interlock.rooms.identity import verbs as identity
from interlock.rooms.mail import verbs as mail
from interlock.rooms.workspace import verbs as workspace
from interlock.verbs.verb import Verb

Fields = Mapping[str, Any]
Kind = Literal["done", "no", "refused"]
NOTHING: Fields = MappingProxyType({})


class Caller(NamedTuple):
    """The sender whose token a request has, and its session. `claims_to_be` is the sender that the
    request names."""

    sender: str | None
    session: str | None = None
    claims_to_be: str | None = None


# The owner has write access to the workspace's file. The second caller has no token.
OWNER = Caller("the owner")
NOBODY = Caller(None)
OTTO, VERA, DORA = Caller("otto-cli"), Caller("vera"), Caller("dora")
NOVA, LENA, MIRA = Caller("nova"), Caller("lena"), Caller("mira")
LATE, STRANGER, TYPO = Caller("late"), Caller("stranger"), Caller("typo")
BROWSER, CONNECTION = Caller("vera's browser"), Caller("vera's connection")
S1, S2 = Caller("otto-cli", "s-1"), Caller("otto-cli", "s-2")


class Step(NamedTuple):
    """A request before the row's own request, always through the Python client. `keeps` names parts
    of its answer by their path. Later fields refer to a name with a dollar."""

    caller: Caller
    verb: type[Verb]
    fields: Fields = NOTHING
    keeps: Mapping[str, str] = NOTHING


class Meanwhile(NamedTuple):
    """A step that runs while the door waits, as soon as `when` returns a true value. Its fields
    refer to that value as `$seen`."""

    when: Callable[[Client], Any]
    step: Step


class Row(NamedTuple):
    """A request, its caller, and its outcome.

    `has` is a part of the answer, in which None means absent. The doors are compared by the whole
    answer. `not_at` lists doors that cannot express the request, with the reason. With `own_words`
    each door has its own text of the refusal. A row `in_a_minute` runs again if a minute of the
    clock ended while it ran."""

    name: str
    caller: Caller
    fields: Fields = NOTHING
    kind: Kind = "done"
    code: str | None = None
    has: Fields = NOTHING
    first: tuple[Step, ...] = ()
    meanwhile: Meanwhile | None = None
    damage: str | None = None
    not_at: Mapping[str, str] = NOTHING
    own_words: bool = False
    in_a_minute: bool = False
    verb: type[Verb] = Verb

    @property
    def restores(self) -> bool:
        """Whether the row restores a backup."""
        verbs = {self.verb, *(step.verb for step in self.first)}
        return workspace.Restore in verbs and self.code != "MISSING_SCOPE"


Rows = dict[type[Verb], tuple[Row, ...]]


def done(name: str, caller: Caller, fields: Fields = NOTHING, **about: Any) -> Row:
    """A row that succeeds."""
    return Row(name, caller, fields, **about)


def no(code: str | None, name: str, caller: Caller, fields: Fields = NOTHING, **about: Any) -> Row:
    """A row whose answer is a plain no."""
    return Row(name, caller, fields, "no", code, **about)


def refused(code: str, name: str, caller: Caller, fields: Fields = NOTHING, **about: Any) -> Row:
    """A row that is refused with a code."""
    return Row(name, caller, fields, "refused", code, **about)


# --- first steps of rows of several rooms


def setting(name: str, value: str) -> Step:
    return Step(OWNER, workspace.ChangeSetting, {"name": name, "value": value})


def sent(caller: Caller, to: str, text: str, keeps: str = "it", **more: Any) -> Step:
    fields = {"to": to, "type": "send", "payload": {"text": text}, **more}
    kept = {keeps: "message.id", f"{keeps}_seq": "message.seq"}
    return Step(caller, mail.SendMessage, fields, kept)


def held(caller: Caller, item: str, **more: Any) -> Step:
    return Step(caller, claims.AcquireClaim, {"item": item, **more}, {"held": "claim.fence"})


ABSENT = "00000000-0000-4000-8000-000000000000"
NO_WORD = "the door cannot express it"
NO_SENDER = {"mcp": "the owner is not a sender"}
PAUSED = Step(OWNER, workspace.Pause, {"reason": "lunch"})
STARTED = Step(OTTO, identity.StartSession, {"id": "s-1"})
WHERE = {"branch": "b", "worktree": "/w", "note": "n"}

# A file in the callers' repository, and a run that printed the same bytes.
PROOF, PROVED = "proof.txt", b"2 passed\n"
KEPT = {"sha256": hashlib.sha256(PROVED).hexdigest(), "size": len(PROVED)}
RAN: Fields = MappingProxyType(
    {
        "kind": "run",
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 5,
        "commit": "$commit",
        "tree": "$tree",
        "dirty": False,
        "output": KEPT,
    }
)
HERE = {"repo": "$root/cwd/.git", "worktree": "$root/cwd"}
COMMITTED = {"commit": "$commit", "paths": [PROOF], **HERE}
THEIRS = Step(NOVA, claims.AcquireClaim, {"paths": ["*.txt"], **HERE, "note": "n"})
