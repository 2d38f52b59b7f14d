"""Large workspaces: an inbox among a million messages compared with the same inbox among a
thousand. Also the speed of a rebuild and a verification of a long log.

Runs as a child process too: `python -m bench.large DIRECTORY MESSAGES` makes such a workspace. It
appends the same facts as sends do, but decides none of them, and uses large transactions. A million
real sends would take several times as long as the whole benchmark.
"""

import json
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

from bench.scene import OWNER, Sender, answer, child, opened
from interlock.log.encoding import canonical, digest
from interlock.node import Node, audit, upkeep
from interlock.node.batch import Batch, new_id
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.transaction import Caller
from interlock.rooms.workspace.verbs import ShowLog
from interlock.verbs.credentials import Credentials

AGENTS = 16
OPEN = 100
LISTED = 20
READERS_SHARE = 10
AT_ONCE = 10_000
SMALL = 1000


class Made(NamedTuple):
    directory: str
    token: str
    facts: int
    seconds: float
    bytes: int


class Inboxes(NamedTuple):
    """Milliseconds, p50."""

    ratio: float
    small: float
    large: float


def make(directory: str, messages: int) -> Made:
    return Made(directory, **answer(child("bench.large", directory, str(messages))))


def inboxes(small: Made, large: Made, calls: int) -> Inboxes:
    """List the two inboxes in alternation."""
    act = ListInbox(limit=LISTED)
    with Node(small.directory) as one, Node(large.directory) as other:
        ways = [(one, Credentials(small.token)), (other, Credentials(large.token))]
        took: list[list[float]] = [[], []]
        for turn in range(-5, calls):
            for (node, reader), times in zip(ways, took, strict=True):
                started = time.perf_counter()
                found = node.call(reader, act)
                spent = (time.perf_counter() - started) * 1000
                assert (len(found["messages"]), found["open"]) == (LISTED, OPEN)
                if turn >= 0:  # the first listings mark the messages as shown
                    times.append(spent)
    return Inboxes(median(took[1]) / median(took[0]), median(took[0]), median(took[1]))


def rebuild(made: Made, rounds: int) -> float:
    """Return the facts a second."""
    with Node(made.directory) as node:
        return median(_facts_a_second(lambda: upkeep.rebuild(node, OWNER)) for _ in range(rounds))


def verify(made: Made, rounds: int) -> float:
    """Return the facts a second."""
    with Node(made.directory) as node:
        return median(_facts_a_second(lambda: audit.verify(node)) for _ in range(rounds))


def _facts_a_second(work: Any) -> float:
    started = time.perf_counter()
    found = work()
    assert found.get("ok", True)
    assert not found.get("changed", False)
    return float(found["entries"] / (time.perf_counter() - started))


# --- making a large workspace


def build(directory: str, messages: int) -> dict[str, Any]:
    started = time.perf_counter()
    node, senders = opened(directory, AGENTS)
    node.file.writer.execute("PRAGMA cache_size = -200000")
    node.call(senders[1].credentials, senders[1].act())
    (fact,) = audit.show(node, ShowLog(limit=1, kind="message_sent"))["facts"]
    numbers = iter(range(messages))
    while batch := list(islice(numbers, AT_ONCE)):
        node.do(partial(_record, senders, fact["outcome"], batch, messages))
    with node.file.reading() as db:
        facts = node.engine.head(db).seq
    size = node.file.size()
    node.close()
    token = senders[0].credentials.token
    seconds = time.perf_counter() - started
    return {"token": token, "facts": facts, "seconds": seconds, "bytes": size}


def _record(
    senders: list[Sender], sample: dict[str, Any], numbers: Iterable[int], total: int, turn: Batch
) -> None:
    """Append the messages. Every tenth one is for the reader, who acks all of these except `OPEN`,
    which are spread over the log."""
    reader, *others = senders
    transactions = [
        turn.transaction(Caller(sender.name, sender.name, "agent")) for sender in others
    ]
    each = total // READERS_SHARE // OPEN
    handled = []
    for number in numbers:
        for_reader = number % READERS_SHARE == 0
        to = reader.name if for_reader else others[number % len(others)].name
        fact = transactions[number % len(transactions)].append(
            "message_sent", _outcome(sample, to, number), _body(number)
        )
        place = number // READERS_SHARE
        if for_reader and (place % each or place >= each * OPEN):
            handled.append([fact.seq, to])
    tx = turn.transaction(Caller(reader.name, reader.name, "agent"))
    while handled:
        tx.append("mail_moved", {"state": "acked", "items": handled[:500]})
        del handled[:500]


def _outcome(sample: dict[str, Any], to: str, number: int) -> dict[str, Any]:
    id = new_id()
    return sample | {"id": id, "thread": id, "to": f"@{to}", "deliveries": [to], "nth": number}


def _body(number: int) -> bytes:
    text = f"Note {number}: the tests of the store pass again, now that the index is back."
    return canonical(
        {"payload": {"text": text}, "sha256": digest(text.encode()), "size": len(text)}
    )


if __name__ == "__main__":
    print(json.dumps(build(sys.argv[1], int(sys.argv[2]))))
