"""Reach: how soon a sender would see a message now, by the reports of its clients' windows. The
tests start real client processes and kill some of them."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.rooms.identity.verbs import EndSession, ListAgents, Mute
from interlock.rooms.mail.verbs import SendMessage
from interlock.stores.presence import (
    ENDED,
    FORGOTTEN_MS,
    FRESH_MS,
    GLANCE_MS,
    IDLE,
    KEPT_MS,
    MAX_STEP_MS,
    SAME_MS,
    WORKING,
    Presence,
    Seen,
    merged,
)
from interlock.stores.sqlite import clock_ms
from world.wake_workspace import WakeWorkspace, this_window, window_of
from world.workspace import OWNER

LIMIT_S = 30
NOW = 2_000_000_000_000


class Looks:
    """Reads presence on the test's own clock, at increasing times, so that no answer comes from the
    cache."""

    def __init__(self, directory: Path) -> None:
        self.presence = Presence(str(directory))
        self.now = NOW

    def reach(self, *senders: str) -> str:
        self.now += GLANCE_MS
        return self.presence.reach(senders or ("otto",), self.now)[0]

    def step(self, step: str, session: str = "s-1", **about: Any) -> None:
        self.presence.attended("otto", session, step, about or this_window(), self.now)
        self.presence.touch("otto", self.now)


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    """Presence in an empty directory."""
    return Looks(tmp_path)


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    """A client that runs until it is killed."""
    words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


# --- one window


@pytest.mark.parametrize(
    ("step", "reach"),
    [
        ("start", "waits"),
        ("prompt", "working"),
        ("edit", "working"),
        ("tool", "working"),
        ("busy", "working"),
        ("stop", "waits"),
        ("rest", "waits"),
        ("end", "offline"),
    ],
)
def test_a_step_sets_the_activity_of_the_window(looks: Looks, step: str, reach: str) -> None:
    looks.step(step)
    assert looks.reach() == reach


def test_a_window_with_a_living_client_does_not_expire(looks: Looks) -> None:
    looks.step("stop")
    looks.now += 24 * FORGOTTEN_MS
    assert looks.reach() == "waits"


def test_a_step_without_reports_for_long_counts_as_interrupted(looks: Looks) -> None:
    looks.step("tool")
    looks.now += MAX_STEP_MS - GLANCE_MS
    assert looks.reach() == "working"
    assert looks.reach() == "waits"


def test_a_start_report_while_working_does_not_mean_idle(
    looks: Looks, client: subprocess.Popen[bytes]
) -> None:
    looks.step("tool")
    looks.step("start")
    assert looks.reach() == "working", "the process compacted its context"
    looks.step("start", **window_of(client.pid))
    assert looks.reach() == "waits", "another process started"


def test_waiting_while_idle_changes_nothing(looks: Looks) -> None:
    looks.step("prompt")
    looks.step("idle")
    assert looks.reach() == "working"
    looks.step("stop")
    looks.step("idle")
    assert looks.reach() == "waits"


def test_mail_wakes_a_listening_sender_in_any_state_of_its_windows(looks: Looks) -> None:
    for step in ("prompt", "stop", "end"):
        looks.step(step)
        with looks.presence.listening("otto"):
            assert looks.reach() == "wakes"
    assert looks.reach() == "offline"


def test_a_sleeping_sender_is_woken_only_by_mail_that_may_wake_it(looks: Looks) -> None:
    looks.step("stop")
    with looks.presence.listening("otto", asleep=True):
        assert looks.reach() == "wakes"
        assert looks.presence.reach(["otto"], looks.now, lambda: False)[0] == "waits"
        with looks.presence.listening("otto"):
            looks.now += GLANCE_MS
            assert looks.presence.reach(["otto"], looks.now, lambda: False)[0] == "wakes"
    assert looks.reach() == "waits"


@pytest.mark.parametrize("step", ["prompt", "stop"])
def test_a_client_that_was_killed_is_offline_at_once(
    looks: Looks, step: str, client: subprocess.Popen[bytes]
) -> None:
    looks.step(step, **window_of(client.pid))
    assert looks.reach() in ("working", "waits")
    client.kill()
    client.wait(LIMIT_S)
    assert looks.reach() == "offline"


def test_another_process_with_the_same_pid_is_not_the_client(looks: Looks) -> None:
    looks.step("prompt", **(this_window() | {"started": "long ago"}))
    assert looks.reach() == "offline"


def test_a_client_that_cannot_be_checked_ends_after_an_hour(looks: Looks) -> None:
    for about in ({"client": "afar"}, this_window() | {"space": "another"}):
        looks.step("stop", **about)
        looks.now += FORGOTTEN_MS - GLANCE_MS
        assert looks.reach() == "waits"
        assert looks.reach() == "offline"


def test_a_sender_that_acts_after_its_clients_ended_is_reachable_again(looks: Looks) -> None:
    looks.step("end")
    looks.presence.touch("otto", looks.now + SAME_MS - 1)
    assert looks.reach() == "offline"
    looks.presence.touch("otto", looks.now + SAME_MS)
    assert looks.reach() == "waits"
    looks.now += FRESH_MS + SAME_MS
    assert looks.reach() == "offline"


def test_a_wakeable_sender_does_not_count_as_seen(looks: Looks) -> None:
    with looks.presence.listening("otto", asleep=True):
        assert looks.presence.reach(["otto"], looks.now) == ("wakes", None)
        looks.step("stop")
        later = looks.now + FRESH_MS
        assert looks.presence.reach(["otto"], later) == ("wakes", looks.now)


# --- several


def test_the_busiest_of_several_windows_counts(looks: Looks) -> None:
    looks.step("start", "s-1")
    looks.step("prompt", "s-2")
    assert looks.reach() == "working"
    looks.step("stop", "s-2")
    assert looks.reach() == "waits"
    looks.step("end", "s-1")
    assert looks.reach() == "waits"
    looks.step("end", "s-2")
    assert looks.reach() == "offline"


def test_the_most_reachable_of_several_senders_counts(looks: Looks) -> None:
    looks.step("stop")
    assert looks.reach("otto", "vera") == "waits"
    looks.presence.attended("vera", None, "tool", this_window(), looks.now)
    assert looks.reach("otto", "vera") == "working"
    with looks.presence.listening("otto"):
        assert looks.reach("vera", "otto") == "wakes"
    assert looks.reach("stranger") == "unknown"


def test_windows_are_identified_by_their_session(looks: Looks) -> None:
    looks.step("start", "s-1")
    looks.step("tool", "../s-2")
    looks.presence.attended("otto", None, "stop", None, looks.now)
    found = {w.session: w.doing for w in looks.presence.windows("otto", looks.now)}
    assert found == {"s-1": IDLE, "../s-2": WORKING, None: IDLE}


def test_a_malformed_file_is_not_a_window(looks: Looks, tmp_path: Path) -> None:
    looks.step("prompt")
    assert looks.reach() == "working"
    (directory,) = (tmp_path / "presence").glob("*.windows")
    (directory / "draft~").write_bytes(next(directory.iterdir()).read_bytes())
    (directory / "noise").write_bytes(b"\xff{")
    (directory / "short").write_text(json.dumps({"sender": "otto"}))
    (directory / "list").write_text("[]")
    assert [w.session for w in looks.presence.windows("otto", looks.now)] == ["s-1"]
    assert looks.reach() == "working"


def test_a_report_that_cannot_be_written_raises_no_error(tmp_path: Path) -> None:
    (tmp_path / "presence").write_text("not a directory")
    looks = Looks(tmp_path)
    looks.step("prompt")
    assert looks.reach() == "unknown"


# --- other nodes


def test_the_reports_of_two_nodes_are_merged() -> None:
    assert merged(Seen(), Seen()) == Seen()
    one = merged(Seen(5, doing=IDLE), Seen(7, listening=True))
    assert one == Seen(7, listening=True, doing=IDLE)
    one = merged(Seen(7, doing=ENDED, wakeable=True), Seen(5, doing=WORKING))
    assert one == Seen(7, doing=WORKING, wakeable=True)
    assert merged(Seen(7, doing=ENDED), Seen(5, doing=IDLE)).doing == IDLE
    assert merged(Seen(), Seen(5, doing=ENDED)) == Seen(5, doing=ENDED)


def test_activity_at_another_node_counts(looks: Looks) -> None:
    looks.step("end")
    for seen, reach in (
        (Seen(looks.now, doing=WORKING), "working"),
        (Seen(looks.now, doing=IDLE), "waits"),
        (Seen(looks.now, listening=True), "wakes"),
        (Seen(looks.now, wakeable=True), "wakes"),
        (Seen(), "offline"),
    ):
        looks.presence.elsewhere = {"otto": seen}
        assert looks.reach() == reach


def test_a_node_reports_only_the_senders_that_it_sees(looks: Looks) -> None:
    looks.step("prompt")
    looks.presence.touch("vera", looks.now)
    names = ["otto", "vera", "stranger"]
    told = looks.presence.here(names, looks.now)
    assert {name: seen.doing for name, seen in told.items()} == {"otto": WORKING, "vera": None}
    looks.now += FRESH_MS
    assert list(looks.presence.here(names, looks.now)) == ["otto"], "otto still has a window"


def test_windows_that_ended_are_removed_after_a_day(looks: Looks) -> None:
    looks.step("end", "s-1")
    looks.step("stop", "s-2")
    for passed, left in ((KEPT_MS, ["s-1", "s-2"]), (1, ["s-2"])):
        looks.now += passed
        looks.presence.sweep("otto", looks.now)
        assert [w.session for w in looks.presence.windows("otto", looks.now)] == left


def sessions(looks: Looks) -> list[str | None]:
    return [window.session for window in looks.presence.windows("otto", looks.now)]


@pytest.mark.parametrize("about", [{"client": "afar"}, {"pid": 1, "started": "1", "space": "far"}])
@pytest.mark.parametrize("step", ["prompt", "stop"])
def test_silent_windows_of_other_machines_are_removed_after_a_day(
    looks: Looks, about: dict[str, Any], step: str
) -> None:
    looks.step(step, "s-1", **about)
    looks.step(step, "s-2")
    for passed, left in ((KEPT_MS, ["s-1", "s-2"]), (1, ["s-2"])):
        looks.now += passed
        looks.presence.sweep("otto", looks.now)
        assert sessions(looks) == left


def test_the_window_of_a_dead_client_stays_until_its_session_ends(
    looks: Looks,
) -> None:
    looks.step("prompt", "s-1", **(this_window() | {"started": "long ago"}))
    looks.now += 2 * KEPT_MS
    looks.presence.sweep("otto", looks.now)
    assert looks.presence.lost("otto") == ["s-1"], "its claims must be released first"
    looks.presence.attended("otto", "s-1", "end", None, looks.now)
    looks.now += KEPT_MS + 1
    looks.presence.sweep("otto", looks.now)
    assert sessions(looks) == []


def test_a_new_window_removes_old_windows_without_a_server(looks: Looks) -> None:
    for number in range(5):
        looks.step("prompt", f"s-{number}", client="afar")
    looks.now += KEPT_MS + 1
    looks.step("prompt", "s-4", client="afar")
    assert len(sessions(looks)) == 5, "no new window started"
    looks.step("start", "s-5", client="afar")
    assert sessions(looks) == ["s-4", "s-5"]


def test_concurrent_reports_of_one_window_do_not_damage_its_file(
    looks: Looks, tmp_path: Path
) -> None:
    looks.step("prompt")
    (directory,) = (tmp_path / "presence").glob("*.windows")
    torn: list[list[str | None]] = []

    def report(number: int) -> None:
        about = this_window() | {"padding": "x" * 2000 * number}
        for _ in range(300):
            looks.presence.attended("otto", "s-1", "prompt", about, looks.now)
            if (found := sessions(looks)) != ["s-1"]:
                torn.append(found)

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert torn == []
    assert [path.name for path in directory.iterdir()] == ["s-1"]


def test_an_old_draft_of_a_killed_process_is_removed(looks: Looks, tmp_path: Path) -> None:
    looks.step("prompt")
    (directory,) = (tmp_path / "presence").glob("*.windows")
    old, new = directory / "s-2.old~", directory / "s-2.new~"
    for draft in (old, new):
        draft.write_text("{")
    os.utime(old, (0, 0))
    looks.presence.sweep("otto", looks.now)
    assert sorted(directory.iterdir()) == [directory / "s-1", new]


def test_old_uses_and_unused_tokens_are_removed(looks: Looks, tmp_path: Path) -> None:
    kept = tmp_path / "presence" / "tokens"
    for token in ("one", "two"):
        looks.presence.used(token, "s-1", None, looks.now)
    looks.now += FRESH_MS // 2
    looks.presence.used("two", "s-1", None, looks.now)
    looks.now += FRESH_MS // 2 + 1
    Presence(str(tmp_path)).used("three", "s-1", None, looks.now)
    assert sorted(path.name for path in kept.iterdir()) == ["three", "two"]
    used = {use.token: use.since for use in looks.presence.uses(looks.now)}
    assert used == {"two": NOW, "three": looks.now}


# --- reach in the answers to agents and senders


class PresenceWorkspace(WakeWorkspace):
    """A workspace on the machine's clock, which presence uses."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, clock=clock_ms)

    def reach(self) -> str:
        """Return otto-cli's reach in the answer of `agents`, without the cache."""
        self.node.presence._glances.clear()
        agents = self.call(OWNER, ListAgents("otto-cli"))["agents"]
        (found,) = (agent for agent in agents if agent["address"] == "@otto-cli")
        return str(found["reach"])

    def promised(self, **given: Any) -> str:
        """Return otto-cli's reach in the answer to a send."""
        self.node.presence._glances.clear()
        act = SendMessage("@otto-cli", {"text": "hello"}, "send", **given)
        (delivery,) = self.call(self.vera, act)["deliveries"]
        return str(delivery["reach"])


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[PresenceWorkspace]:
    """A workspace on the machine's clock, open until the test ends."""
    with PresenceWorkspace(tmp_path) as workspace:
        yield workspace


