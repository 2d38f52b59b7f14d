"""The rules of waking one by one, each in a sentence: who is told of what, when, and how often."""

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
from world.stepping import HOUR, MINUTE, OWNER, SECOND, Street, this_window


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    made = Street(tmp_path)
    yield made
    made.node.close()


URGENT: dict[str, dict[str, Any]] = {
    "ask": {"type": "ask", "payload": {"question": "well?"}},
    "blocker": {"type": "blocker", "payload": {"what": "it is red", "severity": "stop"}},
    "command": {"type": "command", "payload": {"command": "make", "why": "to know"}},
    "wake": {"type": "wake", "payload": {"text": "look"}},
    "high": {"priority": "high"},
    "critical": {"priority": "critical"},
}


# --- whoever is at work


@pytest.mark.parametrize("step", ["start", "prompt", "tool"])
def test_whoever_works_is_pointed_to_new_mail_once(street: Street, step: str) -> None:
    sent = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto, step) == [sent]
    assert street.history(street.vera, sent) == [("accepted", None), ("woken", "test")]
    head = street.node.head()
    for again in ("start", "prompt", "tool", "idle"):
        assert "news" not in street.step(street.otto, again)
    assert street.node.head() == head, "nothing is written where there is nothing to tell"


def test_a_pointer_has_no_text_of_the_message(street: Street) -> None:
    street.send(street.vera, "@otto-cli", subject="a line")
    (news,) = street.step(street.otto, "prompt")["news"]
    assert news["from"] == "@vera"
    assert "payload" not in news


def test_what_came_together_is_told_together_and_in_order(street: Street) -> None:
    sent = [street.send(street.vera, to) for to in ("@otto", "@otto-cli", "AGENT:*", "@otto")]
    assert street.told(street.otto) == sent
    assert len(street.facts("mail_moved")) == 1


@pytest.mark.parametrize("step", ["edit", "busy", "rest", "end"])
def test_some_steps_are_told_of_no_mail_and_mark_none(street: Street, step: str) -> None:
    sent = street.send(street.vera, "@otto-cli", **URGENT["ask"])
    where = {"paths": ("a",), "repo": "r"} if step == "edit" else {}
    answer = street.step(street.otto, step, **where)
    assert answer["unread"] == 1
    assert not {"news", "messages"} & answer.keys()
    assert street.history(street.vera, sent) == [("accepted", None)]


def test_nobody_is_told_of_what_was_shown_read_or_answered_for(street: Street) -> None:
    shown, read, acked = (street.send(street.vera, "@otto-cli") for _ in range(3))
    street.call(street.otto, ReadMessage(read))
    street.call(street.otto, AckMessages((acked,)))
    street.call(street.otto, ListInbox())
    assert street.history(street.vera, shown)[-1][0] == "shown"
    assert street.told(street.otto) == street.told(street.otto, "idle") == []
    assert street.begin("otto-cli") is None


def test_of_two_surfaces_of_an_agent_one_is_told(street: Street) -> None:
    both, mine = street.send(street.vera, "@otto"), street.send(street.vera, "@otto-desktop")
    assert street.told(street.otto) == [both]
    assert street.told(street.desktop) == [mine]


def test_whoever_may_not_mail_is_told_of_none(street: Street) -> None:
    lena = street.join("lena", scopes=("claim",))
    sent = street.send(street.vera, "@lena", **URGENT["ask"])
    assert street.told(lena) == street.told(lena, "idle") == street.handed(lena) == []
    assert street.history(street.vera, sent) == [("accepted", None)]


