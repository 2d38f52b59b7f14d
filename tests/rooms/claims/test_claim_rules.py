"""The rules of claims: holders, leases, queues, sessions and take-overs."""

from typing import Any

import pytest

from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    ListClaims,
    ReleaseClaim,
    TakeOverClaim,
)
from interlock.rooms.identity.verbs import (
    EndSession,
    IdentifyToken,
    KeepSession,
    MintToken,
    Mute,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    StartSession,
)
from interlock.rooms.people.verbs import Invite
from interlock.rooms.workspace.verbs import Attend, Whoami
from world.workspace import MINUTE, OWNER, Workspace


def test_two_sessions_of_one_sender_are_two_holders(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    first, second = otto._replace(session="s1"), otto._replace(session="s2")
    workspace.call(first, AcquireClaim(item="B-1"))
    for other in (second, otto):
        assert workspace.call(other, AcquireClaim(item="B-1"))["acquired"] is False
        workspace.refused("NOT_HOLDER", other, ReleaseClaim(item="B-1"))
    assert workspace.call(first, ReleaseClaim(item="B-1")) == {"released": True}
    assert workspace.call(first, ReleaseClaim(item="B-1")) == {"released": False}


def test_asking_again_extends_and_keeps_what_is_not_mentioned(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    act = AcquireClaim(item="B-1", branch="main", worktree="/w", note="n", ttl_s=600)
    first = workspace.call(otto, act)["claim"]
    workspace.ms += MINUTE
    again = workspace.call(otto, AcquireClaim(item="B-1", note="m", ttl_s=60))["claim"]
    assert again == first | {"note": "m"}, "a lease does not get shorter"
    longer = workspace.call(otto, AcquireClaim(item="B-1", ttl_s=3600))["claim"]
    assert longer == first | {"note": "m", "expires_at": "2033-05-18T04:34:20.000Z"}


def test_two_holders_in_one_worktree_are_warned(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    assert "notices" not in workspace.call(otto, AcquireClaim(item="B-1", worktree="/w"))
    (notice,) = workspace.call(vera, AcquireClaim(item="B-2", worktree="/w"))["notices"]
    assert (notice["code"], notice["claim"]["item"]) == ("SHARED_WORKTREE", "B-1")


def test_paths_meet_both_ways_within_one_repository(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, AcquireClaim(paths=("src/a.py", "doc/a*.md"), repo="r"))
    for path in ("src/**", "src/*.py", "doc/*.md", "**"):
        answer = workspace.call(vera, AcquireClaim(paths=(path,), repo="r"))
        assert answer["acquired"] is False, path
        assert answer["held_by"][0]["paths"] == ["doc/a*.md", "src/a.py"]
    for path, repo in (("src/b.py", "r"), ("src/**", "other")):
        assert workspace.call(vera, AcquireClaim(paths=(path,), repo=repo))["acquired"], path


def test_waiters_are_served_in_order_and_nobody_overtakes(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(otto, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@vera"
    workspace.call(vera, AcquireClaim(item="B-1"))
    assert workspace.call(otto, AcquireClaim(item="B-1"))["queued"] == 1
    workspace.call(vera, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@mira"


def test_a_waiter_that_died_is_passed_over_and_what_it_got_is_free_again(
    workspace: Workspace,
) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    workspace.ms += 31_000
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(otto, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@mira"
    workspace.ms += 31_000
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False


def test_acquiring_one_thing_keeps_the_place_in_another_queue(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(vera, AcquireClaim(item="B-2"))
    workspace.call(otto, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@vera"


def test_holding_a_part_is_not_in_the_way_of_waiting_for_the_whole(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(vera, AcquireClaim(paths=("src/b.py",), repo="r"))
    workspace.call(otto, AcquireClaim(paths=("src/a.py",), repo="r"))
    workspace.node.call_once(otto, AcquireClaim(paths=("src/**",), repo="r", wait_s=600))
    workspace.call(vera, ReleaseClaim(paths=("src/b.py",), repo="r"))
    found = workspace.call(OWNER, CheckClaim(paths=("src/**",), repo="r"))["claims"]
    assert {claim["holder"] for claim in found} == {"@otto"}
    assert sorted(claim["paths"] for claim in found) == [["src/**"], ["src/a.py"]]


@pytest.mark.parametrize(
    "act",
    [
        MintToken("\udcff"),
        RevokeToken(sender="\udcff"),
        RotateToken(sender="\udcff"),
        ReaffirmTokens(id="\udcff"),
        IdentifyToken("\udcff"),
        Invite("\udcff"),
        Mute("\udcff"),
        Attend("tool", "cli", window={"name": "\udcff"}),
    ],
    ids=lambda act: type(act).__name__,
)
def test_what_is_no_text_names_nothing(workspace: Workspace, act: Any) -> None:
    workspace.refused("USAGE", workspace.join("vera") if isinstance(act, Attend) else OWNER, act)


def test_nobody_stands_in_their_own_way_by_what_they_wait_for(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(vera, AcquireClaim(paths=("src/b.py",), repo="r"))
    workspace.node.call_once(otto, AcquireClaim(paths=("src/**",), repo="r", wait_s=600))
    assert workspace.call(mira, AcquireClaim(paths=("src/a.py",), repo="r"))["acquired"] is False
    assert workspace.call(otto, AcquireClaim(paths=("src/a.py",), repo="r"))["acquired"] is True
    workspace.call(vera, AcquireClaim(paths=("lib/c.py",), repo="r"))
    workspace.node.call_once(otto, AcquireClaim(paths=("lib/**", "src/b.py"), repo="r", wait_s=600))
    workspace.node.call_once(otto, AcquireClaim(paths=("lib/c.py",), repo="r", wait_s=600))
    workspace.call(vera, ReleaseClaim(paths=("lib/c.py",), repo="r"))
    held = workspace.call(OWNER, CheckClaim(paths=("lib/c.py",), repo="r"))["claims"]
    assert [claim["holder"] for claim in held] == ["@otto"]


def test_a_session_that_ends_gives_up_its_claims_and_its_place(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    first = otto._replace(session="s1")
    workspace.call(first, StartSession("s1"))
    workspace.call(first, AcquireClaim(item="B-1"))
    workspace.call(otto, AcquireClaim(item="B-2"))
    workspace.call(vera, AcquireClaim(item="B-3"))
    workspace.node.call_once(first, AcquireClaim(item="B-3", wait_s=600))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    answer = workspace.call(otto, EndSession("s1"))
    assert [claim["item"] for claim in answer["released"]] == ["B-1"]
    workspace.call(vera, ReleaseClaim(item="B-3"))
    held = {c["item"]: c["holder"] for c in workspace.call(OWNER, ListClaims())["claims"]}
    assert held == {"B-1": "@mira", "B-2": "@otto"}


def test_a_living_session_keeps_its_claims_below_half_of_the_lease(workspace: Workspace) -> None:
    otto = workspace.join("otto")._replace(session="s1")
    workspace.call(otto, AcquireClaim(item="B-1", ttl_s=100))
    workspace.ms += 50_000
    before = workspace.head()
    workspace.call(otto, KeepSession("s1"))
    assert workspace.head() == before
    workspace.ms += 1
    told = workspace.call(otto, KeepSession("s1"))["claims"]
    assert workspace.head() == before + 1
    workspace.ms += 99_999
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"] == told, (
        "it says what it has done"
    )


def test_a_person_takes_a_claim_over_and_the_holder_is_told(workspace: Workspace) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira", kind="human")
    old = workspace.call(otto, AcquireClaim(item="B-1"))["claim"]["fence"]
    workspace.refused(
        "MISSING_SCOPE", workspace.join("vera"), TakeOverClaim("I want it", item="B-1")
    )
    answer = workspace.call(mira, TakeOverClaim("the build is red", item="B-1"))
    assert (answer["acquired"], answer["taken_from"]) == (True, ["@otto"])
    assert answer["claim"]["fence"] > old
    (text,) = workspace.texts(otto)
    assert text == f"Your claim on B-1 (fence {old}) was taken over by @mira: the build is red"
    workspace.refused("STALE_FENCE", otto, ReleaseClaim(item="B-1", fence=old))
    workspace.refused("NOT_FOUND", mira, TakeOverClaim("why not", item="B-2"))


def test_who_took_over_what_it_waited_for_waits_no_more(workspace: Workspace) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira", kind="human")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(mira, TakeOverClaim("the build is red", item="B-1"))
    workspace.call(mira, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False


def test_what_a_take_over_frees_beside_its_target_goes_to_the_queue(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    mira = workspace.join("mira", kind="human")
    workspace.call(otto, AcquireClaim(paths=("src/**",), repo="r"))
    workspace.node.call_once(vera, AcquireClaim(paths=("src/b.py",), repo="r", wait_s=600))
    workspace.call(mira, TakeOverClaim("mine", paths=("src/a.py",), repo="r"))
    found = workspace.call(OWNER, CheckClaim(paths=("src/b.py",), repo="r"))["claims"]
    assert [claim["holder"] for claim in found] == ["@vera"]


def test_more_leases_may_end_at_once_than_are_swept_at_once(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    for number in range(450):
        workspace.call(otto, AcquireClaim(item=f"B-{number}", ttl_s=60 + number))
    workspace.node.call_once(vera, AcquireClaim(item="B-449", wait_s=3600))
    workspace.ms += 3_600_000
    assert workspace.call(vera, Whoami())["sender"] == "vera"
    for number in (0, 448, 449):
        assert workspace.call(vera, AcquireClaim(item=f"B-{number}"))["acquired"]


def test_a_session_that_has_ended_holds_nothing_any_more(workspace: Workspace) -> None:
    otto = workspace.join("otto")._replace(session="s1")
    workspace.call(otto, StartSession("s1"))
    workspace.call(otto, EndSession("s1"))
    workspace.refused("NOT_HOLDER", otto, AcquireClaim(item="B-1"))


def test_a_sender_cannot_claim_in_the_session_of_another(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto._replace(session="s1"), StartSession("s1"))
    workspace.refused("IDENTITY_MISMATCH", vera._replace(session="s1"), AcquireClaim(item="B-1"))


def test_a_caller_whose_wait_ends_without_a_grant_holds_nothing(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, AcquireClaim(item="B-1"))
    answer = workspace.call(vera, AcquireClaim(item="B-1", wait_s=1))
    assert not answer["acquired"]
    workspace.call(otto, ReleaseClaim(item="B-1"))
    assert not workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"]


def test_whoami_lists_what_this_session_holds_and_a_refusal_names_the_other(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    workspace.call(otto, AcquireClaim(item="B-1"))
    inside = otto._replace(session="s1")
    workspace.call(inside, StartSession("s1"))
    assert workspace.call(inside, Whoami())["claims"] == []
    assert len(workspace.call(otto, Whoami())["claims"]) == 1
    assert (
        "in no session, which is not this one"
        in (workspace.call(inside, AcquireClaim(item="B-1"))["message"])
    )