def test_agents_and_the_answer_to_a_send_contain_the_reach(
    workspace: PresenceWorkspace,
) -> None:
    window = workspace.otto._replace(session="s-1")
    assert workspace.reach() == workspace.promised() == "unknown"
    for step, reach in (("start", "waits"), ("prompt", "working"), ("end", "offline")):
        workspace.step(window, step, window=this_window())
        assert workspace.reach() == workspace.promised() == reach
    with workspace.node.presence.listening("otto-cli"):
        assert workspace.reach() == workspace.promised() == "wakes"


def test_a_muted_sender_or_mail_without_a_wake_is_not_promised_a_wake_up(
    workspace: PresenceWorkspace,
) -> None:
    workspace.step(workspace.otto._replace(session="s-1"), "stop", window=this_window())
    with workspace.node.presence.listening("otto-cli", asleep=True):
        assert workspace.reach() == workspace.promised() == "wakes"
        assert workspace.promised(wake=False) == "waits"
        workspace.call(workspace.otto, Mute("otto"))
        assert workspace.reach() == workspace.promised() == "waits"


def test_a_killed_client_is_offline_in_every_answer(
    workspace: PresenceWorkspace, client: subprocess.Popen[bytes]
) -> None:
    window = workspace.otto._replace(session="s-1")
    workspace.step(window, "tool", window=window_of(client.pid))
    assert workspace.reach() == "working"
    client.kill()
    client.wait(LIMIT_S)
    assert workspace.reach() == workspace.promised() == "offline"


