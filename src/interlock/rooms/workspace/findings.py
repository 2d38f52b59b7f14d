"""The names of the doctor's checks, and the form of their findings.

The node makes the checks of the log, its engine and presence. The command makes the checks of files
on the caller's machine.
"""

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, NamedTuple

from interlock.errors import Remedy
from interlock.rooms.workspace.verbs import Examine, VerifyLog

MAX_FINDINGS = 20

# Every check, ordered by how much its remedy changes: a label, a message, a token, a file, a
# process, an engine.
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
    """A problem, the command or the setting that solves it, and its subject."""

    message: str
    do: str
    subject: str | None = None


def finding_rows(check: str, found: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings of one check in the form of answers: the first ones, and a count of the
    others."""
    findings = list(found)
    shown = findings[:MAX_FINDINGS]
    if (more := len(findings) - MAX_FINDINGS) > 0:
        text = f"This check has {more} more findings. Solve these first, then check again."
        shown.append(Finding(text, Remedy("interlock doctor", Examine())))
    rows = []
    for message, do, subject in shown:
        row = {"check": check, "message": message, "do": do}
        rows.append(row if subject is None else row | {"subject": subject})
    return rows


def unmade(trouble: Exception) -> Finding:
    """The finding of a check that failed with an error."""
    why = shorten(str(trouble), 300, placeholder=" …") or type(trouble).__name__
    verify = Remedy("interlock audit verify", VerifyLog())
    return Finding(f"This check failed with an error: {why}", verify)


def in_order(findings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings of several checks, in the order of ORDER."""
    places = {check: place for place, check in enumerate(ORDER)}
    return sorted(findings, key=lambda finding: places.get(finding["check"], len(places)))
