"""Commands about gates, verdicts and blockers."""

from interlock.contracts import acts
from interlock.doors.cli.context import Answer, Context


def create(context: Context) -> Answer:
    act = acts.CreateGate(
        context.values["name"], tuple(context.values["holder"]), context.get("replace", False)
    )
    return context.call_as_owner(act)


def list_gates(context: Context) -> Answer:
    return context.call_as_owner(acts.ListGates())


def give_pass(context: Context) -> Answer:
    return _give(context, "pass")


def give_fail(context: Context) -> Answer:
    return _give(context, "fail")


def _give(context: Context, verdict: str) -> Answer:
    return context.call(
        acts.GiveVerdict(
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


def raise_blocker(context: Context) -> Answer:
    return context.call(
        acts.RaiseBlocker(
            context.text(context.values["text"]),
            context.values["task"],
            context.get("to"),
            context.get("severity", "stop"),
            tuple(context.get("fix", ())),
        )
    )


def resolve_blocker(context: Context) -> Answer:
    return context.call(acts.ResolveBlocker(context.values["id"], context.get("note")))


def list_blockers(context: Context) -> Answer:
    return context.call_as_owner(acts.ListBlockers(context.get("task"), context.get("all", False)))
