"""The rules of the review and of the log, for each kind of caller."""

import pytest

from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.mail.verbs import SendMessage
from interlock.rooms.workspace.verbs import Review, ShowLog
from interlock.verbs.credentials import Credentials
from world.workspace import OWNER, Workspace


@pytest.mark.parametrize("since_s", [0, -1, 10**17])
def test_a_review_refuses_a_period_out_of_bounds(workspace: Workspace, since_s: int) -> None:
    workspace.refused("USAGE", OWNER, Review(since_s))


def test_the_log_shows_each_caller_only_the_facts_it_may_read(workspace: Workspace) -> None:
    otto, vera, mira = (workspace.join(name) for name in ("otto", "vera", "mira"))
    workspace.call(otto, SendMessage("@vera", {"text": "between us"}, "send"))
    workspace.call(otto, AcquireClaim(item="B-1"))

    def seen(who: Credentials) -> set[str]:
        return {fact["kind"] for fact in workspace.call(who, ShowLog())["facts"]}

    assert "message_sent" in seen(otto) & seen(vera)
    assert "message_sent" not in seen(mira)
    assert "claim_granted" in seen(mira)
    assert "token_minted" not in seen(otto) | seen(mira)
    assert "message_sent" not in seen(workspace.join("ada", scopes=("admin",)))
    assert "token_minted" in seen(workspace.join("eva", scopes=("admin",)))
    assert {"token_minted", "message_sent"} <= seen(OWNER)
