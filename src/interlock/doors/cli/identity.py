"""Commands about workspaces, identities and tokens."""

import os
from contextlib import closing

from interlock.doors.cli.context import Context, here_and_now, read_file, read_text
from interlock.doors.cli.grammar import command
from interlock.errors import BadToken, Usage
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


@command(
    "init [--here] [--adopt]",
    help={
        "here": "for this repository, shared by all its worktrees",
        "adopt": "take over a workspace that was moved here from another host",
    },
    examples=("interlock init --here # agents of this repository only",),
)
def init(context: Context) -> Answer:
    """Make a workspace.

    Any command makes the user's own workspace when there is none, so init is only needed for one of
    its own.
    """
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


@command(
    "join NAME [--surface S] [--kind agent|human] [--label TEXT] [--scope SCOPE...]",
    Join,
    help={"name": "its name: lower-case letters, digits and hyphens; or an invitation"},
    examples=(
        "interlock join otto # an agent",
        "interlock join otto --surface cli # otto in a terminal: the sender otto-cli",
        "interlock join vera --kind human # a person",
        "interlock join https://interlock.example/invite/ili_… # by an invitation",
    ),
)
def join(context: Context) -> Answer:
    """Register an agent or a person, and keep a token for it.

    The token is kept in the workspace, readable by you alone; --json prints it once.
    """
    name = context.values["name"]
    if "/" in name or name.startswith(token_format.INVITATION):
        from interlock.doors.cli.people import join_by_invitation

        return join_by_invitation(context, name)
    return _call_and_keep(context)


@command(
    "token mint --sender S [--label TEXT] [--scope SCOPE...] [--ttl D] [--keep]",
    MintToken,
    help={"keep": "keep it here as the sender's credential"},
)
def mint(context: Context) -> Answer:
    """Make another token for a sender, and print it once."""
    if not context.get("keep"):
        return context.call_as_owner(context.request())
    with context.store().slot() as keep:
        answer = context.call_as_owner(context.request())
        return answer | {"kept": keep(answer["sender"], answer["token"])}


@command("token rotate [ID] [--sender S]", RotateToken)
def rotate(context: Context) -> Answer:
    """Replace a token by a new one."""
    return _call_and_keep(context)


def _call_and_keep(context: Context) -> Answer:
    """Call the verb and keep its token, unless another token of the sender is kept and goes on."""
    store = context.store()
    with store.slot() as keep:
        answer = context.call_as_owner(context.request())
        kept = store.get(answer["sender"])
        try:
            kept_id = token_format.token_id(token_format.hashed(kept.token)) if kept else None
        except BadToken:  # the kept credential is damaged
            kept_id = None
        if kept_id is not None and kept_id not in answer.get("replaced", ()):
            return answer
        try:
            return answer | {"kept": keep(answer["sender"], answer["token"])}
        except OSError as trouble:
            # The token is made; only the answer has it now.
            return answer | {"not_kept": trouble.strerror}


@command("token reaffirm [ID] [--sender S] [--all]", ReaffirmTokens, help={"all": "all of them"})
def reaffirm(context: Context) -> Answer:
    """Trust tokens again that a restore suspended."""
    is_named = "id" in context.values or "sender" in context.values
    if is_named == context.get("all", False):
        raise Usage("Name one token by its ID, a sender's with --sender, or --all.")
    return context.call_as_owner(context.request())


@command(
    "token import FILE|- [--map LABEL=AGENT...] [--apply]",
    help={
        "file": "a JSON array of rows: token_hash or token, agent, label, …",
        "map": "whose the tokens of a label are",
        "apply": "import them; without it, nothing is changed",
    },
    examples=(
        "interlock token import tokens.json",
        "interlock token import tokens.json --map 'Neo GPT=neo-gpt' --apply",
    ),
)
def import_tokens(context: Context) -> Answer:
    """Take over the tokens of another bus, from its file.

    Says for each row what would become of it. Exit 1 when a row is not ready. The old tokens go on
    working here until they are rotated.
    """
    from interlock.rooms.identity import token_files

    path = context.values["file"]
    # One byte more than allowed, so that a larger file is refused as too large.
    limit = token_files.MAX_FILE_BYTES + 1
    data = read_text().encode() if path == "-" else read_file(path, limit)
    # Only hashes of the tokens leave this process.
    found = token_files.prepared(token_files.parsed(data))
    named: dict[str, str] = {}
    for pair in context.get("map", ()):
        label, _, agent = pair.rpartition("=")
        if not label or not agent:
            raise Usage(f"{pair[:80]!r} is no --map 'LABEL=AGENT'.")
        if named.setdefault(label, agent) != agent:
            raise Usage(f"The label {label[:80]!r} is mapped twice, to different agents.")
    request = ImportTokens(found.rows, named or None, context.get("apply", False))
    answer = context.call_as_owner(request)
    return answer | ({"ignored": found.ignored} if found.ignored else {})


@command(
    "token identify TOKEN|-",
    help={"token": "- reads it from standard input, which keeps it out of histories"},
)
def identify(context: Context) -> Answer:
    """Say whose a token is."""
    token = context.text(context.values["token"]).strip()
    if not token:
        raise Usage("There is no token to look at. Give one, or - and one on standard input.")
    return context.call_as_owner(IdentifyToken(token_format.hashed(token)))
