"""What the doctor looks at, and how what it found is told.

Some checks need the log, its engine and whoever was seen: the node makes those. The others look at
files of the machine that asks: the command makes them. Both tell in the same form.
"""

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, NamedTuple

MAX_TOLD = 20

# Every check, the smallest change first: a word, somebody to be told, a token, a file, a process,
# an engine.
ORDER = (
    "labels-agree",
    "recipients-known",
    "mailboxes-read",
    "claims-alive",
    "commits-guarded",
    "wakes-working",
    "tokens-lasting",
    "credentials-good",
    "tokens-apart",
    "gates-held",
    "agents-wakeable",
    "wake-rules-followed",
    "hooks-working",
    "clients-configured",
    "secrets-kept",
    "one-server",
    "nodes-level",
    "clock-level",
    "set-aside-entries",
    "engine-durable",
    "engine-reachable",
)


class Finding(NamedTuple):
    """What is wrong, the command or the setting that puts it right, and what it is about."""

    message: str
    do: str
    subject: str | None = None


def told(check: str, found: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings of one check as everybody gets them; of very many, the first and a count."""
    findings = list(found)
    shown = findings[:MAX_TOLD]
    if (more := len(findings) - MAX_TOLD) > 0:
        shown.append(Finding(f"And {more} more like these.", "interlock doctor"))
    return [_told(check, finding) for finding in shown]


def _told(check: str, finding: Finding) -> dict[str, Any]:
    row = {"check": check, "message": finding.message, "do": finding.do}
    return row if finding.subject is None else row | {"subject": finding.subject}


def unmade(trouble: Exception) -> Finding:
    """A check that cannot be made: nobody knows whether all is well there."""
    why = shorten(str(trouble), 300, placeholder=" …") or type(trouble).__name__
    return Finding(f"This could not be looked at: {why}", "interlock audit verify")


def in_order(findings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings of several checks, the smallest change first."""
    places = {check: place for place, check in enumerate(ORDER)}
    return sorted(findings, key=lambda finding: places.get(finding["check"], len(places)))
