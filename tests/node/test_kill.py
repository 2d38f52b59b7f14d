"""kill -9 at any instant: what was answered is there, once, and the next command works at once.

Every case kills one writing process after the other: while it starts, while it opens the
workspace or makes it, and in the middle of its group commits. A case is named by its seed.
"""

import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.local import link, workspace
from interlock.node import Node, audit, proofs, upkeep
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join, ListAgents
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ChangeSetting
from interlock.verbs.credentials import Credentials
from world.processes import LIMIT_S, Json, Worker, command, environment, join_all
from world.workspace import OWNER, facts

SEEDS = range(10)
KILLS_WHILE_WRITING = 12
KILLS_WHILE_STARTING = 4
KILLS_WHILE_MAKING = 4
THREADS = 8

# "At once": less than any of Interlock's own timeouts, so that none of them can have run out.
AT_ONCE_S = 9.0


class Life:
    """A writing process from its start to its kill, and everything that it said."""

    def __init__(self, directory: str, token: str, prefix: str, *, fresh: bool = False) -> None:
        words = directory, token, prefix, str(THREADS), "fresh" if fresh else "known"
        self._writer = Worker(*words)
        self.said: list[list[Any]] = []

    def until_said(self, what: str, times: int = 1) -> None:
        while sum(words[0] == what for words in self.said) < times:
            self._hear(time.monotonic() + LIMIT_S)

    def for_a_while(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._hear(deadline):
            pass

    def _hear(self, deadline: float) -> bool:
        line = self._writer.line(deadline)
        if line:
            self.said.append(json.loads(line))
        assert line != b"", f"the writer ended by itself after {self.said[-3:]}"
        assert not line or self.said[-1][0] != "error", self.said[-1]
        return line is not None

    def kill(self) -> None:
        """kill -9. What it said before and nobody has read yet was said all the same."""
        self._writer.kill()
        while line := self._writer.line(time.monotonic() + LIMIT_S):
            self.said.append(json.loads(line))
            assert self.said[-1][0] != "error", self.said[-1]
        self._writer.end()

    def __enter__(self) -> "Life":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.kill()
        self._writer.end()

    def answered(self, kind: str) -> list[list[Any]]:
        return [words[2:] for words in self.said if words[:2] == ["!", kind]]

    def unanswered(self) -> list[str]:
        """The keyed acts on their way when it was killed: done or not, nobody was told."""
        told = {text for text, *_ in self.answered("sent")}
        return [words[1] for words in self.said if words[0] == "?" and words[1] not in told]


class Ledger:
    """What must be in the log, compared with the log after each kill."""

    def __init__(self, directory: str, writer: str, checker: str) -> None:
        self.directory = directory
        self.writer, self.checker = Credentials(token=writer), Credentials(token=checker)
        self.sent: dict[str, str] = {}
        self.groups = 0
        self._checked = 0

    def check(self, life: Life) -> None:
        before = time.monotonic()
        with link.open_node(self.directory) as node:
            accepted = node.call(self.checker, SendMessage("@reader", {"text": "next"}, "send"))
            assert accepted["accepted"]
            assert time.monotonic() - before < AT_ONCE_S
            verified = audit.verify(node)
            assert verified["ok"], verified
            new = facts(node, after=self._checked)
            self._checked = new[-1]["seq"]
            self._check_answers(life, new)
            self._try_again(life, node)
        sizes = Counter(fact["at"] for fact in new if fact["sender"] == "@writer")
        self.groups += sum(size > 1 for size in sizes.values())

    def _check_answers(self, life: Life, new: list[Json]) -> None:
        messages = Counter(
            (fact["outcome"]["id"], fact["seq"]) for fact in new if fact["kind"] == "message_sent"
        )
        for text, id, seq in life.answered("sent"):
            assert messages[id, seq] == 1, text
            assert self.sent.setdefault(text, id) == id
        for kind, said in (("claim_granted", "claimed"), ("claim_released", "released")):
            logged = Counter(fact["outcome"]["id"] for fact in new if fact["kind"] == kind)
            for item, claim, _ in life.answered(said):
                assert logged[claim] == 1, (item, said)
        granted = [f["outcome"]["fence"] for f in new if f["kind"] == "claim_granted"]
        assert granted == sorted(set(granted))
        assert {fence for _, _, fence in life.answered("claimed")} <= set(granted)

    def _try_again(self, life: Life, node: Node) -> None:
        """The same key again: done now, or the first answer."""
        for text in life.unanswered():
            act = SendMessage("@reader", {"text": text}, "send", key=text)
            first = node.call(self.writer, act)["message"]["id"]
            assert node.call(self.writer, act)["message"]["id"] == first
            self.sent[text] = first

    def check_all(self, node: Node) -> None:
        """At the end: every message of all lives, none lost and none twice."""
        found: Counter[str] = Counter()
        ids: dict[str, str] = {}
        after: int | None = 0
        while after is not None:
            page = node.call(self.writer, ListInbox("sent", 1000, after))
            for message in page["messages"]:
                found[message["payload"]["text"]] += 1
                ids[message["payload"]["text"]] = message["id"]
            after = page.get("next")
        assert [text for text, count in found.items() if count > 1] == []
        assert {text: ids.get(text) for text in self.sent} == self.sent


def prepared(directory: str) -> dict[str, str]:
    """Makes a workspace for a writer that knows no limit; gives the tokens."""
    with link.open_node(directory) as node:
        node.call(OWNER, ChangeSetting("limits.sends_per_minute", "0"))
        return join_all(node, "writer", "reader", "checker", "survivor")


def run(directory: str, tmp_path: Path, *words: str, limit_s: float = LIMIT_S) -> Json:
    """A real command, which must succeed."""
    done = subprocess.run(
        command(*words, "--json"),
        capture_output=True,
        env=environment(directory, str(tmp_path)),
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    answer: Json = json.loads(done.stdout)
    return answer


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_killed_writer_was_told_is_there_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    directory = str(tmp_path / "workspace")
    known = prepared(directory)
    ledger = Ledger(directory, known["writer"], known["checker"])
    plan = ["writing"] * KILLS_WHILE_WRITING + ["starting"] * KILLS_WHILE_STARTING
    chance.shuffle(plan)
    for number, phase in enumerate(plan):
        with Life(directory, known["writer"], f"life-{number}") as life:
            if phase == "starting":
                life.for_a_while(chance.uniform(0, 0.25))
            else:
                life.until_said("!", chance.randint(1, 100))
                life.for_a_while(chance.uniform(0, 0.005))
            life.kill()
        ledger.check(life)
    with link.open_node(directory) as node:
        ledger.check_all(node)
    assert run(directory, tmp_path, "audit", "verify", limit_s=AT_ONCE_S)["ok"]
    # Most kills hit a writer whose COMMITs held several acts.
    assert ledger.groups >= KILLS_WHILE_WRITING


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_writer_killed_while_it_makes_the_workspace_leaves_one_that_works(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    for number in range(KILLS_WHILE_MAKING):
        directory = str(tmp_path / f"fresh-{number}")
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        with Life(directory, token, "first", fresh=True) as life:
            life.until_said("opening")
            life.for_a_while(chance.uniform(0, chance.choice((0.01, 0.04))))
            life.kill()
        before = time.monotonic()
        with link.open_node(directory) as node:
            known = join_all(node, "reader", "checker")
            assert time.monotonic() - before < AT_ONCE_S
            kinds = Counter(fact["kind"] for fact in facts(node))
            assert kinds["workspace_created"] == 1
            assert facts(node)[0]["kind"] == "workspace_created"
            joined = [agent["agent"] for agent in node.call(OWNER, ListAgents())["agents"]]
            assert len(joined) == len(set(joined))
            if life.answered("joined"):
                assert "writer" in joined
            if "writer" not in joined:
                node.call(OWNER, Join("writer", token_hash=token_format.hashed(token)))
        Ledger(directory, token, known["checker"]).check(life)


@pytest.mark.long
def test_an_open_node_goes_on_at_once_beside_writers_that_are_killed(tmp_path: Path) -> None:
    """The survivor has the file open all the time, so nobody recovers the WAL on opening it."""
    chance = random.Random(2)
    directory = str(tmp_path / "workspace")
    known = prepared(directory)
    ledger = Ledger(directory, known["writer"], known["checker"])
    with Worker() as survivor:
        survivor.ask(do="open", directory=directory)
        for number in range(20):
            with Life(directory, known["writer"], f"life-{number}") as life:
                life.until_said("!", chance.randint(1, 60))
                survivor.tell(
                    do="send_many", token=known["survivor"], to="@reader", prefix=number, count=20
                )
                life.for_a_while(chance.uniform(0, 0.01))
                life.kill()
            before = time.monotonic()
            assert len(survivor.hear()["sent"]) == 20
            assert time.monotonic() - before < AT_ONCE_S
            ledger.check(life)
    with link.open_node(directory) as node:
        ledger.check_all(node)
        inbox = node.call(Credentials(token=known["survivor"]), ListInbox("sent", 1000))
    texts = [message["payload"]["text"] for message in inbox["messages"]]
    assert texts == [f"{life}-{number}" for life in range(20) for number in range(20)]


@pytest.mark.long
def test_commands_that_are_killed_leave_a_workspace_that_the_next_command_uses(
    tmp_path: Path,
) -> None:
    chance = random.Random(3)
    directory = str(tmp_path / "workspace")
    for number in range(20):
        words = ["send", "@first", f"text-{number}", "--from", "first", "--key", f"key-{number}"]
        if number < 10:
            words = ["join", f"agent-{number}"]
        killed = subprocess.Popen(
            command(*words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(directory, str(tmp_path)),
        )
        try:
            killed.wait(chance.uniform(0.03, 0.3))
        except subprocess.TimeoutExpired:
            killed.kill()
            killed.wait()
        if number < 9:  # the very first may have been killed before it made anything
            run(directory, tmp_path, "agents", limit_s=AT_ONCE_S)
        if number == 9:
            run(directory, tmp_path, "join", "first", limit_s=AT_ONCE_S)
        if number >= 10:  # with the key it is safe to try again, whatever became of the first
            assert run(directory, tmp_path, *words, limit_s=AT_ONCE_S)["accepted"]
        assert run(directory, tmp_path, "audit", "verify", limit_s=AT_ONCE_S)["ok"]
    with link.open_node(directory) as node:
        first = workspace.CredentialStore(directory).get("first")
        assert first is not None
        inbox = node.call(Credentials(token=first.token), ListInbox())
    texts = [message["payload"]["text"] for message in inbox["messages"]]
    assert texts == [f"text-{number}" for number in range(10, 20)]


@pytest.mark.long
def test_a_restore_that_is_killed_leaves_the_old_log_or_the_new_epoch(tmp_path: Path) -> None:
    chance = random.Random(4)
    for number in range(20):
        directory, copy = str(tmp_path / f"workspace-{number}"), str(tmp_path / f"copy-{number}")
        with link.open_node(directory) as node:
            otto = Credentials(token=join_all(node, "otto")["otto"])
            upkeep.backup(node, OWNER, copy)
            for text in range(5):
                node.call(otto, SendMessage("@otto", {"text": str(text)}, "send"))
            proofs.checkpoint(node)
        with Worker() as restorer:
            restorer.ask(do="open", directory=directory)
            restorer.tell(do="restore", source=copy)
            restorer.line(time.monotonic() + chance.uniform(0, 0.03))
            restorer.kill()
        before = time.monotonic()
        with link.open_node(directory) as node:
            join_all(node, "vera")
            assert time.monotonic() - before < AT_ONCE_S
            kinds = Counter(fact["kind"] for fact in facts(node))
            assert (kinds["message_sent"], kinds["epoch_started"]) in ((5, 0), (0, 1))
            assert audit.verify(node)["ok"]
            # Whatever became of the first, the restore can be done again.
            answer = upkeep.restore(node, OWNER, copy)
            assert audit.verify(node)["ok"]
            abandoned = facts(node, "epoch_started")[-1]["outcome"]["abandoned"]
        assert entries(answer["abandoned"]) == abandoned["seq"]


# --- what killed processes leave behind. Their numbers come again: in a container that is
# started again, the very same ones.


@pytest.mark.parametrize("left", ["keys/checkpoint.key.{pid}", "log.db.{pid}.{thread}"])
def test_a_workspace_half_made_by_a_killed_process_of_the_same_number_is_no_obstacle(
    left: str, tmp_path: Path
) -> None:
    directory = tmp_path / "workspace"
    with Worker() as worker:
        worker.ask(do="leave_behind", path=str(directory / left))
        if left.startswith("keys"):
            (directory / "log.db").touch()
        answer = worker.ask(do="open", directory=str(directory))
    assert "refused" not in answer, answer


def test_a_bell_left_by_a_killed_process_of_the_same_number_is_no_obstacle(tmp_path: Path) -> None:
    directory = tmp_path / "workspace"
    with link.open_node(str(directory)) as node:
        known = join_all(node, "otto")
        act = SendMessage("@otto", {"text": "hello"}, "send")
        node.call(Credentials(token=known["otto"]), act)
    with Worker() as worker:
        worker.ask(do="open", directory=str(directory))
        worker.ask(do="leave_behind", path=str(directory / "bells" / "{pid}-0"), pipe=True)
        answer = worker.ask(do="inbox", token=known["otto"], wait_s=30)
    assert "refused" not in answer, answer
    assert len(answer["messages"]) == 1


def test_a_restore_left_by_a_killed_process_of_the_same_number_is_no_obstacle(
    tmp_path: Path,
) -> None:
    directory, copy = tmp_path / "workspace", str(tmp_path / "copy")
    with link.open_node(str(directory)) as node:
        upkeep.backup(node, OWNER, copy)
    with Worker() as worker:
        worker.ask(do="open", directory=str(directory))
        worker.ask(do="leave_behind", path=str(directory / "restoring-{pid}" / "log.db"))
        answer = worker.ask(do="restore", source=copy)
    assert answer.get("restored"), answer


def test_a_copy_of_the_abandoned_log_half_made_by_a_killed_restore_is_made_again(
    tmp_path: Path,
) -> None:
    directory, copy = tmp_path / "workspace", str(tmp_path / "copy")
    with link.open_node(str(directory)) as node:
        join_all(node, "otto")
        upkeep.backup(node, OWNER, copy)
        end = len(facts(node))
    (directory / f"abandoned-0-{end}.db").touch()
    with link.open_node(str(directory)) as node:
        answer = upkeep.restore(node, OWNER, copy)
    assert entries(answer["abandoned"]) == end


def entries(path: str) -> int:
    """How long the log in a file is."""
    file = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(file.execute("SELECT count(*) FROM log").get)
    finally:
        file.close()


# --- what happens after COMMIT


def test_an_act_that_was_committed_is_answered_even_if_no_checkpoint_can_be_kept(
    tmp_path: Path,
) -> None:
    """Whoever is refused may do it again: so nobody is refused what stands in the log."""
    directory = str(tmp_path)
    with link.open_node(directory) as node:
        known = join_all(node, "otto")
        otto = Credentials(token=known["otto"])
        Path(directory, "checkpoints").write_text("not a directory")
        for number in range(200):
            sent = node.call(otto, SendMessage("@otto", {"text": str(number)}, "send"))
            assert sent["accepted"]
        inbox = node.call(otto, ListInbox(limit=1000))["messages"]
    assert [message["payload"]["text"] for message in inbox] == [str(n) for n in range(200)]
