"""Many processes on one workspace: one winner, no lost write, no starvation, correct answers."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from interlock.local.workspace import CredentialStore
from interlock.log.facts import parse_header
from interlock.node import Node, audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.stores.presence import Presence
from interlock.verbs.credentials import Credentials
from world.commandline import until
from world.processes import (
    LIMIT_S,
    Gate,
    Json,
    Worker,
    command,
    environment,
    join_all,
    send,
    workers,
)
from world.workspace import OWNER, MovedClock, facts

RACERS = 32


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """An empty directory for a workspace."""
    path = tmp_path / "workspace"
    path.mkdir()
    return str(path)


@pytest.fixture
def node(directory: str) -> Iterator[Node]:
    """The node of the test's own process."""
    with Node(directory) as node:
        yield node


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate that starts racing workers at one instant."""
    with contextlib.closing(Gate(str(tmp_path / "gate"))) as gate:
        yield gate


def keep(node: Node, *senders: str) -> dict[str, str]:
    """Register senders, and store their tokens where commands find them."""
    tokens = join_all(node, *senders)
    for sender, token in tokens.items():
        with CredentialStore(node.directory).slot() as keep:
            keep(sender, token)
    return tokens


def start(directory: str, tmp_path: Path, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command(*words, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(directory, str(tmp_path)),
    )


def finish(started: "subprocess.Popen[bytes]", limit_s: float = LIMIT_S) -> tuple[int, Json]:
    """Return the exit status and the JSON document of a command."""
    try:
        out, stderr = started.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        raise
    assert stderr == b""
    answer: Json = json.loads(out)
    return started.returncode, answer


@contextlib.contextmanager
def running(started: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """Kill the command at the end of the block if it still runs."""
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def only_winner(answers: dict[str, Json]) -> Json:
    """Return the claim of the only winner. All other answers name it as the holder."""
    won = [answer for answer in answers.values() if answer.get("acquired")]
    assert len(won) == 1, answers
    claim: Json = won[0]["claim"]
    for sender, answer in answers.items():
        if not answer.get("acquired"):
            assert answer.get("code") == "CLAIM_HELD", (sender, answer)
            assert [held["fence"] for held in answer["held_by"]] == [claim["fence"]]
            assert [held["holder"] for held in answer["held_by"]] == [claim["holder"]]
    assert answers[claim["holder"].removeprefix("@")] is won[0]
    return claim


# --- racing for a claim


@pytest.mark.long
def test_one_of_32_worker_processes_wins_each_of_200_rounds(node: Node, gate: Gate) -> None:
    tokens = join_all(node, *(f"racer-{number}" for number in range(RACERS)))
    fences = []
    with workers(RACERS) as racers:
        for racer in racers:
            racer.tell(do="open", directory=node.directory)
        for racer in racers:
            assert "refused" not in racer.hear()
        named = dict(zip(tokens, racers, strict=True))
        for _ in range(200):
            told = {racer: {"token": tokens[sender]} for sender, racer in named.items()}
            answers = gate.race(told, do="call", act="AcquireClaim", item="B-0444")
            claim = only_winner(dict(zip(named, answers, strict=True)))
            fences.append(claim["fence"])
            winner = claim["holder"].removeprefix("@")
            released = named[winner].ask(
                do="call", token=tokens[winner], act="ReleaseClaim", item="B-0444"
            )
            assert released == {"released": True}
    assert fences == sorted(set(fences))
    granted = facts(node, "claim_granted")
    assert [fact["outcome"]["fence"] for fact in granted] == fences
    assert len(facts(node, "claim_released")) == 200
    assert audit.verify(node)["ok"]


@pytest.mark.long
def test_one_of_32_commands_started_together_wins_each_of_10_rounds(
    node: Node, tmp_path: Path
) -> None:
    tokens = keep(node, *(f"racer-{number}" for number in range(RACERS)))
    fences = []
    for _ in range(10):
        started = {
            sender: start(
                node.directory, tmp_path, "claim", "acquire", "--item", "B-0444", "--from", sender
            )
            for sender in tokens
        }
        ended = {sender: finish(process) for sender, process in started.items()}
        claim = only_winner({sender: answer for sender, (_, answer) in ended.items()})
        winner = claim["holder"].removeprefix("@")
        statuses = {sender: status for sender, (status, _) in ended.items()}
        assert statuses == {sender: int(sender != winner) for sender in tokens}
        fences.append(claim["fence"])
        release = ("claim", "release", "--item", "B-0444", "--from", winner)
        assert finish(start(node.directory, tmp_path, *release)) == (0, {"released": True})
    assert fences == sorted(set(fences))
    assert audit.verify(node)["ok"]


# --- waiting for a claim


def queued(node: Node) -> list[str]:
    """Return the senders in the queue, in the order of the log."""
    return [fact["sender"] for fact in facts(node, "claim_awaited")]


def held_by(node: Node, item: str) -> list[str]:
    return [claim["holder"] for claim in node.call(OWNER, CheckClaim(item=item))["claims"]]


def test_waiting_commands_get_the_claim_in_the_order_of_their_requests(
    node: Node, tmp_path: Path
) -> None:
    names = ["carla", "anton", "berta", "dora"]
    tokens = keep(node, "holder", *names)
    holder = Credentials(token=tokens["holder"])
    node.call(holder, AcquireClaim(item="B-1"))
    with contextlib.ExitStack() as stack:
        waiting = {}
        for place, name in enumerate(names):
            asks = ("claim", "acquire", "--item", "B-1", "--wait", "120s", "--from", name)
            waiting[name] = stack.enter_context(running(start(node.directory, tmp_path, *asks)))
            until(lambda place=place: len(queued(node)) == place + 1)  # type: ignore[misc]
        assert queued(node) == [f"@{name}" for name in names]
        node.call(holder, ReleaseClaim(item="B-1"))
        fences = []
        for name in names:
            status, answer = finish(waiting.pop(name))
            assert (status, answer["acquired"]) == (0, True)
            assert answer["claim"]["holder"] == f"@{name}"
            assert held_by(node, "B-1") == [f"@{name}"]
            assert all(process.poll() is None for process in waiting.values())
            fences.append(answer["claim"]["fence"])
            node.call(Credentials(token=tokens[name]), ReleaseClaim(item="B-1"))
    assert fences == sorted(set(fences))
    granted = [fact["outcome"]["sender"] for fact in facts(node, "claim_granted")]
    assert granted == ["holder", *names]
    assert held_by(node, "B-1") == []


def test_killed_waiter_loses_its_place_when_its_lease_expires(
    directory: str, tmp_path: Path
) -> None:
    """The test moves the clock past the lease of the killed waiter only."""
    clock = MovedClock()
    with Node(directory, clock=clock) as node:
        tokens = keep(node, "holder", "dead", "alive")
        holder = Credentials(token=tokens["holder"])
        node.call(holder, AcquireClaim(item="B-1"))
        asks = ("claim", "acquire", "--item", "B-1")
        first = start(directory, tmp_path, *asks, "--wait", "25s", "--from", "dead")
        with running(first) as dead:
            until(lambda: queued(node) == ["@dead"])
            dead.kill()
        second = start(directory, tmp_path, *asks, "--wait", "120s", "--from", "alive")
        with running(second) as alive:
            until(lambda: queued(node) == ["@dead", "@alive"])
            assert facts(node, "claim_wait_ended") == [], (
                "a killed waiter does not leave the queue itself"
            )
            lease = facts(node, "claim_awaited")[0]["outcome"]["lease"]
            clock.ahead += max(0, lease + 1 - clock())
            node.call(holder, ReleaseClaim(item="B-1"))
            assert held_by(node, "B-1") == ["@alive"]
            status, answer = finish(alive)
        assert (status, answer["claim"]["holder"]) == (0, "@alive")
        granted = [fact["outcome"]["sender"] for fact in facts(node, "claim_granted")]
        assert granted == ["holder", "alive"]


def test_claim_of_a_killed_waiter_passes_to_the_next(directory: str, tmp_path: Path) -> None:
    """The dead waiter gets the claim with a short lease. The test moves the clock past it."""
    moved = tmp_path / "moved"
    moved.write_text("0")
    with Node(directory, clock=lambda: time.time_ns() // 10**6 + int(moved.read_text())) as node:
        tokens = join_all(node, "holder", "dead", "alive")
        holder = Credentials(token=tokens["holder"])
        node.call(holder, AcquireClaim(item="B-1"))
        with workers(2) as (dead, alive):
            for place, (name, waiter) in enumerate({"dead": dead, "alive": alive}.items()):
                waiter.ask(do="open", directory=directory, moved=str(moved))
                waiter.tell(do="acquire", token=tokens[name], item="B-1", wait_s=600)
                until(lambda place=place: len(queued(node)) == place + 1)  # type: ignore[misc]
            dead.kill()
            node.call(holder, ReleaseClaim(item="B-1"))
            assert held_by(node, "B-1") == ["@dead"]
            draft = tmp_path / "moved.new"
            draft.write_text("31000")
            draft.replace(moved)
            answer = alive.hear()
        assert answer["claim"]["holder"] == "@alive"
        assert held_by(node, "B-1") == ["@alive"]
        granted = [fact["outcome"]["sender"] for fact in facts(node, "claim_granted")]
        assert granted == ["holder", "dead", "alive"]
        assert audit.verify(node)["ok"]


# --- mail between processes


def whole_inbox(node: Node, token: str) -> list[Json]:
    """All open mail, page by page."""
    found: list[Json] = []
    after: int | None = 0
    while after is not None:
        page = node.call(Credentials(token=token), ListInbox(limit=1000, after=after))
        found += page["messages"]
        after = page.get("next")
    return found


@pytest.mark.long
def test_2000_messages_of_each_of_two_processes_arrive_once_in_the_order_of_the_log(
    node: Node, gate: Gate
) -> None:
    tokens = join_all(node, "left", "right", "reader")
    with workers(2) as senders:
        for sender in senders:
            sender.ask(do="open", directory=node.directory)
        told = {
            sender: {"token": tokens[name], "prefix": name}
            for sender, name in zip(senders, ("left", "right"), strict=True)
        }
        answers = gate.race(told, do="send_many", to="@reader", count=2000)
    assert [answer for answer in answers if "refused" in answer] == []
    inbox = whole_inbox(node, tokens["reader"])
    assert len(inbox) == 4000
    positions = [message["seq"] for message in inbox]
    assert positions == sorted(set(positions))
    for name, answer in zip(("left", "right"), answers, strict=True):
        arrived = [message for message in inbox if message["from"] == f"@{name}"]
        texts = [message["payload"]["text"] for message in arrived]
        assert texts == [f"{name}-{number}" for number in range(2000)]
        assert [[message["seq"], message["id"]] for message in arrived] == answer["sent"]
    logged = [fact["outcome"]["id"] for fact in facts(node, "message_sent")]
    assert logged == [message["id"] for message in inbox]
    assert audit.verify(node)["ok"]


def wait_for_mail(directory: str, tmp_path: Path) -> "subprocess.Popen[bytes]":
    return start(directory, tmp_path, "inbox", "--wait", "120s", "--from", "reader")


def is_waiting(directory: str) -> bool:
    """Whether presence shows that a client listens for the reader's mail."""
    return Presence(directory).reach(["reader"], 0)[0] == "wakes"


