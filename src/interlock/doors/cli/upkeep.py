"""Commands about the workspace itself."""

import json

from interlock.contracts import acts
from interlock.doors.cli import output
from interlock.doors.cli.context import Answer, Context, absolute
from interlock.errors import NotAvailable, Usage


def status(context: Context) -> Answer:
    """What the log says is not told while nobody knows whether it is all; why that is so, is."""
    senders = context.store().senders()
    try:
        answer = context.call_as_owner(acts.ShowStatus())
        answer |= context.call_as_owner(acts.ShowStorage())
    except NotAvailable:
        answer = context.call_as_owner(acts.ShowStorage())
        if "trouble" not in answer:
            raise
    return answer | {"credentials": ["@" + sender for sender in senders]}


def review(context: Context) -> Answer:
    return context.call_as_owner(acts.Review(context.get("since", 7 * 86_400)))


def settings(context: Context) -> Answer:
    name, value = context.get("name"), context.get("value")
    if name is not None and value is not None:
        return context.call_as_owner(acts.ChangeSetting(name, value))
    answer = context.call_as_owner(acts.ListSettings())
    if name is not None:
        answer["settings"] = [found for found in answer["settings"] if found["name"] == name]
        if not answer["settings"]:
            raise Usage(f"There is no setting {name[:80]!r}. interlock settings lists them.")
    return answer


def pause(context: Context) -> Answer:
    return context.call_as_owner(acts.Pause(context.get("reason")))


def resume(context: Context) -> Answer:
    return context.call_as_owner(acts.Resume())


def backup(context: Context) -> Answer:
    return context.call_as_owner(acts.Backup(absolute(context.values["file"])))


def restore(context: Context) -> Answer:
    return context.call_as_owner(acts.Restore(absolute(context.values["file"])))


def rebuild(context: Context) -> Answer:
    return context.call_as_owner(acts.Rebuild())


def schema(context: Context) -> Answer | int:
    from interlock.contracts import schemas, types

    if (type := context.get("type")) is None:
        found = {name: schemas.schema(name) for name in types.TYPES}
    elif type in types.TYPES:
        found = schemas.schema(type)
    else:
        raise types.unknown(type)
    if context.json:
        output.document(found)
    else:
        output.lines(json.dumps(found, indent=2, ensure_ascii=False))
    return 0


def completion(context: Context) -> Answer | int:
    from interlock.doors.cli.commands import COMMANDS, COMMON
    from interlock.doors.cli.completion import script

    shell = context.values["shell"]
    text = script(shell, COMMANDS, COMMON)
    if context.json:
        return {"shell": shell, "script": text}
    output.lines(text)
    return 0