def test_an_ended_session_has_no_window(workspace: PresenceWorkspace) -> None:
    first, second = workspace.otto._replace(session="s-1"), workspace.otto._replace(session="s-2")
    for window in (first, second):
        workspace.step(window, "tool", window=this_window())
    workspace.call(first, EndSession("s-1"))
    assert workspace.reach() == "working", "the other session has not ended"
    workspace.call(second, EndSession("s-2"))
    assert workspace.reach() == "offline"


def test_a_session_whose_client_died_is_lost_until_it_is_ended(
    workspace: PresenceWorkspace, client: subprocess.Popen[bytes]
) -> None:
    first, second = workspace.otto._replace(session="s-1"), workspace.otto._replace(session="s-2")
    workspace.step(first, "tool", window=window_of(client.pid))
    workspace.step(workspace.otto._replace(session="s-0"), "end", window=window_of(client.pid))
    assert "lost" not in workspace.step(second, "start", window=this_window())
    client.kill()
    client.wait(LIMIT_S)
    assert "lost" not in workspace.step(second, "tool", window=this_window())
    assert workspace.step(second, "start", window=this_window())["lost"] == ["s-1"]
    workspace.call(workspace.otto, EndSession("s-1"))
    assert "lost" not in workspace.step(second, "start", window=this_window())


# --- senders that a server may wake


def test_a_sender_with_a_working_window_is_not_asleep(workspace: PresenceWorkspace) -> None:
    first, second = workspace.otto._replace(session="s-1"), workspace.otto._replace(session="s-2")
    window = this_window()

    def idle() -> list[str | None] | None:
        found = workspace.sleeper("otto-cli")
        return None if found is None else [window.session for window in found.windows]

    workspace.step(first, "start", window=window)
    assert idle() == ["s-1"]
    workspace.step(second, "prompt", window=window)
    assert idle() is None
    workspace.step(second, "stop", window=window)
    assert idle() == ["s-1", "s-2"]
    workspace.step(first, "end", window=window)
    assert idle() == ["s-2"]


def test_a_sender_that_is_kept_from_stopping_counts_as_working(
    workspace: PresenceWorkspace,
) -> None:
    workspace.send(workspace.vera, "@otto-cli", type="ask", payload={"question": "well?"})
    session = workspace.otto._replace(session="s-1")
    assert workspace.step(session, "stop", window=this_window())["messages"]
    assert workspace.sleeper("otto-cli") is None
    workspace.step(session, "stop", held=1, window=this_window())
    assert workspace.sleeper("otto-cli") is not None