def pipes_in(bells: str) -> int:
    """Return the number of doorbell pipes, without drafts."""
    if not os.path.isdir(bells):
        return 0
    return len([name for name in os.listdir(bells) if not name.startswith(".")])


def check_arrival(node: Node, tokens: dict[str, str], reader: "subprocess.Popen[bytes]") -> None:
    """Send a message from this process, and check that the waiting command returns it."""
    node.call(Credentials(token=tokens["sender"]), SendMessage("@reader", {"text": "up"}, "send"))
    status, answer = finish(reader)
    assert status == 0
    assert [message["payload"]["text"] for message in answer["messages"]] == ["up"]


def test_a_waiting_reader_is_woken_by_another_process(node: Node, tmp_path: Path) -> None:
    tokens = keep(node, "sender", "reader")
    with running(wait_for_mail(node.directory, tmp_path)) as reader:
        bells = os.path.join(node.directory, "bells")
        until(lambda: is_waiting(node.directory) and pipes_in(bells) == 1)
        check_arrival(node, tokens, reader)
    assert os.listdir(bells) == []


def test_waiting_reader_gets_mail_after_its_pipe_was_deleted(node: Node, tmp_path: Path) -> None:
    tokens = keep(node, "sender", "reader")
    with running(wait_for_mail(node.directory, tmp_path)) as reader:
        bells = os.path.join(node.directory, "bells")
        until(lambda: is_waiting(node.directory) and pipes_in(bells) == 1)
        shutil.rmtree(bells)
        Path(bells).write_text("not a directory")
        check_arrival(node, tokens, reader)


