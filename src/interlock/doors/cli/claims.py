"""Commands about claims."""

from typing import Any

from interlock.contracts import acts
from interlock.doors.cli.context import Answer, Context, absolute


def _target(context: Context) -> dict[str, Any]:
    if "path" not in context.values:
        return {"item": context.get("item"), "repo": context.get("repo")}
    from interlock.repository import name_and_paths

    repo, paths = name_and_paths(context.get("repo"), context.values["path"])
    return {"paths": paths, "repo": repo}


def _where(context: Context) -> dict[str, Any]:
    given = {name: context.get(name) for name in ("branch", "worktree", "note")}
    if given["worktree"] in (".", "./"):
        given["worktree"] = absolute(".")  # which would be another place to everybody else
    return given | _lease(context) | {"everywhere": context.get("everywhere", False)}


def _lease(context: Context) -> dict[str, Any]:
    return {"ttl_s": context.values["ttl"]} if "ttl" in context.values else {}


def acquire(context: Context) -> Answer:
    act = acts.AcquireClaim(**_target(context), **_where(context), wait_s=context.get("wait"))
    return context.call(act)


def renew(context: Context) -> Answer:
    given = _target(context) | _lease(context)
    return context.call(acts.RenewClaim(**given, fence=context.get("fence")))


def release(context: Context) -> Answer:
    return context.call(acts.ReleaseClaim(**_target(context), fence=context.get("fence")))


def check(context: Context) -> Answer:
    return context.call_as_owner(acts.CheckClaim(**_target(context)))


def list_claims(context: Context) -> Answer:
    if context.get("mine"):
        return context.call(acts.ListClaims(mine=True))
    return context.call_as_owner(acts.ListClaims())


def take_over(context: Context) -> Answer:
    return context.call(
        acts.TakeOverClaim(context.values["reason"], **_target(context), **_where(context))
    )
