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
        "here": "create it for this repository, shared by all its worktrees",
        "adopt": "accept a workspace that was moved here from another host",
    },
    examples=("interlock init --here # a workspace for this repository only",),
)
def init(context: Context) -> Answer:
    """Create a workspace.

    A command that needs a workspace creates your default workspace if there is none. Use init to
    create another one.
    """
    here = context.get("here", False)
    if here and context.get("workspace"):
        raise Usage("--here and --workspace exclude each other. Give one.")
    directory = workspace.here(here_and_now()) if here else context.place
    if "://" in directory:
        raise Usage(
            "init creates a workspace in a directory, not at a URL. Name a directory with "
            "--workspace PATH."
        )
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
    help={"name": "the new name (lower-case letters, digits, hyphens), or an invitation's link"},
    examples=(
        "interlock join otto # add an agent",
        "interlock join otto --surface cli # add the sender otto-cli: otto in a terminal",
        "interlock join vera --kind human # add a person",
        "interlock join https://interlock.example/invite/ili_… # accept an invitation",
    ),
)
def join(context: Context) -> Answer:
    """Register an agent or a person, and store its token.

    The token is stored in the workspace, in a file that only you can read. --json prints it too,
    only this once.
    """
    name = context.values["name"]
    if "/" in name or name.startswith(token_format.INVITATION):
        from interlock.doors.cli.people import join_by_invitation

        return join_by_invitation(context, name)
    return _call_and_keep(context)


@command(
    "token mint --sender S [--label TEXT] [--scope SCOPE...] [--ttl D] [--keep]",
    MintToken,
    help={"keep": "store it in the workspace as the sender's credential"},
)
def mint(context: Context) -> Answer:
    """Create another token for a sender, and print it once."""
    if not context.get("keep"):
        return context.call_as_owner(context.request())
    with context.store().slot() as keep:
        answer = context.call_as_owner(context.request())
        return answer | {"kept": keep(answer["sender"], answer["token"])}


@command("token rotate [ID] [--sender S]", RotateToken)
def rotate(context: Context) -> Answer:
    """Replace a token with a new one."""
    return _call_and_keep(context)


def _call_and_keep(context: Context) -> Answer:
    """Call the verb and store its token. If another token of the sender is stored, and the verb did
    not replace it, that one stays."""
    store = context.store()
    with store.slot() as keep:
        answer = context.call_as_owner(context.request())
        kept = store.get(answer["sender"])
        try:
            kept_id = token_format.token_id(token_format.hashed(kept.token)) if kept else None
        except BadToken:  # the stored credential is damaged
            kept_id = None
        if kept_id is not None and kept_id not in answer.get("replaced", ()):
            return answer
        try:
            return answer | {"kept": keep(answer["sender"], answer["token"])}
        except OSError as trouble:
            # The token exists, and only this answer has it.
            return answer | {"not_kept": trouble.strerror}


@command(
    "token reaffirm [ID] [--sender S] [--all]",
    ReaffirmTokens,
    help={"all": "all suspended tokens"},
)
def reaffirm(context: Context) -> Answer:
    """Reaffirm suspended tokens, so that they are valid again.

    A new epoch, after restore or repair --give-up, suspends every token.
    """
    is_named = "id" in context.values or "sender" in context.values
    if is_named == context.get("all", False):
        raise Usage("Give one of: the ID of a token, --sender S, or --all.")
    return context.call_as_owner(context.request())


@command(
    "token import FILE|- [--map LABEL=AGENT...] [--apply]",
    help={
        "file": "a JSON array of rows with token_hash or token, agent, label, …; - reads standard "
        "input",
        "map": "the agent that the tokens with this label belong to",
        "apply": "import the tokens (default: only show the plan)",
    },
    examples=(
        "interlock token import tokens.json",
        "interlock token import tokens.json --map 'Neo GPT=neo-gpt' --apply",
    ),
)
def import_tokens(context: Context) -> Answer:
    """Import the tokens of another message bus from a file.

    Shows for each row whether Interlock can import it. Exit 1: a row is not ready. The imported
    tokens stay valid here until you rotate them.
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
            raise Usage(f"--map {pair[:80]!r} does not have the form LABEL=AGENT.")
        if named.setdefault(label, agent) != agent:
            raise Usage(
                f"--map gives the label {label[:80]!r} twice, with different agents. Give it once."
            )
    request = ImportTokens(found.rows, named or None, context.get("apply", False))
    answer = context.call_as_owner(request)
    return answer | ({"ignored": found.ignored} if found.ignored else {})


@command(
    "token identify TOKEN|-",
    help={"token": "the token; - reads it from standard input, so that no shell stores it"},
)
def identify(context: Context) -> Answer:
    """Show the sender that a token belongs to."""
    token = context.text(context.values["token"]).strip()
    if not token:
        raise Usage("The token is empty. Give the token, or - with the token on standard input.")
    return context.call_as_owner(IdentifyToken(token_format.hashed(token)))
