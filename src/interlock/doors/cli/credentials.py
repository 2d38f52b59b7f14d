"""Credentials that are kept on this machine: which of them are no good, and as whom somebody who
sits here can type what the doctor says."""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from interlock.doors.cli.context import Context
from interlock.errors import BadToken
from interlock.local import workspace
from interlock.local.windows import surrounding
from interlock.local.workspace import Kept
from interlock.rooms.identity import token_format
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.verbs import IdentifyToken, ListAgents
from interlock.rooms.workspace.findings import Finding
from interlock.verbs.addresses import address, filename
from interlock.verbs.answers import Answer

OTHERS = stat.S_IRWXG | stat.S_IRWXO
TAKE_OVER = "interlock claim take-over "
SEND = "interlock send "


# --- which are no good


def bad_credentials(context: Context) -> Iterator[Finding]:
    """Credentials that open nothing, that are not what their file's name says, and that others on
    this machine may read."""
    joined = _joined(context)
    for path, kept in context.store().files():
        if os.stat(path).st_mode & OTHERS:
            yield Finding(
                f"Others on this machine may read or write {path}.",
                f"chmod 600 {shlex.quote(path)}",
            )
        if (wrong := _of_file(path, kept)) is not None:
            sender = next((name for name in joined if path.endswith(f"/{filename(name)}.json")), "")
            do = _anew(context, joined[sender]) if sender else f"rm {shlex.quote(path)}"
            yield Finding(f"{path} {wrong}", do, address(sender) if sender else None)
        elif kept is not None and (ended := _of_token(context, path, kept, joined)) is not None:
            why, do = ended
            whose = f"The credential of {address(kept.sender)} that is kept here"
            yield Finding(f"{whose} {why}.", do, address(kept.sender))


def _joined(context: Context) -> dict[str, Answer]:
    """Everybody who has joined, by the name they act as."""
    agents: list[Answer] = context.call_as_owner(ListAgents())["agents"]
    return {agent["address"].removeprefix("@"): agent for agent in agents}


def _of_file(path: str, kept: Kept | None) -> str | None:
    if kept is None:
        return "cannot be read as a credential."
    if os.path.basename(path) != f"{filename(kept.sender)}.json":
        return f"holds a credential of {address(kept.sender)}, which its name does not say."
    return None


def _of_token(
    context: Context, path: str, kept: Kept, joined: dict[str, Answer]
) -> tuple[str, str] | None:
    """Why a credential is no good, and what to do; None for one that is."""
    said = _identified(context, kept.token)
    whose = joined.get(kept.sender)
    if whose is None:
        name = shlex.quote(kept.sender)
        # What is kept is not replaced by joining.
        join = f"rm {shlex.quote(path)} && interlock join {name}"
        return "is of nobody who has joined", (
            join if context.link.is_local else _asked(f"invite {name}")
        )
    if not said["known"]:
        return "is of no token that this workspace knows", _anew(context, whose)
    if said["sender"] != kept.sender:
        return f"is a token of @{said['sender']}", _anew(context, whose)
    return None if said["active"] else _ended(context, said, whose)


def _identified(context: Context, token: str) -> Answer:
    """Whose a token is; one that is cut off is nobody's."""
    try:
        return context.call_as_owner(IdentifyToken(token_format.hashed(token)))
    except BadToken:
        return {"known": False}


def _ended(context: Context, said: Answer, whose: Answer) -> tuple[str, str]:
    if said.get("suspended"):
        again = f"token reaffirm {said['id']}"
        return "is suspended", f"interlock {again}" if context.link.is_local else _asked(again)
    anew = _anew(context, whose, said["scopes"])
    if "revoked_at" in said:
        return "was revoked", anew
    rotated = f"interlock token rotate {said['id']}"
    return f"expired at {said['expires_at']}", rotated if context.link.is_local else anew


def _anew(context: Context, whose: Answer, scopes: Iterable[str] = BASIC_SCOPES) -> str:
    """How somebody who has joined gets another credential here: elsewhere only the owner can give
    one, by an invitation."""
    if not context.link.is_local:
        surface = f" --surface {shlex.quote(whose['surface'])}" if "surface" in whose else ""
        return _asked(f"invite {shlex.quote(whose['agent'])}{surface}")
    sender = shlex.quote(whose["address"].removeprefix("@"))
    more = "" if tuple(scopes) == BASIC_SCOPES else "".join(f" --scope {s}" for s in scopes)
    return f"interlock token mint --sender {sender} --keep{more}"


def _asked(command: str) -> str:
    return f"Ask the owner of the workspace to type there: interlock {command}"


# --- as whom to type


class UsableSender(NamedTuple):
    """A sender whose credential is kept here and good, and whether it may take claims over."""

    sender: str
    is_person: bool
    may_take_over: bool


def add_from_flag(context: Context, findings: list[Answer]) -> list[Answer]:
    """The findings with commands that say who acts, where that must be said. Within a session or
    a client it is settled already."""
    if not any(row["do"].startswith((SEND, TAKE_OVER)) for row in findings):
        return findings
    if workspace.is_inside(os.environ) or surrounding(context.link.home) is not None:
        return findings
    senders = _usable_senders(context)
    alone = len(context.store().senders()) == 1
    return [row | {"do": _with_from_flag(row["do"], senders, alone=alone)} for row in findings]


def _usable_senders(context: Context) -> list[UsableSender]:
    """People first: it is they who settle things among agents."""
    joined = _joined(context)
    found = []
    for _, kept in context.store().files():
        said = _identified(context, kept.token) if kept is not None else {}
        if kept is None or not said.get("active") or said["sender"] != kept.sender:
            continue
        is_person = joined[kept.sender]["kind"] == "human"
        found.append(UsableSender(kept.sender, is_person, is_person or "admin" in said["scopes"]))
    return sorted(found, key=lambda usable: not usable.is_person)


def _with_from_flag(do: str, senders: list[UsableSender], *, alone: bool) -> str:
    if do.startswith(TAKE_OVER):
        able = [usable for usable in senders if usable.may_take_over]
        if not able:
            return f"interlock join NAME --kind human && {do} --from NAME"
    elif do.startswith(SEND):
        able = [usable for usable in senders if f" @{usable.sender} " not in do] or senders
    else:
        return do
    return do if alone or not able else f"{do} --from {shlex.quote(able[0].sender)}"