def test_waiting_reader_gets_mail_without_a_pipe(node: Node, tmp_path: Path) -> None:
    tokens = keep(node, "sender", "reader")
    bells = os.path.join(node.directory, "bells")
    shutil.rmtree(bells, ignore_errors=True)
    Path(bells).write_text("not a directory")
    with running(wait_for_mail(node.directory, tmp_path)) as reader:
        until(lambda: is_waiting(node.directory) or reader.poll() is not None)
        check_arrival(node, tokens, reader)


def test_next_commit_deletes_the_pipe_of_a_killed_reader(node: Node, tmp_path: Path) -> None:
    tokens = keep(node, "sender", "reader")
    bells = os.path.join(node.directory, "bells")
    with running(wait_for_mail(node.directory, tmp_path)) as reader:
        until(lambda: is_waiting(node.directory) and pipes_in(bells) == 1)
        reader.kill()
    assert len(os.listdir(bells)) == 1
    act = SendMessage("@reader", {"text": "up"}, "send")
    sent = node.call(Credentials(token=tokens["sender"]), act)
    assert os.listdir(bells) == []
    assert sent["deliveries"][0]["reach"] != "wakes"


# --- creating a workspace


@pytest.mark.parametrize("there", ["absent", "empty"])
def test_16_processes_create_one_workspace_at_the_same_instant(
    there: str, tmp_path: Path, gate: Gate
) -> None:
    with workers(16) as makers:
        for number in range(10):
            directory = str(tmp_path / f"fresh-{number}")
            if there == "empty":
                os.mkdir(directory)
            answers = gate.race({maker: {} for maker in makers}, do="open", directory=directory)
            assert [answer for answer in answers if "refused" in answer] == []
            assert len({answer["workspace"] for answer in answers}) == 1
            assert {maker.ask(do="close")["closed"] for maker in makers} == {True}
            with Node(directory) as node:
                assert [fact["kind"] for fact in facts(node)] == ["workspace_created"]
                assert audit.verify(node)["ok"]
            assert len(os.listdir(os.path.join(directory, "keys"))) == 1


