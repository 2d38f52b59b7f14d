"""Commands about what keeps the log. They use this machine's copy of it, beside any server."""

from interlock.doors.cli.context import Context
from interlock.errors import Usage
from interlock.local.link import is_served, open_node
from interlock.verbs.answers import Answer


def migrate(context: Context) -> Answer:
    from interlock.node.opening import migrate, refuse_strange

    directory = _directory(context)
    refuse_strange(context.values["to"])
    if is_served(directory):
        raise Usage("A server runs for this workspace. End it first: interlock down")

    with open_node(directory) as node:
        return migrate(node, context.values["to"])


def repair(context: Context) -> Answer:
    put_back, give_up = context.get("restore", False), context.get("give_up", False)
    discard = context.get("discard_aside", False)
    if put_back + give_up + discard > 1:
        raise Usage("--restore, --give-up and --discard-aside are done one at a time: choose one.")
    engine = context.get("engine")
    if engine is not None and not put_back:
        raise Usage("--engine says where --restore puts the log, if not where it was.")
    from interlock.node import repair as repairing
    from interlock.node.opening import refuse_strange

    directory = _directory(context)
    refuse_strange(engine)
    if engine is not None and is_served(directory):
        raise Usage("A server runs for this workspace. End it first: interlock down")
    with open_node(directory, engine=engine, is_repair=engine is not None) as node:
        if put_back:
            return repairing.restore(node)
        if discard:
            return repairing.discard_aside(node)
        return repairing.give_up(node) if give_up else repairing.show(node)


def _directory(context: Context) -> str:
    if "://" in context.place:
        raise Usage("That is done on the machine of a node, with its own directory.")
    return context.place