def test_in_a_pause_nothing_is_told_and_nothing_is_lost(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli", **URGENT["ask"])
    window = street.otto._replace(session="s-1")
    street.call(window, AcquireClaim("B-1"))
    street.call(OWNER, Pause())
    head = street.node.head()
    for step in ("start", "prompt", "tool", "idle", "stop", "end"):
        answer = street.step(window, step)
        assert answer["paused"] is True
        assert not {"news", "messages"} & answer.keys()
    assert street.begin("otto-cli") is None
    assert street.node.head() == head
    street.call(OWNER, Resume())
    assert street.told(street.otto) == [sent]


# --- before a stop


@pytest.mark.parametrize("kind", URGENT)
def test_before_a_stop_what_is_urgent_is_handed_over_once(street: Street, kind: str) -> None:
    sent = street.send(street.vera, "@otto-cli", **URGENT[kind])
    (message,) = street.step(street.otto, "stop")["messages"]
    assert (message["id"], "payload" in message) == (sent, True)
    told = [("accepted", None), ("woken", "test"), ("shown", "test")]
    assert street.history(street.vera, sent) == told
    assert street.handed(street.otto, held=1) == []
    assert street.told(street.otto) == []


def test_before_a_stop_what_is_not_urgent_waits(street: Street) -> None:
    sent = [street.send(street.vera, "@otto-cli", priority=p) for p in ("low", "normal")]
    assert street.handed(street.otto) == []
    assert street.told(street.otto) == sent


def test_what_was_only_pointed_to_is_still_handed_over(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli", **URGENT["ask"])
    assert street.told(street.otto) == [sent]
    assert street.handed(street.otto) == [sent]
    told = [("accepted", None), ("woken", "test"), ("shown", "test")]
    assert street.history(street.vera, sent) == told


def test_five_at_a_time_are_handed_over(street: Street) -> None:
    sent = [street.send(street.vera, "@otto", **URGENT["ask"]) for _ in range(7)]
    assert street.handed(street.otto) == sent[:5]
    assert street.handed(street.otto, held=1) == sent[5:]
    assert street.handed(street.otto, held=2) == []


@pytest.mark.parametrize("end", ["acked", "resolved"])
def test_a_blocker_is_handed_over_once_a_turn_until_it_is_settled(street: Street, end: str) -> None:
    raised = street.call(street.vera, RaiseBlocker("it is red", to="@otto-cli"))["blocker"]["id"]
    for _ in range(3):
        assert street.handed(street.otto) == [raised]
        assert street.handed(street.otto, held=1) == []
    assert len(street.history(street.vera, raised)) == 3
    street.call(street.otto, ReadMessage(raised))
    assert street.handed(street.otto) == [raised], "reading it moves nothing out of the way"
    if end == "acked":
        street.call(street.otto, AckMessages((raised,)))
    else:
        street.call(street.vera, ResolveBlocker(raised))
    assert street.handed(street.otto) == []


def test_nothing_is_handed_over_to_one_that_was_held_four_times_in_a_row(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli", **URGENT["ask"])
    assert street.handed(street.otto, held=4) == []
    assert street.history(street.vera, sent) == [("accepted", None)]
    assert street.handed(street.otto, held=3) == [sent]


def test_what_is_long_is_handed_over_in_part_and_a_command_not_in_part(street: Street) -> None:
    long = "x" * 1001
    street.send(street.vera, "@otto-cli", priority="high", payload={"text": long})
    command = {"command": long, "why": "to know"}
    street.send(street.vera, "@otto-cli", type="command", payload=command)
    text, order = street.step(street.otto, "stop")["messages"]
    assert (text["part"], text["payload"]["text"], text["size"]) == (True, long[:1000], 1001)
    assert order["part"] is True
    assert not order.get("payload", {}).get("command")


# --- whoever is idle


def test_direct_mail_wakes(street: Street) -> None:
    sent = [street.send(street.vera, to) for to in ("@otto-cli", "@otto")]
    assert street.told(street.otto, "idle") == sent


def test_a_broadcast_wakes_only_when_asked_and_direct_mail_not_when_not(street: Street) -> None:
    quiet = [street.send(street.vera, "AGENT:*"), street.send(street.vera, "@otto", wake=False)]
    assert street.told(street.otto, "idle") == []
    assert street.begin("otto-cli") is None
    loud = street.send(street.vera, "AGENT:*", wake=True)
    assert street.told(street.otto, "idle") == [loud]
    assert street.told(street.otto) == quiet, "but all of it is pointed to at a step"


def test_an_ack_wakes_nobody(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    street.call(street.otto, AckMessages((sent,), note="done"))
    assert street.told(street.vera, "idle") == []
    assert street.begin("vera") is None


def test_whoever_was_woken_is_left_alone_for_a_while_and_then_told_together(
    street: Street,
) -> None:
    first = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto, "idle") == [first]
    more = [street.send(street.vera, to) for to in ("@otto", "@otto-cli")]
    street.ms += 10 * SECOND - 1
    assert street.told(street.otto, "idle") == []
    assert street.begin("otto-cli") is None
    street.ms += 1
    assert street.told(street.otto, "idle") == more


def test_a_quiet_time_keeps_nothing_from_whoever_works(street: Street) -> None:
    street.send(street.vera, "@otto-cli")
    street.told(street.otto, "idle")
    more = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto) == [more]


def test_how_long_the_quiet_time_is_is_a_setting(street: Street) -> None:
    street.call(OWNER, ChangeSetting("wake.quiet_s", "0"))
    for _ in range(2):
        sent = street.send(street.vera, "@otto-cli")
        assert street.told(street.otto, "idle") == [sent]
    street.call(OWNER, ChangeSetting("wake.quiet_s", "86400"))
    street.send(street.vera, "@otto-cli")
    street.ms += HOUR
    assert street.told(street.otto, "idle") == []


def test_what_was_old_when_it_was_first_seen_does_not_wake(street: Street) -> None:
    old = street.send(street.vera, "@otto-cli")
    street.ms += HOUR
    assert street.is_due("otto-cli")
    street.ms += 1
    assert not street.is_due("otto-cli")
    assert street.told(street.otto, "idle") == []
    assert street.begin("otto-cli") is None
    young = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto, "idle") == [young]
    assert street.told(street.otto) == [old], "but it is pointed to at a step"


# --- muting


@pytest.mark.parametrize("name", [None, "otto-cli", "@otto-cli", "otto", "@otto"])
def test_nothing_wakes_one_whose_name_or_agent_is_muted(street: Street, name: str | None) -> None:
    street.call(street.otto, Mute(name))
    sent = street.send(street.vera, "@otto-cli", wake=True, priority="critical")
    assert street.told(street.otto, "idle") == []
    assert street.begin("otto-cli") is None
    street.ms += MINUTE
    assert not street.is_due("otto-cli")
    assert street.told(street.otto) == [sent], "it arrives all the same"


def test_muting_one_surface_leaves_the_other_awake(street: Street) -> None:
    street.call(street.otto, Mute())
    sent = street.send(street.vera, "@otto")
    assert street.told(street.otto, "idle") == []
    assert street.told(street.desktop, "idle") == [sent]


def test_that_a_name_is_muted_is_shown_with_it(street: Street) -> None:
    street.call(street.otto, Mute("otto"))
    street.call(street.vera, Mute(ttl_s=60))
    agents = street.call(OWNER, ListAgents())["agents"]
    muted = [agent["address"] for agent in agents if agent.get("muted")]
    assert muted == ["@otto-cli", "@otto-desktop", "@vera"]
    street.ms += MINUTE
    agents = street.call(OWNER, ListAgents())["agents"]
    assert [agent["address"] for agent in agents if agent.get("muted")] == muted[:2]


def test_a_name_is_muted_for_a_time_or_until_told_otherwise(street: Street) -> None:
    until = street.call(street.otto, Mute(ttl_s=60))
    assert until == {"address": "@otto-cli", "muted": True, "until": "2033-05-18T03:34:20.000Z"}
    sent = street.send(street.vera, "@otto-cli")
    street.ms += MINUTE - 1
    assert street.told(street.otto, "idle") == []
    street.ms += 1
    assert street.told(street.otto, "idle") == [sent]
    assert street.call(street.otto, Mute()) == {"address": "@otto-cli", "muted": True}
    street.ms += 300 * 24 * HOUR
    later = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto, "idle") == []
    street.call(street.otto, Mute(off=True))
    assert street.told(street.otto, "idle") == [later]