def test_process_that_opens_during_creation_finds_the_workspace(
    directory: str,
) -> None:
    with Worker() as late:
        late.tell(do="open_late", directory=directory)
        assert late.hear() == {"paused": True}
        with Node(directory) as node:
            join_all(node, "otto")
            late.tell(go=True)
            answer = late.hear()
    assert "refused" not in answer, answer


def test_16_commands_create_one_workspace_at_once(directory: str, tmp_path: Path) -> None:
    started = [
        start(directory, tmp_path, "join", f"agent-{number}", "--surface", "cli")
        for number in range(16)
    ]
    ended = [finish(process) for process in started]
    assert [status for status, _ in ended] == [0] * 16, ended
    with Node(directory) as node:
        kinds = [fact["kind"] for fact in facts(node)]
        assert kinds[0] == "workspace_created"
        assert kinds.count("workspace_created") == 1
        assert kinds.count("agent_joined") == 16
        assert audit.verify(node)["ok"]


# --- a suspended writer


def turn_is_held(directory: str) -> bool:
    with open(os.path.join(directory, "turnstile.turn"), "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def stopped_writer(directory: str, token: str, text: str) -> Iterator[Worker]:
    """Suspend a process in the middle of a send, after its writes and before COMMIT."""
    with Worker() as writer:
        writer.ask(do="open_stopping", directory=directory)
        writer.tell(do="stop_before_commit", token=token, to="@reader", text=text)
        assert writer.hear() == {"stopping": True}
        until(writer.stopped)
        assert turn_is_held(directory)
        yield writer
        writer.signal(signal.SIGCONT)


def texts(node: Node, token: str) -> list[str]:
    return [message["payload"]["text"] for message in whole_inbox(node, token)]


def test_suspended_writer_makes_others_fail_in_time_without_a_write(node: Node) -> None:
    tokens = join_all(node, "sleeper", "other", "reader")
    with Worker() as other:
        other.ask(do="open", directory=node.directory, patience_s=0.5)
        with stopped_writer(node.directory, tokens["sleeper"], "slow") as sleeper:
            before = time.monotonic()
            refused = other.ask(**send(tokens["other"], "refused"))
            assert time.monotonic() - before < 10
            assert refused["refused"] == "ENGINE_UNAVAILABLE", refused
            assert texts(node, tokens["reader"]) == []  # reads do not wait
            sleeper.signal(signal.SIGCONT)
            assert sleeper.hear()["accepted"]
        other.ask(do="patience", seconds=LIMIT_S)
        # The refused node serves the next call, and never executes the refused write.
        assert other.ask(**send(tokens["other"], "later"))["accepted"]
    assert texts(node, tokens["reader"]) == ["slow", "later"], refused["message"]
    assert "Nothing was done" in refused["message"]
    assert audit.verify(node)["ok"]


def test_process_refused_because_of_a_suspended_writer_can_end(node: Node) -> None:
    tokens = join_all(node, "sleeper", "other", "reader")
    with stopped_writer(node.directory, tokens["sleeper"], "slow"), Worker() as other:
        other.ask(do="open", directory=node.directory, patience_s=0.5)
        refused = other.ask(**send(tokens["other"], "refused"))
        assert refused["refused"] == "ENGINE_UNAVAILABLE"
        before = time.monotonic()
        assert other.ask(do="close") == {"closed": True}
        other.end()
        assert time.monotonic() - before < 10
    assert texts(node, tokens["reader"]) == ["slow"]
    assert audit.verify(node)["ok"]


def test_suspended_writer_that_is_killed_has_written_nothing(node: Node) -> None:
    tokens = join_all(node, "sleeper", "other", "reader")
    with Worker() as other:
        other.ask(do="open", directory=node.directory)
        with stopped_writer(node.directory, tokens["sleeper"], "slow") as sleeper:
            other.tell(**send(tokens["other"], "after"))
            sleeper.kill()
            assert other.hear()["accepted"]
    assert texts(node, tokens["reader"]) == ["after"]
    assert audit.verify(node)["ok"]


# --- verifying concurrently with writers


def test_verify_finds_no_damage_while_others_write(node: Node) -> None:
    """The writers store new checkpoints meanwhile. A checkpoint that is newer than the snapshot of
    the log must not look like a cut tail."""
    tokens = join_all(node, "writer")
    writer = Credentials(token=tokens["writer"])
    with Worker() as verifier:
        verifier.ask(do="open", directory=node.directory)
        verifier.tell(do="verify", pause=True)
        assert verifier.hear() == {"paused": True}
        for number in range(300):
            node.call(writer, SendMessage("@writer", {"text": str(number)}, "send"))
        verifier.tell(go=True)
        found = verifier.hear()
    assert found["ok"], found
    assert audit.verify(node)["ok"]


# --- restoring concurrently with writers


def test_write_during_a_restore_is_refused_or_in_the_abandoned_log(
    node: Node, tmp_path: Path
) -> None:
    """An accepted write never disappears without a trace."""
    tokens = join_all(node, "writer", "reader")
    upkeep.backup(node, OWNER, str(tmp_path / "backup"))
    with workers(2) as (restorer, writer):
        restorer.ask(do="open", directory=node.directory)
        writer.ask(do="open", directory=node.directory, patience_s=1)
        restorer.tell(do="restore", source=str(tmp_path / "backup"), pause=True)
        assert restorer.hear() == {"paused": True}
        late = writer.ask(**send(tokens["writer"], "late"))
        restorer.tell(go=True)
        restored = restorer.hear()
    assert restored["restored"], restored
    (started,) = facts(node, "epoch_started")
    abandoned = apsw.Connection(restored["abandoned"], flags=apsw.SQLITE_OPEN_READONLY)
    headers = [parse_header(bytes(row[0])) for row in abandoned.execute("SELECT header FROM log")]
    abandoned.close()
    assert len(headers) == started["outcome"]["abandoned"]["seq"]
    if late.get("accepted"):
        kept = [fact.outcome.get("id") for fact in headers]
        assert late["message"]["id"] in kept
    else:
        assert late["refused"] == "ENGINE_UNAVAILABLE"
    assert audit.verify(node)["ok"]
