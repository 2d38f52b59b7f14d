"""What one call looks through in part: asked for again, from where it stopped, until there is
enough. The steps are taken as those of uploads are."""

from collections.abc import Generator
from typing import Any

from interlock.contracts.acts import ShowLog

Answer = dict[str, Any]


def steps(act: ShowLog) -> Generator[ShowLog, Answer, Answer]:
    """Yields the acts to be asked for, and returns the first facts that were wanted."""
    answer = yield act
    facts = list(answer["facts"])
    while len(facts) < act.limit and "next" in answer:
        answer = yield act._replace(after=answer["next"], limit=act.limit - len(facts))
        facts += answer["facts"]
    return answer | {"facts": facts}
