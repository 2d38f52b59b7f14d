"""kill -9 at any instant: the log has every answered write once, and the next command works.

Every case kills one writing process after the other: while it starts, while it opens or creates
the workspace, and during its group commits. The id of a case is its seed.
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

# Shorter than each of Interlock's timeouts, so that no command can have waited for one.
PROMPT_S = 9.0


class WriterLife:
    """A writing process from its start to its kill, and every line that it printed."""

    def __init__(self, directory: str, token: str, prefix: str, *, fresh: bool = False) -> None:
        words = directory, token, prefix, str(THREADS), "fresh" if fresh else "known"
        self._writer = Worker(*words)
        self.printed: list[list[Any]] = []

    def until_printed(self, what: str, times: int = 1) -> None:
        while sum(words[0] == what for words in self.printed) < times:
            self._hear(time.monotonic() + LIMIT_S)

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._hear(deadline):
            pass

    def _hear(self, deadline: float) -> bool:
        line = self._writer.line(deadline)
        if line:
            self.printed.append(json.loads(line))
        assert line != b"", f"the writer ended by itself after {self.printed[-3:]}"
        assert not line or self.printed[-1][0] != "error", self.printed[-1]
        return line is not None

    def kill(self) -> None:
        """Kill the writer with SIGKILL. Read the lines that it printed before."""
        self._writer.kill()
        while line := self._writer.line(time.monotonic() + LIMIT_S):
            self.printed.append(json.loads(line))
            assert self.printed[-1][0] != "error", self.printed[-1]
        self._writer.end()

    def __enter__(self) -> "WriterLife":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.kill()
        self._writer.end()

    def answered(self, kind: str) -> list[list[Any]]:
        return [words[2:] for words in self.printed if words[:2] == ["!", kind]]

    def unanswered(self) -> list[str]:
        """Return the keyed requests that had no answer when the writer was killed."""
        answered = {text for text, *_ in self.answered("sent")}
        return [words[1] for words in self.printed if words[0] == "?" and words[1] not in answered]


class Ledger:
    """The writes that must be in the log. `check` compares them with the log after each kill."""

    def __init__(self, directory: str, writer: str, checker: str) -> None:
        self.directory = directory
        self.writer, self.checker = Credentials(token=writer), Credentials(token=checker)
        self.sent: dict[str, str] = {}
        self.groups = 0
        self._checked = 0

    def check(self, life: WriterLife) -> None:
        before = time.monotonic()
        with link.open_node(self.directory) as node:
            accepted = node.call(self.checker, SendMessage("@reader", {"text": "next"}, "send"))
            assert accepted["accepted"]
            assert time.monotonic() - before < PROMPT_S
            verified = audit.verify(node)
            assert verified["ok"], verified
            new = facts(node, after=self._checked)
            self._checked = new[-1]["seq"]
            self._check_answers(life, new)
            self._try_again(life, node)
        sizes = Counter(fact["at"] for fact in new if fact["sender"] == "@writer")
        self.groups += sum(size > 1 for size in sizes.values())

    def _check_answers(self, life: WriterLife, new: list[Json]) -> None:
        messages = Counter(
            (fact["outcome"]["id"], fact["seq"]) for fact in new if fact["kind"] == "message_sent"
        )
        for text, id, seq in life.answered("sent"):
            assert messages[id, seq] == 1, text
            assert self.sent.setdefault(text, id) == id
        for kind, printed in (("claim_granted", "claimed"), ("claim_released", "released")):
            logged = Counter(fact["outcome"]["id"] for fact in new if fact["kind"] == kind)
            for item, claim, _ in life.answered(printed):
                assert logged[claim] == 1, (item, printed)
        granted = [f["outcome"]["fence"] for f in new if f["kind"] == "claim_granted"]
        assert granted == sorted(set(granted))
        assert {fence for _, _, fence in life.answered("claimed")} <= set(granted)

    def _try_again(self, life: WriterLife, node: Node) -> None:
        """Repeat each unanswered request with its key, twice. Both get the same answer."""
        for text in life.unanswered():
            act = SendMessage("@reader", {"text": text}, "send", key=text)
            first = node.call(self.writer, act)["message"]["id"]
            assert node.call(self.writer, act)["message"]["id"] == first
            self.sent[text] = first

    def check_all(self, node: Node) -> None:
        """Check that the log has each message of all writers exactly once."""
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
    """Create a workspace without a rate limit. Return the tokens of its senders."""
    with link.open_node(directory) as node:
        node.call(OWNER, ChangeSetting("limits.sends_per_minute", "0"))
        return join_all(node, "writer", "reader", "checker", "survivor")


def run(directory: str, tmp_path: Path, *words: str, limit_s: float = LIMIT_S) -> Json:
    """Run a command, which must succeed, and return its answer."""
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
def test_log_has_each_answered_write_of_a_killed_writer_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    directory = str(tmp_path / "workspace")
    known = prepared(directory)
    ledger = Ledger(directory, known["writer"], known["checker"])
    plan = ["writing"] * KILLS_WHILE_WRITING + ["starting"] * KILLS_WHILE_STARTING
    chance.shuffle(plan)
    for number, phase in enumerate(plan):
        with WriterLife(directory, known["writer"], f"life-{number}") as life:
            if phase == "starting":
                life.wait(chance.uniform(0, 0.25))
            else:
                life.until_printed("!", chance.randint(1, 100))
                life.wait(chance.uniform(0, 0.005))
            life.kill()
        ledger.check(life)
    with link.open_node(directory) as node:
        ledger.check_all(node)
    assert run(directory, tmp_path, "audit", "verify", limit_s=PROMPT_S)["ok"]
    # Most kills hit a writer whose transactions had several requests.
    assert ledger.groups >= KILLS_WHILE_WRITING


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_writer_killed_while_creating_the_workspace_leaves_a_usable_one(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    for number in range(KILLS_WHILE_MAKING):
        directory = str(tmp_path / f"fresh-{number}")
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        with WriterLife(directory, token, "first", fresh=True) as life:
            life.until_printed("opening")
            life.wait(chance.uniform(0, chance.choice((0.01, 0.04))))
            life.kill()
        before = time.monotonic()
        with link.open_node(directory) as node:
            known = join_all(node, "reader", "checker")
            assert time.monotonic() - before < PROMPT_S
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
def test_open_node_continues_while_other_writers_are_killed(tmp_path: Path) -> None:
    """The survivor keeps the file open, so no process recovers the WAL when it opens the file."""
    chance = random.Random(2)
    directory = str(tmp_path / "workspace")
    known = prepared(directory)
    ledger = Ledger(directory, known["writer"], known["checker"])
    with Worker() as survivor:
        survivor.ask(do="open", directory=directory)
        for number in range(20):
            with WriterLife(directory, known["writer"], f"life-{number}") as life:
                life.until_printed("!", chance.randint(1, 60))
                survivor.tell(
                    do="send_many", token=known["survivor"], to="@reader", prefix=number, count=20
                )
                life.wait(chance.uniform(0, 0.01))
                life.kill()
            before = time.monotonic()
            assert len(survivor.hear()["sent"]) == 20
            assert time.monotonic() - before < PROMPT_S
            ledger.check(life)
    with link.open_node(directory) as node:
        ledger.check_all(node)
        inbox = node.call(Credentials(token=known["survivor"]), ListInbox("sent", 1000))
    texts = [message["payload"]["text"] for message in inbox["messages"]]
    assert texts == [f"{life}-{number}" for life in range(20) for number in range(20)]


@pytest.mark.long
def test_next_command_works_after_a_command_was_killed(
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
        if number < 9:  # the first command may have been killed before it created the workspace
            run(directory, tmp_path, "agents", limit_s=PROMPT_S)
        if number == 9:
            run(directory, tmp_path, "join", "first", limit_s=PROMPT_S)
        if number >= 10:  # with the key, a retry is safe
            assert run(directory, tmp_path, *words, limit_s=PROMPT_S)["accepted"]
        assert run(directory, tmp_path, "audit", "verify", limit_s=PROMPT_S)["ok"]
    with link.open_node(directory) as node:
        first = workspace.CredentialStore(directory).get("first")
        assert first is not None
        inbox = node.call(Credentials(token=first.token), ListInbox())
    texts = [message["payload"]["text"] for message in inbox["messages"]]
    assert texts == [f"text-{number}" for number in range(10, 20)]


@pytest.mark.long
def test_killed_restore_leaves_the_old_log_or_the_new_epoch(tmp_path: Path) -> None:
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
            assert time.monotonic() - before < PROMPT_S
            kinds = Counter(fact["kind"] for fact in facts(node))
            assert (kinds["message_sent"], kinds["epoch_started"]) in ((5, 0), (0, 1))
            assert audit.verify(node)["ok"]
            # The restore can be repeated in both cases.
            answer = upkeep.restore(node, OWNER, copy)
            assert audit.verify(node)["ok"]
            abandoned = facts(node, "epoch_started")[-1]["outcome"]["abandoned"]
        assert entries(answer["abandoned"]) == abandoned["seq"]


# --- files of killed processes
#
# Process ids repeat. In a restarted container, a new process often has the id of the killed one.


@pytest.mark.parametrize("left", ["keys/checkpoint.key.{pid}", "log.db.{pid}.{thread}"])
def test_open_works_after_a_killed_process_with_the_same_pid(left: str, tmp_path: Path) -> None:
    directory = tmp_path / "workspace"
    with Worker() as worker:
        worker.ask(do="leave_behind", path=str(directory / left))
        if left.startswith("keys"):
            (directory / "log.db").touch()
        answer = worker.ask(do="open", directory=str(directory))
    assert "refused" not in answer, answer


def test_wait_works_with_a_pipe_of_a_killed_process_with_the_same_pid(tmp_path: Path) -> None:
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


def test_restore_works_with_a_draft_of_a_killed_process_with_the_same_pid(
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


def test_restore_replaces_a_partial_copy_of_the_abandoned_log(
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
    """Return the number of entries of the log in a file."""
    file = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(file.execute("SELECT count(*) FROM log").get)
    finally:
        file.close()


# --- after COMMIT


def test_committed_write_is_answered_even_if_no_checkpoint_can_be_stored(
    tmp_path: Path,
) -> None:
    """A refused caller may retry, so the node must not refuse a write that is in the log."""
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
