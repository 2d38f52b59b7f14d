"""Commands about the workspace itself and the engine of its log."""

import json

from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.errors import NotAvailable, Usage
from interlock.local.link import is_served, open_node
from interlock.rooms.workspace.verbs import ChangeSetting, ListSettings, ShowStatus, ShowStorage
from interlock.verbs.answers import Answer


@command("status")
def status(context: Context) -> Answer:
    """Show the state of the workspace: log, mail, claims, credentials."""
    senders = context.store().senders()
    try:
        answer = context.call_as_owner(ShowStatus())
        answer |= context.call_as_owner(ShowStorage())
    except NotAvailable:
        # The engine cannot confirm the state of the log. The storage answer says why.
        answer = context.call_as_owner(ShowStorage())
        if "trouble" not in answer:
            raise
    return answer | {"credentials": ["@" + sender for sender in senders]}


@command(
    "settings [NAME] [VALUE]",
    help={"name": "the name of a setting", "value": "its new value"},
    examples=("interlock settings recipients strict # refuse mail to unknown names",),
)
def settings(context: Context) -> Answer:
    """List the workspace's settings, or change one."""
    name, value = context.get("name"), context.get("value")
    if name is not None and value is not None:
        return context.call_as_owner(ChangeSetting(name, value))
    answer = context.call_as_owner(ListSettings())
    if name is not None:
        answer["settings"] = [found for found in answer["settings"] if found["name"] == name]
        if not answer["settings"]:
            raise Usage(
                f"There is no setting {name[:80]!r}. To list the settings: interlock settings"
            )
    return answer


@command(
    "migrate --to URL",
    help={"to": "the engine's URL: redis://… or postgres://…, with ?workspace=NAME"},
    examples=("interlock migrate --to 'redis://10.0.0.5:6379/0?workspace=team'",),
)
def migrate(context: Context) -> Answer:
    """Move the log to an engine that several nodes can share.

    Entries, their positions and proofs stay the same. Stop the server first: interlock down
    """
    from interlock.node.opening import migrate, refuse_strange

    directory = _directory(context)
    refuse_strange(context.values["to"])
    if is_served(directory):
        raise Usage("A server runs for this workspace. Stop it first: interlock down")
    with open_node(directory) as node:
        return migrate(node, context.values["to"])


@command(
    "repair [--restore] [--engine URL] [--give-up] [--discard-aside]",
    help={
        "restore": "write the lost entries back, from this node's copy",
        "engine": "with --restore: write them to this engine, and use it from now on",
        "give_up": "abandon the lost entries, and start a new epoch",
        "discard_aside": "delete the entries that nodes set aside, because they have no valid seal",
    },
)
def repair(context: Context) -> Answer:
    """List log entries that the engine lost and this node has, or repair the engine.

    The log records each repair. A new epoch suspends every token. To allow the tokens again:
    interlock token reaffirm --all
    """
    chosen = [name for name in ("restore", "give_up", "discard_aside") if context.get(name)]
    if len(chosen) > 1:
        raise Usage("--restore, --give-up and --discard-aside exclude each other. Give one.")
    engine = context.get("engine")
    if engine is not None and chosen != ["restore"]:
        raise Usage("--engine needs --restore: it names the engine to restore to.")
    from interlock.node import repair as repairing
    from interlock.node.opening import refuse_strange

    directory = _directory(context)
    refuse_strange(engine)
    if engine is not None and is_served(directory):
        raise Usage("A server runs for this workspace. Stop it first: interlock down")
    with open_node(directory, engine=engine, is_repair=engine is not None) as node:
        if chosen == ["restore"]:
            return repairing.restore(node)
        if chosen == ["discard_aside"]:
            return repairing.discard_aside(node)
        return repairing.give_up(node) if chosen else repairing.show(node)


def _directory(context: Context) -> str:
    if "://" in context.place:
        raise Usage(
            f"{context.place} is the URL of a server. Run this command on a node's machine, with "
            "its directory: --workspace PATH"
        )
    return context.place


@command("schema [TYPE]", help={"type": "the message type (default: all types)"})
def schema(context: Context) -> int:
    """Print the JSON Schema of a message type, or of all types."""
    from interlock.rooms.mail import message_types, schemas

    if (type := context.get("type")) is None:
        found = {name: schemas.schema(name) for name in message_types.TYPES}
    elif type in message_types.TYPES:
        found = schemas.schema(type)
    else:
        raise message_types.unknown(type)
    if context.json:
        output.document(found)
    else:
        output.lines(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
