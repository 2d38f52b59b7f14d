"""The one table over all verbs: what each answers to whom, at every door.

A file for each room has its rows by verb. A new verb needs a row that works; each of its refusals
needs a row too. Tests over all verbs take them from here. `tests/doors/test_doors.py` plays every
row at every door, and `example` is the row that a suite uses where one request is enough.
"""

from interlock.rooms import catalogue
from interlock.verbs.verb import Verb
from world.row import Row, Rows
from world.rows import claims, identity, mail, people, work, workspace

ROUTED = [verb for verb in catalogue.verbs() if verb.declared.http]
BY_VERB: Rows = {
    **mail.ROWS,
    **claims.ROWS,
    **work.ROWS,
    **identity.ROWS,
    **people.ROWS,
    **workspace.ROWS,
}
ROWS = [row._replace(verb=verb) for verb, rows in BY_VERB.items() for row in rows]


def working(verb: type[Verb]) -> list[Row]:
    """The rows of a verb that work."""
    found = [row for row in ROWS if row.verb is verb and row.kind == "done"]
    room = verb.__module__.split(".")[-2]
    assert found, f"{verb.__name__} has no row that works: add one to tests/world/rows/{room}.py."
    return found


def example(verb: type[Verb]) -> Row:
    """The first row of a verb that works."""
    return working(verb)[0]
