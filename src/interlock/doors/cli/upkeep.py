"""Commands about the workspace itself."""

import json

from interlock.doors.cli import output
from interlock.doors.cli.context import Context, absolute
from interlock.errors import NotAvailable, Usage
from interlock.rooms.workspace.verbs import (
    Backup,
    ChangeSetting,
    ListSettings,
    Restore,
    ShowStatus,
    ShowStorage,
)
from interlock.verbs.answers import Answer


def status(context: Context) -> Answer:
    """What the log says is not told while nobody knows whether it is all; why that is so, is."""
    senders = context.store().senders()
    try:
        answer = context.call_as_owner(ShowStatus())
        answer |= context.call_as_owner(ShowStorage())
    except NotAvailable:
        answer = context.call_as_owner(ShowStorage())
        if "trouble" not in answer:
            raise
    return answer | {"credentials": ["@" + sender for sender in senders]}


def settings(context: Context) -> Answer:
    name, value = context.get("name"), context.get("value")
    if name is not None and value is not None:
        return context.call_as_owner(ChangeSetting(name, value))
    answer = context.call_as_owner(ListSettings())
    if name is not None:
        answer["settings"] = [found for found in answer["settings"] if found["name"] == name]
        if not answer["settings"]:
            raise Usage(f"There is no setting {name[:80]!r}. interlock settings lists them.")
    return answer


def backup(context: Context) -> Answer:
    return context.call_as_owner(Backup(absolute(context.values["file"])))


def restore(context: Context) -> Answer:
    return context.call_as_owner(Restore(absolute(context.values["file"])))


def schema(context: Context) -> Answer | int:
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


def completion(context: Context) -> Answer | int:
    from interlock.doors.cli.completion import script
    from interlock.doors.cli.grammar import COMMON
    from interlock.doors.cli.lookup import all_commands

    shell = context.values["shell"]
    text = script(shell, all_commands(), COMMON)
    if context.json:
        return {"shell": shell, "script": text}
    output.lines(text)
    return 0
