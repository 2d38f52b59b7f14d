"""What a step of a client comes to: what the node is asked, and what the client is told then.

It is a flow, because a command or a server may run it: it yields requests, is sent their answers,
and returns the words for the client.
"""

from collections.abc import Iterator
from typing import Any

from interlock.agents.hooks import NOTHING, Said, Step, client_of
from interlock.agents.hooks.memory import Memo, Memory
from interlock.rooms.identity.verbs import EndSession
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.answers import Answer
from interlock.verbs.flows import Flow

MAX_OWED = 5
SESSION_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-")


def session_of(given: str | None) -> str | None:
    """The client's own id of its session, or a digest of it where it is none that we take."""
    if not given:
        return None
    plain = given[0].isascii() and given[0].isalnum() and SESSION_LETTERS.issuperset(given)
    if plain and len(given) <= 128:
        return given
    from hashlib import sha256

    return sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def attending(
    client: str,
    event: str,
    step: Step,
    *,
    memory: Memory,
    window: dict[str, Any],
    until_ms: int | None = None,
    outlives: bool = False,
    unbound: bool = False,
) -> Flow[Said]:
    """`window` is what presence may know of the client; `until_ms` the moment until which it would
    hear what is said. A session that `outlives` the client's own does not end with it; of one that
    is `unbound`, the client's shell and tools do not know."""
    if step.kind == "other" and not step.forgets:
        return NOTHING
    memo = memory.recall()
    held = max(step.held, memo.held) if step.held else 0
    words = client_of(client).CONTEXT
    kind: Any = _kind(words, event, step, memo, outlives=outlives)
    told = []
    first = Attend(kind, client, held=held, window=window, until_ms=until_ms, unbound=unbound)
    for act in _acts(first, step):
        answer = yield act
        told.append(_said(kind, answer))
        for session in answer.get("lost", ()):
            yield EndSession(session)  # its client was killed, and cannot give up what it holds
    said, owed = _told_later(_together(told), memo.owed, takes_words=event in words)
    forgot = step.forgets or (memo.forgot and kind != "start")
    owed = owed if kind != "end" else ""
    if (now := Memo(held + 1 if said.hold is not None else 0, forgot, owed)) != memo:
        memory.keep(now)
    return said


def _kind(
    takes_words: frozenset[str], event: str, step: Step, memo: Memo, *, outlives: bool
) -> str:
    """The step as the node knows it. Where the client hands nothing on to the agent, nothing must
    count as told."""
    if step.kind == "end":
        return "busy" if outlives else "end"
    if step.kind in ("edit", "stop", "rest", "other"):
        return step.kind
    if event not in takes_words:
        return "busy"
    return "start" if memo.forgot else step.kind


def _acts(act: Attend, step: Step) -> Iterator[Attend]:
    """One thing; for an edit, one a worktree."""
    if act.step == "edit":
        from interlock.agents.hooks.edits import places

        for place in places(step):
            yield act._replace(paths=place.paths, repo=place.repo, worktree=place.worktree)
    elif step.kind != "other":
        yield act


def _said(kind: str, answer: Answer) -> Said:
    from interlock.agents.hooks.telling import said

    return said(kind, answer)


def _told_later(said: Said, owed: str, *, takes_words: bool) -> tuple[Said, str]:
    """What is said now, and what is left to be said once the client takes words: each line once."""
    lines = dict.fromkeys((*owed.splitlines(), *(said.context or "").splitlines()))
    if takes_words:
        return (said._replace(context="\n".join(lines)), "") if owed else (said, "")
    return said, "\n".join([*lines][:MAX_OWED])


def _together(told: list[Said]) -> Said:
    denials = [said.denial for said in told if said.denial is not None]
    contexts = [said.context for said in told if said.context is not None]
    hold = next((said.hold for said in told if said.hold is not None), None)
    return Said("\n".join(contexts) or None, "\n".join(denials) or None, hold)