def test_only_a_person_or_an_admin_mutes_another(street: Street) -> None:
    admin = street.join("boss", scopes=("admin",))
    for by in (street.mira, admin, OWNER):
        assert street.call(by, Mute("vera"))["address"] == "@vera"
    for name in ("vera", "otto-desktop", "mira"):
        with pytest.raises(errors.MissingScope):
            street.call(street.otto, Mute(name))
    with pytest.raises(errors.NotFound) as caught:
        street.call(street.mira, Mute("verra"))
    assert caught.value.as_dict()["did_you_mean"] == ["@vera"]


# --- from outside


def test_mail_is_left_alone_for_a_few_seconds_first(street: Street) -> None:
    street.send(street.vera, "@otto-cli")
    street.ms += 3 * SECOND - 1
    assert not street.is_due("otto-cli")
    street.ms += 1
    assert street.is_due("otto-cli")


def test_a_pause_lets_nobody_be_woken(street: Street) -> None:
    street.send(street.vera, "@otto-cli")
    street.ms += MINUTE
    assert street.is_due("otto-cli")
    street.call(OWNER, Pause())
    assert not street.is_due("otto-cli")


def test_while_a_wake_goes_on_nobody_else_tries(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    begun = street.begin("otto-cli")
    assert begun is not None
    assert ([message["id"] for message in begun.news], begun.unread) == ([sent], 1)
    assert street.begin("otto-cli") is None
    assert street.told(street.otto, "idle") == street.told(street.otto) == []
    (tried,) = street.receipt(street.vera, sent)["wakes"]
    assert (tried["adapter"], tried["outcome"]) == ("outside", "begun")
    more = street.send(street.vera, "@otto-cli")
    assert street.told(street.otto) == [more], "which concerns what it is for, and nothing else"


def test_who_was_woken_has_it_in_its_receipt_and_its_quiet_time(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    assert street.woken("otto-cli", "woken") == [sent]
    assert street.history(street.vera, sent) == [("accepted", None), ("woken", "outside")]
    assert street.told(street.otto) == []
    street.send(street.vera, "@otto-cli")
    assert street.begin("otto-cli") is None
    street.ms += 10 * SECOND
    assert street.begin("otto-cli") is not None


def test_a_wake_that_failed_is_tried_three_times_at_most(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    for _ in range(3):
        assert street.woken("otto-cli", "failed", "it is busy") == [sent]
    assert street.begin("otto-cli") is None
    assert street.told(street.otto, "idle") == []
    tried = street.receipt(street.vera, sent)["wakes"]
    assert [(one["outcome"], one["why"]) for one in tried] == [("failed", "it is busy")] * 3
    assert street.history(street.vera, sent) == [("accepted", None)]
    assert street.told(street.otto) == [sent], "but it is pointed to at a step"


def test_a_wake_whose_end_never_came_is_in_doubt_and_not_repeated(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    begun = street.begin("otto-cli")
    assert begun is not None
    street.ms += MINUTE - 1
    assert not street.node.is_due()
    street.ms += 1
    assert street.node.is_due()
    (tried,) = street.receipt(street.vera, sent)["wakes"]
    assert tried["outcome"] == "unknown"
    assert street.history(street.vera, sent) == [("accepted", None)]
    dispatching.end(street.node, begun, "otto-cli", "woken")
    (ended,) = street.facts("wake_ended")
    assert ended["outcome"]["outcome"] == "unknown", "an end that comes late is none"
    assert street.begin("otto-cli") is None
    assert street.told(street.otto, "idle") == []


def test_what_a_wake_in_doubt_was_for_is_pointed_to_at_a_step(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    street.woken("otto-cli", "unknown", "it took too long")
    assert street.told(street.otto) == [sent]
    assert street.told(street.otto) == []


def test_what_was_read_while_a_wake_went_on_stays_read(street: Street) -> None:
    sent = street.send(street.vera, "@otto-cli")
    begun = street.begin("otto-cli")
    assert begun is not None
    street.call(street.otto, ReadMessage(sent))
    dispatching.end(street.node, begun, "otto-cli", "woken")
    assert street.receipt(street.vera, sent)["state"] == "read"
    assert street.call(street.otto, Attend("tool", "test"))["unread"] == 0
    assert upkeep.rebuild(street.node, OWNER)["changed"] is False


# --- what a session holds


def test_a_step_keeps_what_the_session_holds_below_half_of_the_lease(street: Street) -> None:
    window = street.otto._replace(session="s-1")
    street.call(window, AcquireClaim("B-1", ttl_s=100))
    street.ms += 50 * SECOND
    head = street.node.head()
    street.step(window, "tool")
    street.step(street.otto, "tool")
    assert street.node.head() == head
    street.ms += 1
    street.step(window, "busy")
    assert street.node.head() == head + 1
    street.ms += 100 * SECOND - 1
    assert street.call(OWNER, CheckClaim("B-1"))["claimed"]


def test_at_its_start_a_session_is_told_who_it_is_and_what_it_holds(street: Street) -> None:
    window = street.otto._replace(session="s-1")
    claim = street.call(window, AcquireClaim("B-1"))["claim"]
    alone = street.call(street.otto, AcquireClaim("B-2"))["claim"]
    street.call(street.otto._replace(session="s-2"), AcquireClaim("B-3"))
    told = street.step(window, "start")
    assert told == {
        "address": "@otto-cli",
        "agent": "otto",
        "session": "s-1",
        "open": 0,
        "unread": 0,
        "claims": [claim, alone],
    }
    assert "claims" not in street.step(window, "prompt")


@pytest.mark.parametrize("unbound", [True, False])
def test_what_is_held_in_no_session_is_kept_by_a_client_whose_shell_knows_none(
    street: Street, unbound: bool
) -> None:
    street.call(street.otto, AcquireClaim("B-1", ttl_s=100))
    street.ms += 60 * SECOND
    street.step(street.otto._replace(session="s-1"), "tool", unbound=unbound)
    street.ms += 60 * SECOND
    assert street.call(OWNER, CheckClaim("B-1"))["claimed"] is unbound


def test_a_client_that_lives_keeps_what_it_holds_while_it_is_idle(street: Street) -> None:
    window = street.otto._replace(session="s-1")
    street.step(window, "stop", window=this_window())
    street.call(window, AcquireClaim("B-1", ttl_s=100))
    street.call(street.otto._replace(session="s-2"), AcquireClaim("B-2", ttl_s=100))
    street.call(street.vera, AcquireClaim("B-3", ttl_s=100))
    street.call(street.otto, AcquireClaim("B-4", ttl_s=100))
    street.ms += 40 * SECOND
    head = street.node.head()
    dispatching.keep(street.node)
    assert street.node.head() == head
    street.ms += 20 * SECOND
    dispatching.keep(street.node)
    assert street.node.head() == head + 1
    street.ms += 60 * SECOND
    held = [claim["item"] for claim in street.call(OWNER, ListClaims())["claims"]]
    assert held == ["B-1"]
    street.step(window, "end", window=this_window())
    street.ms += 60 * SECOND
    dispatching.keep(street.node)
    assert [c["item"] for c in street.call(OWNER, ListClaims())["claims"]] == []


def test_nobody_keeps_what_a_stopped_client_holds(street: Street) -> None:
    """It cannot know that it has lost it, and what it does then must bounce."""
    with subprocess.Popen(["sleep", "60"]) as client:
        try:
            process = process_of(client.pid)
            assert process is not None
            window = street.otto._replace(session="s-1")
            street.step(window, "stop", window={"client": "codex"} | about(process))
            street.call(window, AcquireClaim("B-1", ttl_s=100))
            client.send_signal(signal.SIGSTOP)
            until(lambda: is_stopped(client.pid))
            street.ms += 60 * SECOND
            head = street.node.head()
            dispatching.keep(street.node)
            assert street.node.head() == head
            client.send_signal(signal.SIGCONT)
            until(lambda: not is_stopped(client.pid))
            dispatching.keep(street.node)
            assert street.node.head() == head + 1
        finally:
            client.kill()


def test_an_end_gives_up_what_is_held_and_waited_for_but_not_the_session(street: Street) -> None:
    window = street.otto._replace(session="s-1")
    street.call(window, StartSession("s-1"))
    street.call(window, AcquireClaim("B-1"))
    street.call(street.otto, AcquireClaim("B-2"))
    street.call(street.vera, AcquireClaim("B-3"))
    street.node.call_once(window, AcquireClaim("B-3", wait_s=600))
    street.node.call_once(street.vera, AcquireClaim("B-1", wait_s=600))
    street.step(window, "end")
    held = {c["item"]: c["holder"] for c in street.call(OWNER, ListClaims())["claims"]}
    assert held == {"B-1": "@vera", "B-2": "@otto-cli", "B-3": "@vera"}
    street.call(street.vera, ReleaseClaim("B-3"))
    assert not street.call(OWNER, CheckClaim("B-3"))["claimed"]
    assert street.call(OWNER, FindSession("s-1"))["sender"] == "otto-cli"
    assert street.call(window, AcquireClaim("B-4"))["acquired"]


def test_a_step_without_a_session_gives_up_nothing(street: Street) -> None:
    street.call(street.otto, AcquireClaim("B-1"))
    street.step(street.otto, "end")
    assert street.call(OWNER, CheckClaim("B-1"))["claimed"]


# --- what is no step


@pytest.mark.parametrize(
    "act",
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
def test_what_makes_no_sense_is_refused(street: Street, act: Any) -> None:
    with pytest.raises(errors.Usage):
        street.call(street.otto, act)
