"""What a second reader found: each rule stands here with the case that once broke it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.errors import (
    EngineUnavailable,
    IdentityMismatch,
    NameTaken,
    NotHolder,
    Paused,
    Usage,
)
from interlock.local.repository import name_and_paths
from interlock.log.merkle import Frontier
from interlock.node import Node, audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import EndSession, Join, ListAgents, MintToken, StartSession
from interlock.rooms.mail.verbs import (
    AnswerAsk,
    Ask,
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    SendMessage,
    ShowReceipts,
)
from interlock.rooms.workspace.verbs import Pause, Review, ShowLog, Whoami
from interlock.verbs.credentials import Credentials

OWNER = Credentials(owner=True)


class Clock:
    """Milliseconds that go on only when told to."""

    def __init__(self) -> None:
        self.now = 1_900_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[Node]:
    (tmp_path / "workspace").mkdir()
    with Node(str(tmp_path / "workspace"), clock=clock) as opened:
        yield opened


def join(node: Node, name: str, *scopes: str) -> Credentials:
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    node.call(OWNER, Join(name, scopes=scopes, token_hash=token_format.hashed(token)))
    return Credentials(token=token)


def test_more_leases_may_end_at_once_than_are_swept_at_once(node: Node, clock: Clock) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")
    for number in range(450):
        node.call(otto, AcquireClaim(item=f"B-{number}", ttl_s=60 + number))
    node.call_once(vera, AcquireClaim(item="B-449", wait_s=3600))
    clock.now += 3_600_000
    assert node.call(vera, Whoami())["sender"] == "vera"
    for number in (0, 448, 449):
        assert node.call(vera, AcquireClaim(item=f"B-{number}"))["acquired"]


def test_threads_may_fork_at_the_same_time(tmp_path: Path) -> None:
    script = """
import os, sys, threading
from interlock.verbs.credentials import Credentials
from interlock.rooms.identity.verbs import ListAgents
from interlock.node import Node
node = Node(sys.argv[1])
def fork():
    for _ in range(20):
        child = os.fork()
        if child == 0:
            node.call(Credentials(owner=True), ListAgents())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
