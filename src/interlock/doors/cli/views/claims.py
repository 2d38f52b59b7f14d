"""Claims."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.parts import time
from interlock.verbs.answers import Answer


def _on(claim: Answer) -> str:
    return claim["item"] if "item" in claim else f"{' '.join(claim['paths'])} in {claim['repo']}"


def claim_line(claim: Answer) -> str:
    where = "".join(
        f"  {name} {claim[name]}" for name in ("branch", "worktree", "session") if name in claim
    )
    note = f"  {claim['note']}" if "note" in claim else ""
    return (
        f"{bold(_on(claim))}  {claim['holder']}  fence {claim['fence']}  until "
        f"{time(claim['expires_at'])}{where}{note}"
    )


def _acquired(answer: Answer) -> str:
    if not answer["acquired"]:
        held = [f"  {claim_line(claim)}" for claim in answer["held_by"]]
        return "\n".join([f"{yellow(answer['error'])}: {answer['message']}", *held])
    notices = [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]
    taken = f" (taken from {' '.join(answer['taken_from'])})" if "taken_from" in answer else ""
    return "\n".join([f"{green('Yours:')} {claim_line(answer['claim'])}{taken}", *notices])


def _renewed(answer: Answer) -> str:
    return f"{green('Renewed:')} {claim_line(answer['claim'])}"


def _released(answer: Answer) -> str:
    return green("Released.") if answer["released"] else "Nobody held it."


def _claims(answer: Answer) -> str:
    return "\n".join(claim_line(claim) for claim in answer["claims"]) or dim("Free.")


def _claim_list(answer: Answer) -> str:
    return "\n".join(claim_line(claim) for claim in answer["claims"]) or dim("No claims.")


VIEWS = {
    "claim acquire": _acquired,
    "claim take-over": _acquired,
    "claim renew": _renewed,
    "claim release": _released,
    "claim check": _claims,
    "claim list": _claim_list,
}
