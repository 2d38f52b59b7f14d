"""`interlock doctor`: the checks of the node, and the checks of this machine's files."""

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from interlock.doors.cli.audit import refuse_absent
from interlock.doors.cli.context import Context, here_and_now
from interlock.doors.cli.grammar import command
from interlock.errors import BadToken, Usage
from interlock.local import workspace
from interlock.local.windows import surrounding
from interlock.local.workspace import Kept
from interlock.rooms.identity import token_format
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.verbs import IdentifyToken, ListAgents
from interlock.rooms.workspace.findings import Finding, finding_rows, in_order, unmade
from interlock.rooms.workspace.verbs import Examine
from interlock.verbs.addresses import address, filename
from interlock.verbs.answers import Answer

HOOKS_LOG = "hooks.log"
MAX_READ_BYTES = 64 << 10
SETUP = "interlock setup claude-code "
TAKE_OVER = "interlock claim take-over "
SEND = "interlock send "
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@command("doctor")
def doctor(context: Context) -> Answer:
    """Find problems, and show the command that fixes each one.

    Problems with the smallest fix come first. Exit 0: no problem. Exit 1: problems found.
    docs/doctor.md explains each check.
    """
    refuse_absent(context, "data to check")
    answer = context.call_as_owner(Examine())
    here: list[Answer] = []
    if context.silent is not None:
        silent = Finding(
            f"The server (process {context.silent}) is running and does not answer. It may still "
            "execute the requests that it received.",
            f"kill -9 {context.silent} && interlock up --detach",
        )
        here += finding_rows("one-server", [silent])
    for check, run_check in CHECKS.items():
        try:
            found = list(run_check(context))
        except Exception as trouble:  # noqa: BLE001 - one check must not hide the others
            found = [unmade(trouble)]
        here += finding_rows(check, found)
    rows = _add_from_flag(context, in_order([*answer["findings"], *here]))
    for row in rows:
        row["do"] = _as_typed_here(context, row["do"])
    return answer | {
        "ok": not rows,
        "checks": answer["checks"] + len(CHECKS),
        "findings": rows,
    }


def _as_typed_here(context: Context, do: str) -> str:
    """Return a command as the caller would type it. It names a client of this machine, and the
    workspace that the caller named on the command line."""
    if do.startswith(SETUP):
        from interlock.agents.setup.clients import GIT, place_at
        from interlock.agents.setup.inspect import detected

        rows = detected(place_at(here_and_now(), os.environ))
        here = [row for row in rows if "found" in row and row["client"] != GIT]
        likely = [row for row in here if not row["set_up"]] or here
        do = do.replace(SETUP, f"{likely[0]['command']} ", 1) if likely else do
    if not context.get("workspace"):
        return do
    named = f"interlock --workspace {shlex.quote(context.link.place)} "
    return " && ".join(
        named + part.removeprefix("interlock ") if part.startswith("interlock ") else part
        for part in do.split(" && ")
    )


def _hooks(context: Context) -> Iterator[Finding]:
    """The problems that hooks logged within the last day, each once."""
    since = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    for home in dict.fromkeys((context.link.home, workspace.data(os.environ))):
        path = os.path.join(home, HOOKS_LOG)
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_READ_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            continue
        found: dict[str, int] = {}
        for line in lines:
            at, _, what = line.partition(" ")
            if at >= since and at[:1].isdigit() and what:
                found[what] = found.get(what, 0) + 1
        for what, count in found.items():
            often = "" if count == 1 else f" ({count} times)"
            do = f"tail -n 20 {shlex.quote(path)}"
            yield Finding(f"A hook had a problem within the last day{often}: {what}", do)


def _rules(context: Context) -> Iterator[Finding]:
    """A wake.toml that the server does not use, because it is not valid or not safe."""
    from interlock.agents.wake import configuration

    if not context.link.is_local:
        return
    try:
        configuration.read(context.link.place)
    except Usage as refusal:
        path = os.path.join(context.link.place, configuration.FILE)
        may_others = os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        do = "chmod go-w" if may_others else '"${EDITOR:-vi}"'
        yield Finding(
            f"The server does not use {path}. {refusal.message}", f"{do} {shlex.quote(path)}"
        )


def _clients(context: Context) -> Iterator[Finding]:
    """Client configurations that no longer work."""
    from interlock.agents.setup import health

    yield from health.bad_credentials(context.link, list(_joined(context)), os.environ)