threads = [threading.Thread(target=fork) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
node.call(Credentials(owner=True), ListAgents())
"""
    words = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(words, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_redaction_that_is_committed_is_answered_where_the_disk_fails_afterwards(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    otto = join(node, "otto")
    sent = node.call(otto, SendMessage("@otto", {"text": "secret"}, "send"))["message"]

    def full() -> bool:
        raise EngineUnavailable("The disk is full.")

    monkeypatch.setattr(node.file, "scrub", full)
    assert node.call(otto, Redact(sent["id"], "a secret"))["redacted"]
    assert node.call(otto, SendMessage("@otto", {"text": "next"}, "send"))["accepted"]


def test_one_repository_has_one_name_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", clone], check=True)
    url = "https://user:secret@GitHub.com/acme/shop.git"
    subprocess.run(["git", "-C", clone, "remote", "add", "origin", url], check=True)
    monkeypatch.chdir(clone)
    spelled = [None, url, "git@github.com:acme/shop.git", ".", str(clone), "github.com/acme/shop"]
    assert {name_and_paths(repo, ["src/**"])[0] for repo in spelled} == {"github.com/acme/shop"}
    assert name_and_paths("a-name", ["src/**"])[0] == "a-name"


def test_where_one_stands_is_a_name_and_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "app" / "[id]").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "app" / "[id]")
    assert name_and_paths(None, ["./page.tsx"])[1] == ("app/[[]id]/page.tsx",)
    assert name_and_paths(None, ["../x.ts"])[1] == ("app/x.ts",)


def test_a_session_that_has_ended_holds_nothing_any_more(node: Node) -> None:
    otto = join(node, "otto")._replace(session="s1")
    node.call(otto, StartSession("s1"))
    node.call(otto, EndSession("s1"))
    with pytest.raises(NotHolder):
        node.call(otto, AcquireClaim(item="B-1"))


def test_a_session_is_no_other_senders(node: Node) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")
    node.call(otto._replace(session="s1"), StartSession("s1"))
    with pytest.raises(IdentityMismatch):
        node.call(vera._replace(session="s1"), AcquireClaim(item="B-1"))


def test_a_checkpoint_of_the_abandoned_log_that_comes_late_harms_nobody(
    node: Node, tmp_path: Path
) -> None:
    otto = join(node, "otto")
    upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    for _ in range(5):
        node.call(otto, SendMessage("@otto", {"text": "later"}, "send"))
    position = node._position
    assert position is not None
    frontier = Frontier.unpack(position.frontier.pack())
    late = position.workspace, position.epoch, frontier
    upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))
    node.keys.checkpoint(*late)
    assert audit.verify(node)["ok"]


def test_the_epoch_grows_also_over_a_log_that_cannot_be_folded(
    tmp_path: Path, clock: Clock
) -> None:
    directory = str(tmp_path / "workspace")
    os.mkdir(directory)
    with Node(directory, clock=clock) as node:
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
        for _ in range(2):
            epoch = upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))["epoch"]
        node.do(lambda turn: turn.db.execute("UPDATE log SET header = x'ff' WHERE seq = 1"))
        node.do(lambda turn: turn.db.execute("DROP TABLE mail_asks"))
    with Node(directory, clock=clock) as node:
        assert upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))["epoch"] == epoch + 1


def test_a_restore_obeys_the_pause(node: Node, tmp_path: Path) -> None:
    upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    node.call(OWNER, Pause())
    with pytest.raises(Paused):
        upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))


def test_nothing_is_uploaded_for_a_message_that_is_refused(node: Node) -> None:
    otto = join(node, "otto")
    node.call(OWNER, Pause())
    before = node.file.writer.total_changes()
    with pytest.raises(Paused):
        node.call(otto, SendMessage("@otto", {"text": "x" * (3 << 20)}, "send"))
    assert node.file.writer.total_changes() == before


def test_who_was_told_no_after_waiting_holds_nothing(node: Node) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")
    node.call(otto, AcquireClaim(item="B-1"))
    answer = node.call(vera, AcquireClaim(item="B-1", wait_s=1))
    assert not answer["acquired"]
    node.call(otto, ReleaseClaim(item="B-1"))
    assert not node.call(OWNER, CheckClaim(item="B-1"))["claimed"]


def test_an_admin_redacts_what_it_may_not_read(node: Node) -> None:
    otto, ada = join(node, "otto"), join(node, "ada", "admin")
    sent = node.call(otto, SendMessage("@otto", {"text": "secret"}, "send"))["message"]
    assert node.call(ada, Redact(sent["id"], "a secret"))["redacted"]
    assert "payload" not in node.call(otto, ListInbox())["messages"][0]


def test_mail_that_was_read_stays_open_until_it_is_acked(node: Node, clock: Clock) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")
    read, unread = (
        node.call(otto, SendMessage("@vera", {"text": text}, "send", ttl_s=60))["message"]["id"]
        for text in ("read", "unread")
    )
    node.call(vera, ReadMessage(read))
    clock.now += 3_600_000
    assert [message["id"] for message in node.call(vera, ListInbox())["messages"]] == [read]
    assert node.call(otto, ShowReceipts(unread))["deliveries"][0]["state"] == "expired"
    assert len(node.call(otto, ListInbox())["messages"]) == 1


def test_many_threads_send_through_one_desk(node: Node) -> None:
    otto = join(node, "otto")
    answers: list[bool] = []

    def send() -> None:
        for _ in range(20):
            sent = node.call(otto, SendMessage("@otto", {"text": "hi"}, "send"))
            answers.append(sent["accepted"])

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 320
    assert node.call(otto, Whoami())["open"] == 320


# --- of the server


def test_an_upload_is_no_larger_than_it_was_said_to_be(node: Node) -> None:
    otto = join(node, "otto")
    put = node.call(otto, PutChunk(b"x", 1))
    for act in (PutChunk(b"xx", 1), PutChunk(b"x", 1, 1, put["upload"]), PutChunk(b"x", 1, 40)):
        with pytest.raises(Usage):
            node.call(otto, act)


def test_a_token_is_registered_once_and_by_a_real_hash(node: Node) -> None:
    otto = join(node, "otto")
    assert otto.token is not None
    with pytest.raises(NameTaken):
        node.call(OWNER, MintToken("otto", token_hash=token_format.hashed(otto.token)))
    for hash in ("zz", "A" * 64, "a" * 63):
        with pytest.raises(Usage):
            node.call(OWNER, MintToken("otto", token_hash=hash))
    assert node.call(otto, Whoami())["sender"] == "otto"


@pytest.mark.parametrize("since_s", [0, -1, 10**17])
def test_a_review_looks_back_no_further_than_time_goes(node: Node, since_s: int) -> None:
    with pytest.raises(Usage):
        node.call(OWNER, Review(since_s))


def test_the_owner_is_no_other_sender_either(node: Node) -> None:
    join(node, "vera")
    with pytest.raises(IdentityMismatch):
        node.call(OWNER._replace(claimed="vera"), Join("zed"))
    assert [agent["agent"] for agent in node.call(OWNER, ListAgents())["agents"]] == ["vera"]
    assert audit.show(node, ShowLog(kind="request_refused"))["facts"] != []


def test_the_log_shows_to_each_what_they_would_be_told(node: Node) -> None:
    otto, vera, mira = (join(node, name) for name in ("otto", "vera", "mira"))
    node.call(otto, SendMessage("@vera", {"text": "between us"}, "send"))
    node.call(otto, AcquireClaim(item="B-1"))

    def seen(who: Credentials) -> set[str]:
        return {fact["kind"] for fact in node.call(who, ShowLog())["facts"]}

    assert "message_sent" in seen(otto) & seen(vera)
    assert "message_sent" not in seen(mira)
    assert "claim_granted" in seen(mira)
    assert "token_minted" not in seen(otto) | seen(mira)
    assert "message_sent" not in seen(join(node, "ada", "admin"))
    assert "token_minted" in seen(join(node, "eva", "admin"))
    assert {"token_minted", "message_sent"} <= seen(OWNER)


def test_what_was_read_does_not_end_the_wait_for_more(node: Node) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")
    sent = node.call(otto, SendMessage("@vera", {"text": "first"}, "send"))["message"]
    node.call(vera, ReadMessage(sent["id"]))
    late = threading.Timer(
        0.3, lambda: node.call(otto, SendMessage("@vera", {"text": "second"}, "send"))
    )
    late.start()
    found = node.call(vera, ListInbox(wait_s=30))["messages"]
    late.join()
    assert [message["payload"]["text"] for message in found] == ["first", "second"]


def test_an_answer_that_was_waited_for_is_handled(node: Node) -> None:
    otto, vera = join(node, "otto"), join(node, "vera")

    def reply() -> None:
        (asked,) = node.call(vera, ListInbox(wait_s=30))["messages"]
        node.call(vera, AnswerAsk(asked["id"], "yes"))

    answering = threading.Thread(target=reply)
    answering.start()
    assert node.call(otto, Ask("@vera", "may I?", wait_s=30))["answered"]
    answering.join()
    assert node.call(otto, ListInbox())["messages"] == []


def test_whoami_lists_what_this_session_holds_and_a_refusal_names_the_other(node: Node) -> None:
    otto = join(node, "otto")
    node.call(otto, AcquireClaim(item="B-1"))
    inside = otto._replace(session="s1")
    node.call(inside, StartSession("s1"))
    assert node.call(inside, Whoami())["claims"] == []
    assert len(node.call(otto, Whoami())["claims"]) == 1
    assert (
        "in no session, which is not this one"
        in (node.call(inside, AcquireClaim(item="B-1"))["message"])
    )


@pytest.mark.parametrize("reference", ["", "a/b", "0192f0c1/receipts", "#", "x y z w", "é" * 8])
def test_what_cannot_name_a_message_is_said_before_anybody_looks(
    node: Node, reference: str
) -> None:
    otto = join(node, "otto")
    for act in (ReadMessage(reference), ShowReceipts(reference), Redact(reference, "why")):
        with pytest.raises(Usage):
            node.call(otto, act)
