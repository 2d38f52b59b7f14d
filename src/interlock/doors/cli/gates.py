"""Commands about gates, verdicts and blockers."""

from typing import Literal

from interlock.doors.cli.context import Context
from interlock.rooms.work.verbs import (
    GiveVerdict,
)
from interlock.verbs.answers import Answer


def give_pass(context: Context) -> Answer:
    return _give(context, "pass")


def give_fail(context: Context) -> Answer:
    return _give(context, "fail")


def _give(context: Context, verdict: Literal["pass", "fail"]) -> Answer:
    return context.call(
        GiveVerdict(
            context.values["task"],
            context.values["gate"],
            verdict,
            context.get("commit"),
            context.get("note"),
            tuple(context.get("fix", ())),
            tuple(context.get("evidence", ())),
            _tree(context.get("commit")),
        )
    )


def _tree(commit: str | None) -> str | None:
    """The tree of the commit that was looked at, where that is in the repository here."""
    if commit is None:
        return None
    from interlock.evidence import artifact

    found = artifact(commit)
    return found[1] if found is not None else None
