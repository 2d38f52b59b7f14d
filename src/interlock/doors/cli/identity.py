"""Commands about who is who: init, join, whoami, agents, tokens, groups."""

import os
from collections.abc import Sequence
from contextlib import closing

from interlock.doors.cli.context import Context, here_and_now, read_text
from interlock.errors import BadToken, NotFound, Usage
from interlock.local import workspace
from interlock.local.link import LocalLink, open_node
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import (
    IdentifyToken,
    ImportTokens,
    Join,
    MintToken,
    ReaffirmTokens,
    RotateToken,
)
from interlock.rooms.workspace.verbs import ShowStatus
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials


def init(context: Context) -> Answer:
    here = context.get("here", False)
    if here and context.get("workspace"):
        raise Usage("--here makes a workspace for this place; --workspace names another one.")
    directory = workspace.here(here_and_now()) if here else context.place
    if "://" in directory:
        raise Usage("A server has its workspace already; init makes one in a directory.")
    existed = os.path.exists(os.path.join(directory, "log.db"))
    if context.get("adopt"):
        open_node(directory, adopt=True).close()
    with closing(LocalLink(directory)) as link:
        found = link.call(Credentials(owner=True), ShowStatus())
    if here and not existed:
        workspace.hide_from_git(directory)
    return {"workspace": found["workspace"], "directory": directory, "created": not existed}


def join(context: Context) -> Answer:
    if "/" in context.values["name"] or context.values["name"].startswith(token_format.INVITATION):
        from interlock.doors.cli.people import join_by

        return join_by(context, context.values["name"])
    return _kept(
        context,
        Join(
            context.values["name"],
            context.get("surface"),
            context.get("kind"),
            context.get("label"),
            tuple(context.get("scope", ())),
        ),
    )


def mint(context: Context) -> Answer:
    act = MintToken(
        context.values["sender"],
        context.get("label"),
        tuple(context.get("scope", ())),
        context.get("ttl"),
    )
    if not context.get("keep"):
        return context.call_as_owner(act)
    with context.store().slot() as slot:
        answer = context.call_as_owner(act)
        return answer | {"kept": slot.keep(answer["sender"], answer["token"])}


def rotate(context: Context) -> Answer:
    return _kept(context, RotateToken(context.get("id"), context.get("sender")))


def reaffirm(context: Context) -> Answer:
    chosen = context.get("id"), context.get("sender")
    if (chosen == (None, None)) != context.get("all", False):
        raise Usage("Name one token by its ID, a sender's with --sender, or --all.")
    return context.call_as_owner(ReaffirmTokens(*chosen))


def import_tokens(context: Context) -> Answer:
    """What would become of a file's tokens, or does. Only hashes leave this process."""
    from interlock.rooms.identity import token_files

    found = token_files.prepared(token_files.parsed(_bytes_of(context.values["file"])))
    named = _mapped(context.get("map", ()))
    answer = context.call_as_owner(
        ImportTokens(found.rows, named or None, context.get("apply", False))
    )
    return answer | ({"ignored": found.ignored} if found.ignored else {})


def _bytes_of(path: str) -> bytes:
    """A file's content, as far as one byte more than may be."""
    from interlock.rooms.identity.token_files import MAX_FILE_BYTES

    if path == "-":
        return read_text().encode()
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None


def _mapped(given: Sequence[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for said in given:
        label, _, agent = said.rpartition("=")
        if not label or not agent:
            raise Usage(f"{said[:80]!r} is no --map 'LABEL=AGENT'.")
        if named.setdefault(label, agent) != agent:
            raise Usage(f"The label {label[:80]!r} is mapped twice, to different agents.")
    return named


def identify(context: Context) -> Answer:
    given = context.values["token"]
    token = (read_text() if given == "-" else given).strip()
    if not token:
        raise Usage("There is no token to look at. Give one, or - and one on standard input.")
    return context.call_as_owner(IdentifyToken(token_format.hashed(token)))


def _id_kept(store: workspace.CredentialStore, sender: str) -> str | None:
    """Which token of a sender is kept; None where none is, or what is kept is damaged."""
    kept = store.get(sender)
    try:
        return token_format.token_id(token_format.hashed(kept.token)) if kept else None
    except BadToken:
        return None


def _kept(context: Context, act: Join | RotateToken) -> Answer:
    """Does the act and keeps its token, unless another of the sender's is kept that goes on."""
    store = context.store()
    with store.slot() as slot:
        answer = context.call_as_owner(act)
        before = _id_kept(store, answer["sender"])
        if before is not None and before not in answer.get("replaced", ()):
            return answer
        try:
            return answer | {"kept": slot.keep(answer["sender"], answer["token"])}
        except OSError as trouble:
            # The token is made; only the answer has it now.
            return answer | {"not_kept": trouble.strerror}
