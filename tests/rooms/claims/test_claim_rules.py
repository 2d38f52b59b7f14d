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


def test_acquiring_again_extends_the_lease_and_keeps_omitted_fields(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    request = AcquireClaim(item="B-1", branch="main", worktree="/w", note="n", ttl_s=600)
    first = workspace.call(otto, request)["claim"]
    workspace.ms += MINUTE
    again = workspace.call(otto, AcquireClaim(item="B-1", note="m", ttl_s=60))["claim"]
    assert again == first | {"note": "m"}, "a lease does not get shorter"
    longer = workspace.call(otto, AcquireClaim(item="B-1", ttl_s=3600))["claim"]
    assert longer == first | {"note": "m", "expires_at": "2033-05-18T04:34:20.000Z"}


def test_second_holder_in_one_worktree_gets_a_warning(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    assert "notices" not in workspace.call(otto, AcquireClaim(item="B-1", worktree="/w"))
    (notice,) = workspace.call(vera, AcquireClaim(item="B-2", worktree="/w"))["notices"]
    assert (notice["code"], notice["claim"]["item"]) == ("SHARED_WORKTREE", "B-1")


def test_globs_conflict_in_both_directions_within_one_repository(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, AcquireClaim(paths=("src/a.py", "doc/a*.md"), repo="r"))
    for path in ("src/**", "src/*.py", "doc/*.md", "**"):
        answer = workspace.call(vera, AcquireClaim(paths=(path,), repo="r"))
        assert answer["acquired"] is False, path
        assert answer["held_by"][0]["paths"] == ["doc/a*.md", "src/a.py"]
    for path, repo in (("src/b.py", "r"), ("src/**", "other")):
        assert workspace.call(vera, AcquireClaim(paths=(path,), repo=repo))["acquired"], path


def test_waiters_get_the_claim_in_order_and_before_new_callers(workspace: Workspace) -> None:
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


def test_a_dead_waiter_is_skipped_and_a_claim_granted_to_it_expires(
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


def test_acquiring_one_item_keeps_the_place_in_another_queue(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(vera, AcquireClaim(item="B-2"))
    workspace.call(otto, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@vera"


def test_own_claim_on_one_file_does_not_block_waiting_for_its_directory(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(vera, AcquireClaim(paths=("src/b.py",), repo="r"))
    workspace.call(otto, AcquireClaim(paths=("src/a.py",), repo="r"))
    workspace.node.call_once(otto, AcquireClaim(paths=("src/**",), repo="r", wait_s=600))
    workspace.call(vera, ReleaseClaim(paths=("src/b.py",), repo="r"))
    found = workspace.call(OWNER, CheckClaim(paths=("src/**",), repo="r"))["claims"]
    assert {claim["holder"] for claim in found} == {"@otto"}
    assert sorted(claim["paths"] for claim in found) == [["src/**"], ["src/a.py"]]


@pytest.mark.parametrize(
    "request_made",
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
    ids=lambda request: type(request).__name__,
)
def test_a_name_with_a_lone_surrogate_is_refused(workspace: Workspace, request_made: Any) -> None:
    caller = workspace.join("vera") if isinstance(request_made, Attend) else OWNER
    workspace.refused("USAGE", caller, request_made)


def test_a_waiter_does_not_block_its_own_other_requests(workspace: Workspace) -> None:
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


def test_ending_a_session_releases_its_claims_and_leaves_its_queues(workspace: Workspace) -> None:
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


def test_a_live_session_renews_a_claim_when_half_of_the_lease_is_over(workspace: Workspace) -> None:
    otto = workspace.join("otto")._replace(session="s1")
    workspace.call(otto, AcquireClaim(item="B-1", ttl_s=100))
    workspace.ms += 50_000
    before = workspace.head()
    workspace.call(otto, KeepSession("s1"))
    assert workspace.head() == before
    workspace.ms += 1
    renewed = workspace.call(otto, KeepSession("s1"))["claims"]
    assert workspace.head() == before + 1
    workspace.ms += 99_999
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"] == renewed


def test_a_person_takes_over_a_claim_and_the_former_holder_gets_mail(workspace: Workspace) -> None:
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


def test_taking_over_a_claim_leaves_its_queue(workspace: Workspace) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira", kind="human")
    workspace.call(otto, AcquireClaim(item="B-1"))
    workspace.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    workspace.call(mira, TakeOverClaim("the build is red", item="B-1"))
    workspace.call(mira, ReleaseClaim(item="B-1"))
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False


def test_paths_that_a_takeover_frees_go_to_the_next_waiter(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    mira = workspace.join("mira", kind="human")
    workspace.call(otto, AcquireClaim(paths=("src/**",), repo="r"))
    workspace.node.call_once(vera, AcquireClaim(paths=("src/b.py",), repo="r", wait_s=600))
    workspace.call(mira, TakeOverClaim("mine", paths=("src/a.py",), repo="r"))
    found = workspace.call(OWNER, CheckClaim(paths=("src/b.py",), repo="r"))["claims"]
    assert [claim["holder"] for claim in found] == ["@vera"]


def test_more_leases_can_end_at_once_than_one_sweep_records(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    for number in range(450):
        workspace.call(otto, AcquireClaim(item=f"B-{number}", ttl_s=60 + number))
    workspace.node.call_once(vera, AcquireClaim(item="B-449", wait_s=3600))
    workspace.ms += 3_600_000
    assert workspace.call(vera, Whoami())["sender"] == "vera"
    for number in (0, 448, 449):
        assert workspace.call(vera, AcquireClaim(item=f"B-{number}"))["acquired"]


def test_an_ended_session_cannot_acquire_a_claim(workspace: Workspace) -> None:
    otto = workspace.join("otto")._replace(session="s1")
    workspace.call(otto, StartSession("s1"))
    workspace.call(otto, EndSession("s1"))
    workspace.refused("NOT_HOLDER", otto, AcquireClaim(item="B-1"))


def test_a_sender_cannot_claim_in_another_senders_session(workspace: Workspace) -> None:
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


def test_whoami_lists_this_sessions_claims_and_a_refusal_names_the_other_session(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    workspace.call(otto, AcquireClaim(item="B-1"))
    inside = otto._replace(session="s1")
    workspace.call(inside, StartSession("s1"))
    assert workspace.call(inside, Whoami())["claims"] == []
    assert len(workspace.call(otto, Whoami())["claims"]) == 1
    message = workspace.call(inside, AcquireClaim(item="B-1"))["message"]
    assert "@otto without a session (your session is s1)" in message
