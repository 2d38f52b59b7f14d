"""The rules of waking: which client is told of which mail, when, and how often."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import errors
from interlock.local.windows import about
from interlock.machine.processes import is_stopped, process_of
from interlock.node import upkeep
from interlock.node import wake_ups as dispatching
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ListClaims, ReleaseClaim
from interlock.rooms.identity.verbs import FindSession, ListAgents, Mute, StartSession
from interlock.rooms.mail.verbs import AckMessages, ListInbox, ReadMessage
from interlock.rooms.work.verbs import RaiseBlocker, ResolveBlocker
from interlock.rooms.workspace.verbs import Attend, ChangeSetting, Pause, Resume
from world.commandline import until
from world.wake_workspace import WakeWorkspace, this_window
from world.workspace import HOUR, MINUTE, OWNER, SECOND


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WakeWorkspace]:
    """A workspace whose clients report their steps, open until the test ends."""
    with WakeWorkspace(tmp_path) as workspace:
        yield workspace


URGENT: dict[str, dict[str, Any]] = {
    "ask": {"type": "ask", "payload": {"question": "well?"}},
    "blocker": {"type": "blocker", "payload": {"what": "it is red", "severity": "stop"}},
    "command": {"type": "command", "payload": {"command": "make", "why": "to know"}},
    "wake": {"type": "wake", "payload": {"text": "look"}},
    "high": {"priority": "high"},
    "critical": {"priority": "critical"},
}


# --- a working agent


@pytest.mark.parametrize("step", ["start", "prompt", "tool"])
def test_a_working_agent_is_told_of_new_mail_once(workspace: WakeWorkspace, step: str) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto, step) == [sent]
    assert workspace.history(workspace.vera, sent) == [("accepted", None), ("woken", "test")]
    head = workspace.head()
    for again in ("start", "prompt", "tool", "idle"):
        assert "news" not in workspace.step(workspace.otto, again)
    assert workspace.head() == head, "a step without new mail writes nothing"


def test_news_contains_no_text_of_the_message(workspace: WakeWorkspace) -> None:
    workspace.send(workspace.vera, "@otto-cli", subject="a line")
    (news,) = workspace.step(workspace.otto, "prompt")["news"]
    assert news["from"] == "@vera"
    assert "payload" not in news


def test_a_step_tells_of_all_new_mail_at_once_and_in_order(workspace: WakeWorkspace) -> None:
    sent = [workspace.send(workspace.vera, to) for to in ("@otto", "@otto-cli", "AGENT:*", "@otto")]
    assert workspace.told(workspace.otto) == sent
    assert len(workspace.facts("mail_moved")) == 1


@pytest.mark.parametrize("step", ["edit", "busy", "rest", "end"])
def test_some_steps_tell_of_no_mail_and_mark_none(workspace: WakeWorkspace, step: str) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli", **URGENT["ask"])
    where = {"paths": ("a",), "repo": "r"} if step == "edit" else {}
    answer = workspace.step(workspace.otto, step, **where)
    assert answer["unread"] == 1
    assert not {"news", "messages"} & answer.keys()
    assert workspace.history(workspace.vera, sent) == [("accepted", None)]


def test_a_step_does_not_tell_of_mail_that_was_shown_read_or_acked(
    workspace: WakeWorkspace,
) -> None:
    shown, read, acked = (workspace.send(workspace.vera, "@otto-cli") for _ in range(3))
    workspace.call(workspace.otto, ReadMessage(read))
    workspace.call(workspace.otto, AckMessages((acked,)))
    workspace.call(workspace.otto, ListInbox())
    assert workspace.history(workspace.vera, shown)[-1][0] == "shown"
    assert workspace.told(workspace.otto) == workspace.told(workspace.otto, "idle") == []
    assert workspace.begin("otto-cli") is None


def test_only_the_first_surface_is_told_of_mail_for_the_agent(workspace: WakeWorkspace) -> None:
    both, mine = (
        workspace.send(workspace.vera, "@otto"),
        workspace.send(workspace.vera, "@otto-desktop"),
    )
    assert workspace.told(workspace.otto) == [both]
    assert workspace.told(workspace.desktop) == [mine]


def test_a_sender_without_the_mail_scope_is_told_of_no_mail(workspace: WakeWorkspace) -> None:
    lena = workspace.join("lena", scopes=("claim",))
    sent = workspace.send(workspace.vera, "@lena", **URGENT["ask"])
    assert workspace.told(lena) == workspace.told(lena, "idle") == workspace.handed(lena) == []
    assert workspace.history(workspace.vera, sent) == [("accepted", None)]


def test_a_paused_workspace_tells_of_no_mail_and_loses_none(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli", **URGENT["ask"])
    window = workspace.otto._replace(session="s-1")
    workspace.call(window, AcquireClaim("B-1"))
    workspace.call(OWNER, Pause())
    head = workspace.head()
    for step in ("start", "prompt", "tool", "idle", "stop", "end"):
        answer = workspace.step(window, step)
        assert answer["paused"] is True
        assert not {"news", "messages"} & answer.keys()
    assert workspace.begin("otto-cli") is None
    assert workspace.head() == head
    workspace.call(OWNER, Resume())
    assert workspace.told(workspace.otto) == [sent]


# --- before a stop


@pytest.mark.parametrize("kind", URGENT)
def test_urgent_mail_is_handed_over_once_before_a_stop(workspace: WakeWorkspace, kind: str) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli", **URGENT[kind])
    (message,) = workspace.step(workspace.otto, "stop")["messages"]
    assert (message["id"], "payload" in message) == (sent, True)
    told = [("accepted", None), ("woken", "test"), ("shown", "test")]
    assert workspace.history(workspace.vera, sent) == told
    assert workspace.handed(workspace.otto, held=1) == []
    assert workspace.told(workspace.otto) == []


def test_only_urgent_mail_is_handed_over_before_a_stop(workspace: WakeWorkspace) -> None:
    sent = [workspace.send(workspace.vera, "@otto-cli", priority=p) for p in ("low", "normal")]
    assert workspace.handed(workspace.otto) == []
    assert workspace.told(workspace.otto) == sent


def test_urgent_mail_that_was_told_but_not_shown_is_still_handed_over(
    workspace: WakeWorkspace,
) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli", **URGENT["ask"])
    assert workspace.told(workspace.otto) == [sent]
    assert workspace.handed(workspace.otto) == [sent]
    told = [("accepted", None), ("woken", "test"), ("shown", "test")]
    assert workspace.history(workspace.vera, sent) == told


def test_a_stop_hands_over_at_most_five_messages(workspace: WakeWorkspace) -> None:
    sent = [workspace.send(workspace.vera, "@otto", **URGENT["ask"]) for _ in range(7)]
    assert workspace.handed(workspace.otto) == sent[:5]
    assert workspace.handed(workspace.otto, held=1) == sent[5:]
    assert workspace.handed(workspace.otto, held=2) == []


@pytest.mark.parametrize("end", ["acked", "resolved"])
def test_a_blocker_is_handed_over_at_each_stop_until_it_is_acked_or_resolved(
    workspace: WakeWorkspace, end: str
) -> None:
    raised = workspace.call(workspace.vera, RaiseBlocker("it is red", to="@otto-cli"))["blocker"][
        "id"
    ]
    for _ in range(3):
        assert workspace.handed(workspace.otto) == [raised]
        assert workspace.handed(workspace.otto, held=1) == []
    assert len(workspace.history(workspace.vera, raised)) == 3
    workspace.call(workspace.otto, ReadMessage(raised))
    assert workspace.handed(workspace.otto) == [raised], "reading a blocker does not resolve it"
    if end == "acked":
        workspace.call(workspace.otto, AckMessages((raised,)))
    else:
        workspace.call(workspace.vera, ResolveBlocker(raised))
    assert workspace.handed(workspace.otto) == []


def test_no_mail_is_handed_over_after_four_held_stops_in_a_row(
    workspace: WakeWorkspace,
) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli", **URGENT["ask"])
    assert workspace.handed(workspace.otto, held=4) == []
    assert workspace.history(workspace.vera, sent) == [("accepted", None)]
    assert workspace.handed(workspace.otto, held=3) == [sent]


def test_a_long_text_is_handed_over_in_part_and_a_long_command_without_its_text(
    workspace: WakeWorkspace,
) -> None:
    long = "x" * 1001
    workspace.send(workspace.vera, "@otto-cli", priority="high", payload={"text": long})
    command = {"command": long, "why": "to know"}
    workspace.send(workspace.vera, "@otto-cli", type="command", payload=command)
    text, order = workspace.step(workspace.otto, "stop")["messages"]
    assert (text["part"], text["payload"]["text"], text["size"]) == (True, long[:1000], 1001)
    assert order["part"] is True
    assert not order.get("payload", {}).get("command")


# --- an idle agent


def test_direct_mail_wakes_an_idle_agent(workspace: WakeWorkspace) -> None:
    sent = [workspace.send(workspace.vera, to) for to in ("@otto-cli", "@otto")]
    assert workspace.told(workspace.otto, "idle") == sent


def test_the_sender_can_request_or_prevent_a_wake(
    workspace: WakeWorkspace,
) -> None:
    quiet = [
        workspace.send(workspace.vera, "AGENT:*"),
        workspace.send(workspace.vera, "@otto", wake=False),
    ]
    assert workspace.told(workspace.otto, "idle") == []
    assert workspace.begin("otto-cli") is None
    loud = workspace.send(workspace.vera, "AGENT:*", wake=True)
    assert workspace.told(workspace.otto, "idle") == [loud]
    assert workspace.told(workspace.otto) == quiet, "a working agent is told of all mail"


def test_an_ack_wakes_no_agent(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    workspace.call(workspace.otto, AckMessages((sent,), note="done"))
    assert workspace.told(workspace.vera, "idle") == []
    assert workspace.begin("vera") is None


def test_an_agent_is_not_woken_again_within_the_quiet_time(
    workspace: WakeWorkspace,
) -> None:
    first = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto, "idle") == [first]
    more = [workspace.send(workspace.vera, to) for to in ("@otto", "@otto-cli")]
    workspace.ms += 10 * SECOND - 1
    assert workspace.told(workspace.otto, "idle") == []
    assert workspace.begin("otto-cli") is None
    workspace.ms += 1
    assert workspace.told(workspace.otto, "idle") == more


def test_the_quiet_time_does_not_delay_mail_for_a_working_agent(workspace: WakeWorkspace) -> None:
    workspace.send(workspace.vera, "@otto-cli")
    workspace.told(workspace.otto, "idle")
    more = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto) == [more]


def test_a_setting_changes_the_quiet_time(workspace: WakeWorkspace) -> None:
    workspace.call(OWNER, ChangeSetting("wake.quiet_s", "0"))
    for _ in range(2):
        sent = workspace.send(workspace.vera, "@otto-cli")
        assert workspace.told(workspace.otto, "idle") == [sent]
    workspace.call(OWNER, ChangeSetting("wake.quiet_s", "86400"))
    workspace.send(workspace.vera, "@otto-cli")
    workspace.ms += HOUR
    assert workspace.told(workspace.otto, "idle") == []


def test_mail_older_than_an_hour_wakes_no_agent(workspace: WakeWorkspace) -> None:
    old = workspace.send(workspace.vera, "@otto-cli")
    workspace.ms += HOUR
    assert workspace.is_due("otto-cli")
    workspace.ms += 1
    assert not workspace.is_due("otto-cli")
    assert workspace.told(workspace.otto, "idle") == []
    assert workspace.begin("otto-cli") is None
    young = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto, "idle") == [young]
    assert workspace.told(workspace.otto) == [old], "a working agent is told of old mail"


# --- muting


@pytest.mark.parametrize("name", [None, "otto-cli", "@otto-cli", "otto", "@otto"])
def test_a_muted_sender_or_agent_is_not_woken(workspace: WakeWorkspace, name: str | None) -> None:
    workspace.call(workspace.otto, Mute(name))
    sent = workspace.send(workspace.vera, "@otto-cli", wake=True, priority="critical")
    assert workspace.told(workspace.otto, "idle") == []
    assert workspace.begin("otto-cli") is None
    workspace.ms += MINUTE
    assert not workspace.is_due("otto-cli")
    assert workspace.told(workspace.otto) == [sent], "a muted agent still gets its mail"


def test_muting_one_surface_does_not_mute_the_other(workspace: WakeWorkspace) -> None:
    workspace.call(workspace.otto, Mute())
    sent = workspace.send(workspace.vera, "@otto")
    assert workspace.told(workspace.otto, "idle") == []
    assert workspace.told(workspace.desktop, "idle") == [sent]


def test_the_list_of_agents_shows_which_are_muted(workspace: WakeWorkspace) -> None:
    workspace.call(workspace.otto, Mute("otto"))
    workspace.call(workspace.vera, Mute(ttl_s=60))
    agents = workspace.call(OWNER, ListAgents())["agents"]
    muted = [agent["address"] for agent in agents if agent.get("muted")]
    assert muted == ["@otto-cli", "@otto-desktop", "@vera"]
    workspace.ms += MINUTE
    agents = workspace.call(OWNER, ListAgents())["agents"]
    assert [agent["address"] for agent in agents if agent.get("muted")] == muted[:2]


def test_a_mute_ends_after_its_time_or_when_it_is_turned_off(workspace: WakeWorkspace) -> None:
    until = workspace.call(workspace.otto, Mute(ttl_s=60))
    assert until == {"address": "@otto-cli", "muted": True, "until": "2033-05-18T03:34:20.000Z"}
    sent = workspace.send(workspace.vera, "@otto-cli")
    workspace.ms += MINUTE - 1
    assert workspace.told(workspace.otto, "idle") == []
    workspace.ms += 1
    assert workspace.told(workspace.otto, "idle") == [sent]
    assert workspace.call(workspace.otto, Mute()) == {"address": "@otto-cli", "muted": True}
    workspace.ms += 300 * 24 * HOUR
    later = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto, "idle") == []
    workspace.call(workspace.otto, Mute(off=True))
    assert workspace.told(workspace.otto, "idle") == [later]


def test_only_a_person_or_an_admin_can_mute_another_agent(workspace: WakeWorkspace) -> None:
    admin = workspace.join("boss", scopes=("admin",))
    for by in (workspace.mira, admin, OWNER):
        assert workspace.call(by, Mute("vera"))["address"] == "@vera"
    for name in ("vera", "otto-desktop", "mira"):
        with pytest.raises(errors.MissingScope):
            workspace.call(workspace.otto, Mute(name))
    with pytest.raises(errors.NotFound) as caught:
        workspace.call(workspace.mira, Mute("verra"))
    assert caught.value.as_dict()["did_you_mean"] == ["@vera"]


# --- wakes by an adapter


def test_an_adapter_waits_a_few_seconds_before_it_wakes(workspace: WakeWorkspace) -> None:
    workspace.send(workspace.vera, "@otto-cli")
    workspace.ms += 3 * SECOND - 1
    assert not workspace.is_due("otto-cli")
    workspace.ms += 1
    assert workspace.is_due("otto-cli")


def test_a_paused_workspace_wakes_no_agent(workspace: WakeWorkspace) -> None:
    workspace.send(workspace.vera, "@otto-cli")
    workspace.ms += MINUTE
    assert workspace.is_due("otto-cli")
    workspace.call(OWNER, Pause())
    assert not workspace.is_due("otto-cli")


def test_only_one_adapter_at_a_time_wakes_for_a_message(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    begun = workspace.begin("otto-cli")
    assert begun is not None
    assert ([message["id"] for message in begun.news], begun.unread) == ([sent], 1)
    assert workspace.begin("otto-cli") is None
    assert workspace.told(workspace.otto, "idle") == workspace.told(workspace.otto) == []
    (tried,) = workspace.receipt(workspace.vera, sent)["wakes"]
    assert (tried["adapter"], tried["outcome"]) == ("outside", "begun")
    more = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.told(workspace.otto) == [more], (
        "a wake in progress concerns only its own messages"
    )


def test_a_successful_wake_writes_a_receipt_and_starts_the_quiet_time(
    workspace: WakeWorkspace,
) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    assert workspace.woken("otto-cli", "woken") == [sent]
    assert workspace.history(workspace.vera, sent) == [("accepted", None), ("woken", "outside")]
    assert workspace.told(workspace.otto) == []
    workspace.send(workspace.vera, "@otto-cli")
    assert workspace.begin("otto-cli") is None
    workspace.ms += 10 * SECOND
    assert workspace.begin("otto-cli") is not None


def test_a_failed_wake_is_tried_at_most_three_times(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    for _ in range(3):
        assert workspace.woken("otto-cli", "failed", "it is busy") == [sent]
    assert workspace.begin("otto-cli") is None
    assert workspace.told(workspace.otto, "idle") == []
    tried = workspace.receipt(workspace.vera, sent)["wakes"]
    assert [(one["outcome"], one["why"]) for one in tried] == [("failed", "it is busy")] * 3
    assert workspace.history(workspace.vera, sent) == [("accepted", None)]
    assert workspace.told(workspace.otto) == [sent], "a working agent is told of it"


def test_a_wake_without_an_outcome_becomes_unknown_and_is_not_repeated(
    workspace: WakeWorkspace,
) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    begun = workspace.begin("otto-cli")
    assert begun is not None
    workspace.ms += MINUTE - 1
    assert not workspace.node.is_due()
    workspace.ms += 1
    assert workspace.node.is_due()
    (tried,) = workspace.receipt(workspace.vera, sent)["wakes"]
    assert tried["outcome"] == "unknown"
    assert workspace.history(workspace.vera, sent) == [("accepted", None)]
    dispatching.end(workspace.node, begun, "otto-cli", "woken")
    (ended,) = workspace.facts("wake_ended")
    assert ended["outcome"]["outcome"] == "unknown", "a late outcome is ignored"
    assert workspace.begin("otto-cli") is None
    assert workspace.told(workspace.otto, "idle") == []


def test_a_step_tells_of_mail_whose_wake_has_an_unknown_outcome(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    workspace.woken("otto-cli", "unknown", "it took too long")
    assert workspace.told(workspace.otto) == [sent]
    assert workspace.told(workspace.otto) == []


def test_mail_that_was_read_during_a_wake_stays_read(workspace: WakeWorkspace) -> None:
    sent = workspace.send(workspace.vera, "@otto-cli")
    begun = workspace.begin("otto-cli")
    assert begun is not None
    workspace.call(workspace.otto, ReadMessage(sent))
    dispatching.end(workspace.node, begun, "otto-cli", "woken")
    assert workspace.receipt(workspace.vera, sent)["state"] == "read"
    assert workspace.call(workspace.otto, Attend("tool", "test"))["unread"] == 0
    assert upkeep.rebuild(workspace.node, OWNER)["changed"] is False


# --- claims of a session


def test_a_step_renews_the_sessions_claims_below_half_of_the_lease(
    workspace: WakeWorkspace,
) -> None:
    window = workspace.otto._replace(session="s-1")
    workspace.call(window, AcquireClaim("B-1", ttl_s=100))
    workspace.ms += 50 * SECOND
    head = workspace.head()
    workspace.step(window, "tool")
    workspace.step(workspace.otto, "tool")
    assert workspace.head() == head
    workspace.ms += 1
    workspace.step(window, "busy")
    assert workspace.head() == head + 1
    workspace.ms += 100 * SECOND - 1
    assert workspace.call(OWNER, CheckClaim("B-1"))["claimed"]


def test_a_start_tells_a_session_its_identity_and_its_claims(
    workspace: WakeWorkspace,
) -> None:
    window = workspace.otto._replace(session="s-1")
    claim = workspace.call(window, AcquireClaim("B-1"))["claim"]
    alone = workspace.call(workspace.otto, AcquireClaim("B-2"))["claim"]
    workspace.call(workspace.otto._replace(session="s-2"), AcquireClaim("B-3"))
    told = workspace.step(window, "start")
    assert told == {
        "address": "@otto-cli",
        "agent": "otto",
        "session": "s-1",
        "open": 0,
        "unread": 0,
        "claims": [claim, alone],
    }
    assert "claims" not in workspace.step(window, "prompt")


@pytest.mark.parametrize("unbound", [True, False])
def test_an_unbound_client_renews_the_senders_claims_without_a_session(
    workspace: WakeWorkspace, unbound: bool
) -> None:
    workspace.call(workspace.otto, AcquireClaim("B-1", ttl_s=100))
    workspace.ms += 60 * SECOND
    workspace.step(workspace.otto._replace(session="s-1"), "tool", unbound=unbound)
    workspace.ms += 60 * SECOND
    assert workspace.call(OWNER, CheckClaim("B-1"))["claimed"] is unbound


def test_the_claims_of_an_idle_live_client_are_renewed(workspace: WakeWorkspace) -> None:
    window = workspace.otto._replace(session="s-1")
    workspace.step(window, "stop", window=this_window())
    workspace.call(window, AcquireClaim("B-1", ttl_s=100))
    workspace.call(workspace.otto._replace(session="s-2"), AcquireClaim("B-2", ttl_s=100))
    workspace.call(workspace.vera, AcquireClaim("B-3", ttl_s=100))
    workspace.call(workspace.otto, AcquireClaim("B-4", ttl_s=100))
    workspace.ms += 40 * SECOND
    head = workspace.head()
    dispatching.keep(workspace.node)
    assert workspace.head() == head
    workspace.ms += 20 * SECOND
    dispatching.keep(workspace.node)
    assert workspace.head() == head + 1
    workspace.ms += 60 * SECOND
    held = [claim["item"] for claim in workspace.call(OWNER, ListClaims())["claims"]]
    assert held == ["B-1"]
    workspace.step(window, "end", window=this_window())
    workspace.ms += 60 * SECOND
    dispatching.keep(workspace.node)
    assert [c["item"] for c in workspace.call(OWNER, ListClaims())["claims"]] == []


def test_the_claims_of_a_suspended_client_are_not_renewed(workspace: WakeWorkspace) -> None:
    """A suspended client cannot notice that it lost a claim. Its later writes must be refused."""
    with subprocess.Popen(["sleep", "60"]) as client:
        try:
            process = process_of(client.pid)
            assert process is not None
            window = workspace.otto._replace(session="s-1")
            workspace.step(window, "stop", window={"client": "codex"} | about(process))
            workspace.call(window, AcquireClaim("B-1", ttl_s=100))
            client.send_signal(signal.SIGSTOP)
            until(lambda: is_stopped(client.pid))
            workspace.ms += 60 * SECOND
            head = workspace.head()
            dispatching.keep(workspace.node)
            assert workspace.head() == head
            client.send_signal(signal.SIGCONT)
            until(lambda: not is_stopped(client.pid))
            dispatching.keep(workspace.node)
            assert workspace.head() == head + 1
        finally:
            client.kill()


def test_an_end_releases_claims_and_leaves_queues_but_keeps_the_session(
    workspace: WakeWorkspace,
) -> None:
    window = workspace.otto._replace(session="s-1")
    workspace.call(window, StartSession("s-1"))
    workspace.call(window, AcquireClaim("B-1"))
    workspace.call(workspace.otto, AcquireClaim("B-2"))
    workspace.call(workspace.vera, AcquireClaim("B-3"))
    workspace.node.call_once(window, AcquireClaim("B-3", wait_s=600))
    workspace.node.call_once(workspace.vera, AcquireClaim("B-1", wait_s=600))
    workspace.step(window, "end")
    held = {c["item"]: c["holder"] for c in workspace.call(OWNER, ListClaims())["claims"]}
    assert held == {"B-1": "@vera", "B-2": "@otto-cli", "B-3": "@vera"}
    workspace.call(workspace.vera, ReleaseClaim("B-3"))
    assert not workspace.call(OWNER, CheckClaim("B-3"))["claimed"]
    assert workspace.call(OWNER, FindSession("s-1"))["sender"] == "otto-cli"
    assert workspace.call(window, AcquireClaim("B-4"))["acquired"]


def test_an_end_without_a_session_releases_nothing(workspace: WakeWorkspace) -> None:
    workspace.call(workspace.otto, AcquireClaim("B-1"))
    workspace.step(workspace.otto, "end")
    assert workspace.call(OWNER, CheckClaim("B-1"))["claimed"]


# --- invalid requests


@pytest.mark.parametrize(
    "wrong",
    [
        Attend("jump", "test"),  # type: ignore[arg-type]
        Attend("prompt", ""),
        Attend("prompt", "a\nb"),
        Attend("prompt", "test", wait_s=1),
        Attend("edit", "test", ("a",)),
        Attend("tool", "test", repo="r"),
        Attend("start", "test", window={"about": "x" * 5000}),
        Attend("start", "test", until_ms=-1),
        Mute(ttl_s=60, off=True),
        Mute(ttl_s=0),
    ],
)
def test_an_invalid_request_is_refused(workspace: WakeWorkspace, wrong: Any) -> None:
    with pytest.raises(errors.Usage):
        workspace.call(workspace.otto, wrong)