def _credentials(context: Context) -> Iterator[Finding]:
    """Credentials that are not valid, that belong to another sender than the file name says, or
    that other users of this machine can read."""
    joined = _joined(context)
    for path, kept in context.store().files():
        quoted = shlex.quote(path)
        if os.stat(path).st_mode & OTHERS:
            yield Finding(
                f"Other users of this machine can read or write {path}.", f"chmod 600 {quoted}"
            )
        wrong = None
        if kept is None:
            wrong = "is not a valid credential file."
        elif os.path.basename(path) != f"{filename(kept.sender)}.json":
            whose = address(kept.sender)
            wrong = f"contains the credential of {whose}, although it has another name."
        if wrong is not None:
            sender = next((name for name in joined if path.endswith(f"/{filename(name)}.json")), "")
            do = _new_credential(context, joined[sender]) if sender else f"rm {quoted}"
            yield Finding(f"{path} {wrong}", do, address(sender) if sender else None)
        elif kept is not None and (ended := _why_invalid(context, path, kept, joined)) is not None:
            why, do = ended
            whose = address(kept.sender)
            yield Finding(f"The stored credential of {whose} {why}.", do, whose)


def _joined(context: Context) -> dict[str, Answer]:
    """Return all agents and people, by the name of their sender."""
    agents: list[Answer] = context.call_as_owner(ListAgents())["agents"]
    return {agent["address"].removeprefix("@"): agent for agent in agents}


def _why_invalid(
    context: Context, path: str, kept: Kept, joined: dict[str, Answer]
) -> tuple[str, str] | None:
    """Return why a credential is not valid, and the command that fixes it. Return None for a valid
    credential."""
    is_local = context.link.is_local
    token = _identified(context, kept.token)
    whose = joined.get(kept.sender)
    if whose is None:
        name = shlex.quote(kept.sender)
        # join does not replace a stored credential.
        join = f"rm {shlex.quote(path)} && interlock join {name}"
        why = "belongs to a sender that has not joined"
        return why, join if is_local else _ask_owner(f"invite {name}")
    if not token["known"]:
        why = "contains a token that this workspace does not know"
        return why, _new_credential(context, whose)
    if token["sender"] != kept.sender:
        why = f"contains a token of @{token['sender']}"
        return why, _new_credential(context, whose)
    if token["active"]:
        return None
    if token.get("suspended"):
        again = f"token reaffirm {token['id']}"
        return "is suspended", f"interlock {again}" if is_local else _ask_owner(again)
    mint = _new_credential(context, whose, token["scopes"])
    if "revoked_at" in token:
        return "was revoked", mint
    rotate = f"interlock token rotate {token['id']}"
    return f"expired at {token['expires_at']}", rotate if is_local else mint


def _identified(context: Context, token: str) -> Answer:
    try:
        return context.call_as_owner(IdentifyToken(token_format.hashed(token)))
    except BadToken:  # the token was cut off
        return {"known": False}


def _new_credential(context: Context, whose: Answer, scopes: Iterable[str] = BASIC_SCOPES) -> str:
    """Return the command that makes a new credential. On a remote workspace only the owner can make
    one, as an invitation."""
    if not context.link.is_local:
        surface = f" --surface {shlex.quote(whose['surface'])}" if "surface" in whose else ""
        return _ask_owner(f"invite {shlex.quote(whose['agent'])}{surface}")
    sender = shlex.quote(whose["address"].removeprefix("@"))
    more = "" if tuple(scopes) == BASIC_SCOPES else "".join(f" --scope {s}" for s in scopes)
    return f"interlock token mint --sender {sender} --keep{more}"


def _ask_owner(command: str) -> str:
    return f"Ask the workspace's owner to run on its machine: interlock {command}"


def _add_from_flag(context: Context, findings: list[Answer]) -> list[Answer]:
    """Return the findings, with `--from` in commands that need a sender. A command
    inside a session or a client needs no `--from`."""
    if not any(row["do"].startswith((SEND, TAKE_OVER)) for row in findings):
        return findings
    if workspace.is_inside(os.environ) or surrounding(context.link.home) is not None:
        return findings
    joined = _joined(context)
    people: list[str] = []
    agents: list[str] = []
    takers: list[str] = []
    for _, kept in context.store().files():
        token = _identified(context, kept.token) if kept is not None else {}
        if kept is None or not token.get("active") or token["sender"] != kept.sender:
            continue
        is_person = joined[kept.sender]["kind"] == "human"
        (people if is_person else agents).append(kept.sender)
        if is_person or "admin" in token["scopes"]:
            takers.append(kept.sender)
    senders = [*people, *agents]  # people first: they resolve conflicts between agents
    alone = len(context.store().senders()) == 1

    def with_from_flag(do: str) -> str:
        if do.startswith(TAKE_OVER):
            able = [sender for sender in senders if sender in takers]
            if not able:
                return f"interlock join NAME --kind human && {do} --from NAME"
        elif do.startswith(SEND):
            able = [sender for sender in senders if f" @{sender} " not in do] or senders
        else:
            return do
        return do if alone or not able else f"{do} --from {shlex.quote(able[0])}"

    return [row | {"do": with_from_flag(row["do"])} for row in findings]


CHECKS: dict[str, Callable[[Context], Iterator[Finding]]] = {
    "credentials-good": _credentials,
    "wake-rules-followed": _rules,
    "hooks-working": _hooks,
    "clients-configured": _clients,
}
