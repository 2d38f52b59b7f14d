"""The rules one by one, each in a sentence: what is refused and with which object, who gets what,
what is kept whole, and what time does. The clock is the test's."""

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock import errors
from interlock.log.encoding import canonical
from interlock.log.facts import Header, header_hash, parse_header
from interlock.node import Node, audit, upkeep
from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import (
    CreateGroup,
    EndSession,
    IdentifyToken,
    ImportTokens,
    Join,
    KeepSession,
    LabelToken,
    ListAgents,
    ListTokens,
    MintToken,
    Mute,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    ShowToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    DropUpload,
    Explain,
    FindAnswer,
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    ChangePassword,
    Enrol,
    GrantConnection,
    Invite,
    NameConnection,
    OpenConnection,
    RefreshConnection,
    ReportRefusal,
    SignIn,
)
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    RaiseBlocker,
    ResolveBlocker,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import (
    Attend,
    ChangeSetting,
    Pause,
    Resume,
    Review,
    ShowLog,
    ShowStatus,
    Whoami,
)
from interlock.verbs.credentials import Credentials

START = 2_000_000_000_000  # 2033-05-18T03:33:20Z, a time that no clock of a test machine shows
MINUTE, HOUR = 60_000, 3_600_000
MIB = 1 << 20
OWNER = Credentials(owner=True)


class Workspace:
    """A node on a clock that stands still until the test moves it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ms = START
        self.minted = 0
        self.node = Node(str(directory), clock=lambda: self.ms)

    def call(self, credentials: Credentials, act: Any) -> dict[str, Any]:
        return self.node.call(credentials, act)

    def new_token(self) -> str:
        self.minted += 1
        return token_format.compose(self.minted.to_bytes(token_format.SECRET_BYTES, "big"))

    def join(self, name: str, surface: str | None = None, **said: Any) -> Credentials:
        token = self.new_token()
        self.call(OWNER, Join(name, surface, token_hash=token_format.hashed(token), **said))
        return Credentials(token=token)

    def mint(self, sender: str, **said: Any) -> Credentials:
        token = self.new_token()
        self.call(OWNER, MintToken(sender, token_hash=token_format.hashed(token), **said))
        return Credentials(token=token)

    def rotate(self, by: Credentials, **which: Any) -> Credentials:
        token = self.new_token()
        self.call(by, RotateToken(**which, token_hash=token_format.hashed(token)))
        return Credentials(token=token)

    def send(self, by: Credentials, to: str, text: str = "hello", **said: Any) -> str:
        sent = self.node.call(by, SendMessage(to, {"text": text}, "send", **said))
        return str(sent["message"]["id"])

    def ask(self, by: Credentials, to: str, question: str = "may I?", **said: Any) -> str:
        sent = self.node.call(by, SendMessage(to, {"question": question}, "ask", **said))
        return str(sent["message"]["id"])

    def texts(self, by: Credentials, which: Any = "open") -> list[str]:
        found = self.call(by, ListInbox(which))["messages"]
        return [message["payload"].get("text", "") for message in found]

    def set(self, name: str, value: str) -> None:
        self.call(OWNER, ChangeSetting(name, value))

    def head(self) -> int:
        return len(self.facts())

    def facts(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = audit.show(self.node, ShowLog(limit=1000, kind=kind))["facts"]
        assert isinstance(found, list)
        return found

    def now(self) -> int:
        said = self.call(OWNER, ShowStatus())["now"]
        since = datetime.fromisoformat(said) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(milliseconds=1)

    def rows(self, sql: str) -> list[Any]:
        with self.node.file.reading() as db:
            return db.execute(sql).fetchall()


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path)
    yield made
    made.node.close()


def refused(
    kind: type[errors.Refusal], call: Callable[..., Any], /, *args: Any, **said: Any
) -> dict[str, Any]:
    """The error object with which the call is refused."""
    with pytest.raises(kind) as caught:
        call(*args, **said)
    assert type(caught.value) is kind
    return caught.value.as_dict()


def id_of(credentials: Credentials) -> str:
    assert credentials.token is not None
    return token_format.token_id(token_format.hashed(credentials.token))


# --- every refusal: a code, a title, an exit status, an HTTP status

REFUSALS = [
    ("CLAIM_HELD", "Claim held", 1, 409),
    ("NO_ANSWER", "No answer", 1, 409),
    ("GATES_NOT_PASSED", "Gates not passed", 1, 409),
    ("LOG_DAMAGED", "Log damaged", 1, 409),
    ("USAGE", "Bad usage", 2, 400),
    ("INVALID_RECIPIENT_SHAPE", "Invalid recipient shape", 2, 400),
    ("INVALID_MESSAGE", "Invalid message", 2, 400),
    ("UNKNOWN_TYPE", "Unknown message type", 2, 400),
    ("USE_VERB", "Use the verb", 2, 400),
    ("DIGEST_MISMATCH", "Digest mismatch", 2, 400),
    ("NOT_A_WORKSPACE", "Not a workspace", 2, 400),
    ("GATE_HAS_NO_HOLDER", "Gate has no holder", 2, 400),
    ("FOREIGN_ORIGIN", "Foreign origin", 3, 403),
    ("NOT_FOUND", "Not found", 2, 404),
    ("UNKNOWN_RECIPIENT", "Unknown recipient", 2, 409),
    ("NAME_TAKEN", "Name taken", 2, 409),
    ("IDEMPOTENCY_CONFLICT", "Idempotency conflict", 2, 409),
    ("TOO_MANY_HOPS", "Too many hops", 2, 409),
    ("ALREADY_DONE", "Already done", 2, 409),
    ("NOT_SUBMITTED", "Not submitted", 2, 409),
    ("TOO_LARGE", "Too large", 2, 413),
    ("NO_IDENTITY", "No identity", 3, 401),
    ("BAD_TOKEN", "Bad token", 3, 401),
    ("TOKEN_EXPIRED", "Token expired", 3, 401),
    ("WRONG_AUDIENCE", "Wrong audience", 3, 401),
    ("UNKNOWN_SENDER", "Unknown sender", 3, 403),
    ("IDENTITY_MISMATCH", "Identity mismatch", 3, 403),
    ("MISSING_SCOPE", "Missing scope", 3, 403),
    ("OWN_WORK", "Own work", 3, 403),
    ("NOT_HOLDER", "Not the holder", 3, 409),
    ("STALE_FENCE", "Stale fence", 3, 409),
    ("RATE_LIMITED", "Rate limited", 4, 429),
    ("PAUSED", "Paused", 4, 503),
    ("ENGINE_UNAVAILABLE", "Engine unavailable", 4, 503),
    ("LOG_FORKED", "The log forks", 4, 503),
    ("NEWER_VERSION", "Newer version", 4, 503),
    ("UNSAFE_FILESYSTEM", "Unsafe filesystem", 4, 503),
    ("OTHER_HOST", "Used on another host", 4, 503),
    ("INTERNAL", "Internal error", 70, 500),
]


@pytest.mark.parametrize(("code", "title", "exit_status", "http"), REFUSALS)
def test_a_code_has_one_title_and_one_status_on_every_door(
    code: str, title: str, exit_status: int, http: int
) -> None:
    kind = errors.by_code(code)
    assert (kind.code, kind.title, kind.exit, kind.http) == (code, title, exit_status, http)
    assert kind().as_dict() == {"error": title, "code": code, "message": kind().message}
    assert kind().message.endswith(".")


def test_every_refusal_stands_in_the_list_above() -> None:
    def leaves(kind: type[errors.Refusal]) -> set[str]:
        found = {kind.code} if "code" in vars(kind) else set()
        return found.union(*map(leaves, kind.__subclasses__()))

    assert leaves(errors.Refusal) == {row[0] for row in REFUSALS}


def test_only_refusals_that_matter_to_an_auditor_are_recorded() -> None:
    recorded = {row[0] for row in REFUSALS if errors.by_code(row[0]).recorded}
    assert recorded == {
        *("IDENTITY_MISMATCH", "MISSING_SCOPE", "OWN_WORK", "STALE_FENCE", "WRONG_AUDIENCE")
    }


def test_a_member_that_was_not_given_is_absent() -> None:
    assert errors.Paused("No.", since="then", reason=None).as_dict() == {
        "error": "Paused",
        "code": "PAUSED",
        "message": "No.",
        "since": "then",
    }


# --- and its members, as a door shows them


def test_a_recipient_of_neither_shape_is_told_both_and_who_may_be_meant(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.join("gpt")
    said = refused(errors.InvalidRecipientShape, ws.send, otto, "AGENT:gpt")
    assert said == {
        "error": "Invalid recipient shape",
        "code": "INVALID_RECIPIENT_SHAPE",
        "message": "Recipient 'AGENT:gpt' matches neither shape. Use AGENT:* to reach everyone, or "
        "@<identifier> for one agent. AGENT:<name> is not a form.",
        "to": "AGENT:gpt",
        "valid_shapes": [
            "AGENT:* (everyone; the asterisk is required)",
            "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
        ],
        "did_you_mean": ["@gpt"],
    }


@pytest.mark.parametrize("to", ["gpt", "@", "@a b", "@ü", "AGENT:", "agent:*", "@@gpt", "", "@a\n"])
def test_what_is_no_recipient_stores_nothing(ws: Workspace, to: str) -> None:
    otto = ws.join("otto")
    before = ws.head()
    said = refused(errors.InvalidRecipientShape, ws.send, otto, to)
    assert said["to"] == to
    assert "did_you_mean" not in said, "nobody of that name has joined"
    assert ws.head() == before


def test_a_message_that_breaks_its_contract_is_told_each_problem(ws: Workspace) -> None:
    otto = ws.join("otto")
    act = SendMessage("@vera", {"command": 7, "wyh": "x"}, "command")
    said = refused(errors.InvalidMessage, ws.node.call, otto, act)
    assert said["type"] == "command"
    assert [problem["member"] for problem in said["problems"]] == ["command", "why", "wyh"]


def test_an_unknown_type_is_told_the_near_ones(ws: Workspace) -> None:
    otto = ws.join("otto")
    act = SendMessage("@vera", {"text": "x"}, "sned")
    said = refused(errors.UnknownType, ws.node.call, otto, act)
    assert (said["type"], said["did_you_mean"]) == ("sned", ["send"])
    assert said["valid_types"] == [
        *("send", "ask", "answer", "announce", "wake", "command", "blocker")
    ]


@pytest.mark.parametrize(
    ("type", "use"),
    [
        ("evidence", "interlock evidence run|add"),
        ("gate_verdict", "interlock gate pass|fail"),
        ("task_created", "interlock task create"),
        ("task_claimed", "interlock task take"),
        ("task_completed", "interlock task complete"),
        ("agent_joined", "interlock join"),
    ],
)
def test_what_a_verb_writes_cannot_be_sent(ws: Workspace, type: str, use: str) -> None:
    otto = ws.join("otto")
    said = refused(errors.UseVerb, ws.node.call, otto, SendMessage("@vera", {}, type))
    assert (said["type"], said["use"]) == (type, use)


def test_an_act_without_a_token_names_nobody(ws: Workspace) -> None:
    said = refused(errors.NoIdentity, ws.call, Credentials(), Whoami())
    assert said.keys() == {"error", "code", "message"}
    refused(errors.NoIdentity, ws.call, OWNER, ListInbox())
    refused(errors.NoIdentity, ws.call, Credentials(claimed="otto"), ListAgents())


def test_a_token_that_nobody_minted_opens_nothing(ws: Workspace) -> None:
    ws.join("otto")
    for token in (ws.new_token(), "hunter2", ""):
        said = refused(errors.BadToken, ws.call, Credentials(token=token), Whoami())
        assert said.keys() == {"error", "code", "message"}


def test_a_mistyped_token_is_told_so(ws: Workspace) -> None:
    token = ws.join("otto").token or ""
    wrong = token[:-9] + ("a" if token[-9] != "a" else "b") + token[-8:]
    said = refused(errors.BadToken, ws.call, Credentials(token=wrong), Whoami())
    assert "checksum" in said["message"]


def test_holding_by_another_is_said_with_its_claim(ws: Workspace) -> None:
    otto, vera = ws.join("otto", "cli"), ws.join("vera")
    claim = ws.call(otto, AcquireClaim(item="B-1", branch="main"))["claim"]
    assert claim.keys() == {
        *("id", "item", "holder", "agent", "surface", "fence", "branch"),
        *("acquired_at", "expires_at"),
    }
    answer = ws.call(vera, AcquireClaim(item="B-1"))
    assert answer["message"].startswith("B-1 is held by @otto-cli until ")
    del answer["message"]
    assert answer == {
        "acquired": False,
        "error": "Claim held",
        "code": "CLAIM_HELD",
        "held_by": [claim],
    }
    said = refused(errors.NotHolder, ws.call, vera, ReleaseClaim(item="B-1"))
    assert said["held_by"] == [claim]
    said = refused(errors.NotHolder, ws.call, vera, RenewClaim(item="B-2"))
    assert said["held_by"] == []


def test_a_stale_fence_is_named_and_so_is_who_has_the_claim_now(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    old = ws.call(otto, AcquireClaim(item="B-1", ttl_s=60))["claim"]["fence"]
    ws.ms += 61_000
    claim = ws.call(vera, AcquireClaim(item="B-1"))["claim"]
    assert claim["fence"] > old
    said = refused(errors.StaleFence, ws.call, otto, RenewClaim(item="B-1", fence=old))
    assert (said["fence"], said["held_by"]) == (old, [claim])
    assert ws.facts("request_refused")[-1]["outcome"]["code"] == "STALE_FENCE"
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"] == [claim]


def test_a_question_that_nobody_answers_is_a_plain_no(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.join("vera")
    answer = ws.call(otto, Ask("@vera", "may I?", wait_s=1))
    assert (answer["answered"], answer["code"], answer["error"]) == (
        *(False, "NO_ANSWER", "No answer"),
    )
    assert ws.call(otto, FindAnswer(answer["id"]))["answered"] is False


def test_a_closed_workspace_is_not_available(tmp_path: Path) -> None:
    ws = Workspace(tmp_path)
    ws.node.close()
    said = refused(errors.EngineUnavailable, ws.call, OWNER, Resume())
    assert said.keys() == {"error", "code", "message"}


def through_sqlite(path: Path, sql: str, *bindings: Any) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, bindings)
    db.close()


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    through_sqlite(tmp_path / "log.db", "CREATE TABLE theirs(x)")
    before = (tmp_path / "log.db").read_bytes()
    refused(errors.NotAWorkspace, Node, str(tmp_path))
    assert (tmp_path / "log.db").read_bytes() == before


def test_a_file_of_a_newer_format_is_left_alone(ws: Workspace) -> None:
    ws.node.close()
    through_sqlite(ws.directory / "log.db", "PRAGMA user_version = 99")
    refused(errors.NewerVersion, Node, str(ws.directory))


def test_a_file_last_used_on_another_host_is_left_alone_unless_adopted(ws: Workspace) -> None:
    ws.node.close()
    through_sqlite(
        ws.directory / "log.db",
        "UPDATE file_meta SET value = 'elsewhere' WHERE name IN ('host', 'boot', 'name')",
    )
    said = refused(errors.OtherHost, Node, str(ws.directory))
    assert said["host"] == "elsewhere"
    Node(str(ws.directory), adopt=True).close()
    Node(str(ws.directory)).close()


def test_a_damaged_log_names_the_first_bad_entry(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.send(otto, "@vera")
    last = ws.head()
    ws.node.close()
    through_sqlite(ws.directory / "log.db", "UPDATE bodies SET body = x'7b7d' WHERE seq = ?", last)
    with Node(str(ws.directory), clock=lambda: START) as node:
        answer = audit.verify(node)
    assert answer["message"].startswith(f"Entry {last} is damaged: ")
    assert {name: answer[name] for name in ("ok", "error", "code", "seq")} == {
        "ok": False,
        "error": "Log damaged",
        "code": "LOG_DAMAGED",
        "seq": last,
    }


# --- names


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("otto", "cli"), ("otto-cli", None)),
        (("otto-cli", None), ("otto", "cli")),
        (("otto", "a-b"), ("otto-a", "b")),
        (("otto-a", "b"), ("otto", "a-b")),
        (("otto", "cli"), ("otto-cli", "x")),
        (("otto-cli", "x"), ("otto", "cli")),
        (("otto", None), ("otto", None)),
        (("otto", "cli"), ("otto", "cli")),
    ],
)
def test_a_name_is_one_thing_whichever_came_first(
    ws: Workspace, first: tuple[str, str | None], second: tuple[str, str | None]
) -> None:
    ws.join(*first)
    before = ws.head()
    said = refused(errors.NameTaken, ws.join, *second)
    assert said["name"] in (second[0], "-".join(part for part in second if part))
    assert "None" not in said["message"]
    assert ws.head() == before


def test_an_agent_may_have_surfaces_and_a_plain_sender_in_any_order(ws: Workspace) -> None:
    ws.join("otto", "cli")
    ws.join("otto")
    ws.join("otto", "desktop")
    ws.join("otto-a")
    found = ws.call(OWNER, ListAgents())["agents"]
    assert [(row["address"], row["agent"], row.get("surface")) for row in found] == [
        ("@otto", "otto", None),
        ("@otto-a", "otto-a", None),
        ("@otto-cli", "otto", "cli"),
        ("@otto-desktop", "otto", "desktop"),
    ]


@pytest.mark.parametrize("name", ["owner", "interlock"])
def test_reserved_names_are_nobodys(ws: Workspace, name: str) -> None:
    for surface in (None, "cli"):
        said = refused(errors.NameTaken, ws.join, name, surface)
        assert said["name"] == name
    ws.join("otto")
    refused(errors.NameTaken, ws.call, OWNER, CreateGroup(name, ("otto",)))


def test_groups_and_agents_share_one_namespace(ws: Workspace) -> None:
    ws.join("otto", "cli")
    for name in ("otto", "otto-cli"):
        refused(errors.NameTaken, ws.call, OWNER, CreateGroup(name, ("otto",)))
    ws.call(OWNER, CreateGroup("devs", ("otto",)))
    ws.call(OWNER, CreateGroup("vera-cli", ("otto",)))
    assert refused(errors.NameTaken, ws.join, "devs")["name"] == "devs"
    assert refused(errors.NameTaken, ws.join, "vera", "cli")["name"] == "vera-cli"


def test_a_person_is_not_an_agent_of_the_same_name(ws: Workspace) -> None:
    ws.join("mira", kind="human")
    ws.join("mira", "phone")
    refused(errors.NameTaken, ws.join, "mira", "cli", kind="agent")
    kinds = {row["kind"] for row in ws.call(OWNER, ListAgents())["agents"]}
    assert kinds == {"human"}


@pytest.mark.parametrize("name", ["Otto", "1otto", "otto_cli", "ötto", "", "a" * 65, "../x", "a b"])
def test_a_name_outside_the_pattern_is_bad_usage(ws: Workspace, name: str) -> None:
    before = ws.head()
    refused(errors.Usage, ws.join, name)
    refused(errors.Usage, ws.join, "otto", name)
    assert ws.head() == before


def test_a_pattern_of_the_workspaces_own_lets_in_e_mail_addresses(ws: Workspace) -> None:
    otto = ws.join("otto")
    refused(errors.InvalidRecipientShape, ws.send, otto, "@ada@example.org")
    ws.set("names.pattern", r"[a-z.]+@[a-z]+(\.[a-z]+)+(-[a-z]+)?")
    ada = ws.join("ada@example.org")
    phone = ws.join("ada@example.org", "phone")
    ws.send(otto, "@ada@example.org", "to you")
    ws.send(ada, "@otto", "to otto")
    assert ws.texts(ada) == ws.texts(phone) == ["to you"]
    message = ws.call(otto, ListInbox())["messages"][0]
    assert (message["source"], message["from"]) == ("agent:ada@example.org", "@ada@example.org")
    assert ws.call(ada, Whoami())["agent"] == "ada@example.org"
    ws.call(phone, AcquireClaim(item="B-1"))
    holder = ws.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"]
    assert holder == "@ada@example.org-phone"


def test_no_pattern_lets_in_blanks_or_control_characters(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.set("names.pattern", r"(?s).*")
    for name in ("a b", "a\nb", "a\x00", "a\u2028b", " "):
        refused(errors.Usage, ws.join, name)
        refused(errors.InvalidRecipientShape, ws.send, otto, "@" + name)
    refused(errors.Usage, ws.set, "names.pattern", "[")


@pytest.mark.parametrize("name", ["limits.hops", "limits.message_bytes", "limits.sends_per_minute"])
@pytest.mark.parametrize("value", ["-1", "", "1.5", "1e3", "٣", "0" * 17 + "1" + "9" * 5000])
def test_a_limit_is_a_number_within_bounds(ws: Workspace, name: str, value: str) -> None:
    otto = ws.join("otto")
    refused(errors.Usage, ws.set, name, value)
    ws.send(otto, "@vera")


def test_a_setting_that_does_not_exist_is_told_those_that_do(ws: Workspace) -> None:
    said = refused(errors.Usage, ws.set, "recipient", "strict")
    assert said["settings"] == [
        *("recipients", "names.pattern"),
        *("limits.message_bytes", "limits.sends_per_minute", "limits.hops"),
        *("guard", "wake.quiet_s"),
    ]


# --- tokens and scopes


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ((), ["mail", "claim", "work"]),
        (("mail",), ["mail"]),
        (("work", "mail"), ["mail", "work"]),
        (("admin",), ["mail", "claim", "work", "admin"]),
        (("gate:athena",), ["mail", "claim", "work", "gate:athena"]),
        (("claim", "gate:athena", "admin"), ["claim", "admin", "gate:athena"]),
    ],
)
def test_naming_basic_scopes_narrows_and_others_are_added(
    ws: Workspace, asked: tuple[str, ...], granted: list[str]
) -> None:
    otto = ws.join("otto", scopes=asked)
    assert ws.call(otto, Whoami())["scopes"] == sorted(granted)


@pytest.mark.parametrize("scope", ["", "root", "gate:", "gate:A B", "Mail", "admin "])
def test_a_scope_that_does_not_exist_is_bad_usage(ws: Workspace, scope: str) -> None:
    refused(errors.Usage, ws.join, "otto", scopes=(scope,))
    assert ws.call(OWNER, ListAgents())["agents"] == []


def test_a_missing_scope_is_named_and_recorded_without_the_request(ws: Workspace) -> None:
    otto = ws.join("otto", scopes=("claim",))
    said = refused(errors.MissingScope, ws.send, otto, "@vera", "the password is swordfish")
    assert said["scope"] == "mail"
    (fact,) = ws.facts("request_refused")
    assert (fact["sender"], fact["token"]) == ("@otto", id_of(otto))
    assert fact["outcome"].keys() == {"code", "digest"}
    assert fact["outcome"]["code"] == "MISSING_SCOPE"
    assert "body" not in fact
    headers = b"".join(row[0] for row in ws.rows("SELECT header FROM log"))
    bodies = b"".join(row[0] for row in ws.rows("SELECT body FROM bodies"))
    assert b"swordfish" not in headers + bodies


def test_looking_without_the_scope_is_recorded_too(ws: Workspace) -> None:
    otto = ws.join("otto", scopes=("claim",))
    refused(errors.MissingScope, ws.call, otto, ListInbox())
    assert len(ws.facts("request_refused")) == 1


def test_a_flood_of_refusals_is_cut_off_a_minute_long(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    forged = otto._replace(claimed="vera")
    for _ in range(30):
        refused(errors.IdentityMismatch, ws.send, forged, "@mira")
    assert len(ws.facts("request_refused")) == 20
    refused(errors.IdentityMismatch, ws.send, vera._replace(claimed="otto"), "@mira")
    assert len(ws.facts("request_refused")) == 21, "another's flood is another's"
    ws.ms += MINUTE
    refused(errors.IdentityMismatch, ws.send, forged, "@mira")
    assert len(ws.facts("request_refused")) == 22
    assert len(ws.call(OWNER, Review())["refusals"]) == 22


def test_a_forged_sender_is_refused_recorded_and_stores_nothing(ws: Workspace) -> None:
    otto, vera = ws.join("otto", "cli"), ws.join("vera")
    for claimed in ("vera", "@vera", "otto", "OTTO-CLI", "", "@@otto-cli"):
        said = refused(
            errors.IdentityMismatch,
            ws.send,
            otto._replace(claimed=claimed),
            "@vera",
        )
        assert (said["sender"], said["claimed"]) == ("@otto-cli", claimed)
    assert ws.texts(vera) == []
    assert {fact["sender"] for fact in ws.facts("request_refused")} == {"@otto-cli"}
    for claimed in ("otto-cli", "@otto-cli"):
        ws.send(otto._replace(claimed=claimed), "@vera")


def test_beyond_the_defaults_only_an_admin_grants(ws: Workspace) -> None:
    otto, boss = ws.join("otto"), ws.join("boss", scopes=("admin",))
    for act in (
        Join("eve", token_hash="a" * 64),
        MintToken("otto", scopes=("admin",), token_hash="b" * 64),
    ):
        said = refused(errors.MissingScope, ws.call, otto, act)
        assert said["scope"] == "admin"
        ws.call(boss, act._replace(token_hash=token_format.hashed(ws.new_token())))


def test_a_token_needs_a_sender(ws: Workspace) -> None:
    ws.join("otto")
    before = ws.head()
    said = refused(errors.UnknownSender, ws.mint, "ottto")
    assert said["did_you_mean"] == ["@otto"]
    assert "did_you_mean" not in refused(errors.UnknownSender, ws.mint, "quux")
    assert ws.head() == before


def test_a_token_ends_by_the_clock_to_the_millisecond(ws: Workspace) -> None:
    ws.join("otto")
    brief = ws.mint("otto", ttl_s=60)
    ws.ms += 59_999
    ws.call(brief, Whoami())
    ws.ms += 1
    said = refused(errors.TokenExpired, ws.call, brief, Whoami())
    assert "2033-05-18T03:34:20.000Z" in said["message"]
    refused(errors.TokenExpired, ws.send, brief, "@vera")
    assert brief.token is not None
    told = ws.call(OWNER, IdentifyToken(token_format.hashed(brief.token)))
    assert (told["known"], told["active"]) == (True, False)


def test_a_rotated_token_replaces_the_old_one_at_once(ws: Workspace) -> None:
    otto = ws.join("otto", scopes=("mail",), label="laptop")
    new = ws.rotate(OWNER, id=id_of(otto))
    refused(errors.BadToken, ws.call, otto, Whoami())
    assert ws.call(new, Whoami())["scopes"] == ["mail"]
    assert ws.call(OWNER, ShowToken(id_of(new)))["label"] == "laptop"
    newest = ws.rotate(OWNER, sender="otto")
    refused(errors.BadToken, ws.call, new, Whoami())
    ws.call(newest, Whoami())


def test_rotating_an_expired_token_gives_one_that_opens(ws: Workspace) -> None:
    """Which is what the refusal of an expired token says to do."""
    ws.join("otto")
    brief = ws.mint("otto", ttl_s=60)
    ws.ms += 61_000
    new = ws.rotate(OWNER, id=id_of(brief))
    assert ws.call(new, Whoami())["sender"] == "otto"


def test_tokens_are_an_admins_business_even_ones_own(ws: Workspace) -> None:
    """Else a token narrowed to mail could rotate its sender's others, and have their scopes."""
    otto, boss = ws.join("otto", scopes=("mail",)), ws.join("boss", scopes=("admin",))
    ws.mint("otto", scopes=("admin",))
    for act in (
        RotateToken(sender="otto", token_hash=token_format.hashed(ws.new_token())),
        RevokeToken(id=id_of(otto)),
        ShowToken(id_of(otto)),
        ListTokens(),
        ReaffirmTokens(),
        LabelToken(id_of(otto), "otto"),
        ImportTokens(({"token_hash": "d" * 64, "agent": "otto"},)),
    ):
        assert refused(errors.MissingScope, ws.call, otto, act)["scope"] == "admin"
    assert len(ws.call(boss, ListTokens())["tokens"]) == 3
    assert ws.call(boss, RevokeToken(id=id_of(otto))) == {"revoked": [id_of(otto)]}
    refused(errors.BadToken, ws.call, otto, Whoami())


def test_a_token_that_is_not_there_is_not_found(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.call(OWNER, RevokeToken(id=id_of(otto)))
    for act in (RevokeToken(id=id_of(otto)), RevokeToken(sender="vera"), ShowToken("tok_0")):
        refused(errors.NotFound, ws.call, OWNER, act)
    for both in (RevokeToken(), RevokeToken(id=id_of(otto), sender="otto")):
        refused(errors.Usage, ws.call, OWNER, both)


def test_no_token_is_stored_only_its_digest(ws: Workspace) -> None:
    token = ws.join("otto").token
    assert token is not None
    for (header,) in ws.rows("SELECT header FROM log"):
        assert token.encode() not in header


def test_a_session_is_one_senders_and_runs_once(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.call(otto, StartSession("s1"))
    ws.call(otto, StartSession("s1"))
    refused(errors.NameTaken, ws.call, vera, StartSession("s1"))
    ws.call(otto, EndSession("s1"))
    refused(errors.NameTaken, ws.call, otto, StartSession("s1"))
    assert len(ws.facts("session_started")) == 1


@pytest.mark.parametrize("session", ["", "a b", "-s", "../s", "s" * 129, "s\n", "ü"])
def test_a_session_of_another_form_is_bad_usage(ws: Workspace, session: str) -> None:
    otto = ws.join("otto")
    before = ws.head()
    refused(errors.Usage, ws.call, otto, StartSession(session))
    refused(errors.Usage, ws.send, otto._replace(session=session), "@vera")
    assert ws.head() == before


def test_tokens_are_suspended_after_a_restore_until_reaffirmed(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    fence = ws.call(otto, AcquireClaim(item="B-1"))["claim"]["fence"]
    backup = str(ws.directory / "kept.db")
    upkeep.backup(ws.node, OWNER, backup)
    revoked = vera
    ws.call(OWNER, RevokeToken(sender="vera"))
    assert upkeep.restore(ws.node, OWNER, backup)["epoch"] == 1
    for credentials in (otto, revoked):
        said = refused(errors.BadToken, ws.call, credentials, Whoami())
        assert "suspended" in said["message"]
        assert "reaffirm" in said["message"]
    assert ws.call(OWNER, ReaffirmTokens(sender="otto")) == {"reaffirmed": [id_of(otto)]}
    refused(errors.BadToken, ws.call, revoked, Whoami())
    assert ws.call(otto, AcquireClaim(item="B-2"))["claim"]["fence"] > fence + (1 << 32)
    assert audit.verify(ws.node)["ok"]
    assert ws.facts("epoch_started")[0]["outcome"]["abandoned"]["epoch"] == 0


# --- acts are done once


def test_the_same_key_and_body_give_the_first_answer_whatever_came_since(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    act = SendMessage("@vera", {"text": "once"}, "send", key="k1", ttl_s=3600)
    first = ws.node.call(otto, act)
    ws.send(otto, "@vera", "more")
    ws.send(vera, "@otto", "and more")
    ws.ms += MINUTE
    before = ws.head()
    again = ws.node.call(otto, act)
    for answer in (first, again):
        del answer["deliveries"][0]["reach"]  # which is as of now
    assert again == first
    assert ws.head() == before
    ws.call(vera, ReadMessage(first["message"]["id"]))
    assert ws.node.call(otto, act)["deliveries"][0]["state"] == "read"
    assert ws.texts(vera) == ["once", "more"]


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"text": "twice"}},
        {"to": "@otto"},
        {"type": "wake"},
        {"subject": "s"},
        {"priority": "high"},
        {"ttl_s": 60},
    ],
)
def test_another_body_under_the_same_key_is_a_conflict(
    ws: Workspace, change: dict[str, Any]
) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    act = SendMessage("@vera", {"text": "once"}, "send", key="k1")
    seq = ws.node.call(otto, act)["message"]["seq"]
    before = ws.head()
    other = act._replace(**change)
    said = refused(errors.IdempotencyConflict, ws.node.call, otto, other)
    assert (said["key"], said["seq"]) == ("k1", seq)
    assert ws.head() == before
    ws.node.call(vera, other)  # keys are a sender's own


def test_a_key_whose_body_was_redacted_is_a_conflict(ws: Workspace) -> None:
    otto = ws.join("otto")
    act = SendMessage("@vera", {"text": "a secret"}, "send", key="k1")
    sent = ws.node.call(otto, act)["message"]
    ws.call(otto, Redact(sent["id"], "leaked"))
    refused(errors.IdempotencyConflict, ws.node.call, otto, act)


def test_an_answer_under_a_key_is_given_once(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ask = ws.ask(otto, "@vera")
    first = ws.call(vera, AnswerAsk(ask, "yes", key="k1"))
    assert ws.call(vera, AnswerAsk(ask, "yes", key="k1"))["message"] == first["message"]
    refused(errors.IdempotencyConflict, ws.call, vera, AnswerAsk(ask, "no", key="k1"))
    assert ws.texts(otto) == ["yes"]


def test_a_large_body_sent_again_under_its_key_is_kept_once(ws: Workspace) -> None:
    otto = ws.join("otto")
    act = SendMessage("@vera", {"text": "x" * (2 * MIB)}, "send", key="k1")
    first = ws.node.call(otto, act)
    assert ws.node.call(otto, act) == first
    assert ws.rows("SELECT count(*) FROM blob_chunks") == [(2,)]


# --- who gets a message


def test_an_unknown_recipient_is_accepted_and_said_with_near_matches(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.join("vera")
    ws.join("vera", "cli")
    answer = ws.node.call(otto, SendMessage("@verra", {"text": "x"}, "send"))
    assert answer["deliveries"] == [
        {"recipient": "@verra", "known": False, "reach": "unknown", "state": "accepted"}
    ]
    (notice,) = answer["notices"]
    assert (notice["code"], notice["did_you_mean"]) == (
        *("UNKNOWN_RECIPIENT", ["@vera", "@vera-cli"]),
    )
    answer = ws.node.call(otto, SendMessage("@quux", {"text": "x"}, "send"))
    assert "did_you_mean" not in answer["notices"][0]


def test_a_strict_workspace_refuses_unknown_recipients(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.join("vera", "cli")
    ws.set("recipients", "strict")
    before = ws.head()
    said = refused(errors.UnknownRecipient, ws.send, otto, "@verra")
    assert said["to"] == "@verra"
    assert said["did_you_mean"] == ["@vera", "@vera-cli"]
    assert ws.head() == before
    for known in ("@vera", "@vera-cli", "AGENT:*"):
        ws.send(otto, known)
    ws.set("recipients", "open")
    ws.send(otto, "@verra")


@pytest.mark.parametrize(("name", "joins_as"), [("vera", ("vera", None)), ("a-b", ("a", "b"))])
def test_mail_to_an_unknown_name_is_there_when_it_joins(
    ws: Workspace, name: str, joins_as: tuple[str, str | None]
) -> None:
    otto = ws.join("otto")
    ws.send(otto, "@" + name, "welcome")
    assert ws.texts(ws.join(*joins_as)) == ["welcome"]


def test_mail_for_an_agent_is_seen_by_each_surface_and_taken_by_the_first(ws: Workspace) -> None:
    otto, cli, desktop = ws.join("otto"), ws.join("otto", "cli"), ws.join("otto", "desktop")
    vera = ws.join("vera")
    id = ws.send(vera, "@otto", "for all of you")
    ws.send(vera, "@otto-cli", "for the shell")
    assert ws.texts(otto) == ws.texts(desktop) == ["for all of you"]
    assert ws.texts(cli) == ["for all of you", "for the shell"]
    assert "taken_by" not in ws.call(cli, ReadMessage(id))
    assert ws.call(desktop, ReadMessage(id))["taken_by"] == "@otto-cli"
    assert ws.call(otto, ListInbox())["messages"][0]["taken_by"] == "@otto-cli"
    assert "taken_by" not in ws.call(cli, ListInbox())["messages"][0]
    assert ws.call(desktop, Whoami())["unread"] == 0
    refused(errors.NotFound, ws.call, desktop, ReadMessage("#" + str(ws.head() - 3)))


def test_a_broadcast_reaches_who_is_there_but_the_senders_own_agent(ws: Workspace) -> None:
    otto, cli = ws.join("otto"), ws.join("otto", "cli")
    vera, mira = ws.join("vera", "cli"), ws.join("mira", kind="human")
    answer = ws.node.call(cli, SendMessage("AGENT:*", {"text": "all"}, "send"))
    assert [row["recipient"] for row in answer["deliveries"]] == ["@mira", "@vera"]
    late = ws.join("late")
    assert ws.texts(vera) == ws.texts(mira) == ["all"]
    assert ws.texts(otto) == ws.texts(late) == []


def test_a_group_is_who_was_in_it_at_that_moment(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ws.call(OWNER, CreateGroup("devs", ("@vera", "otto", "vera")))
    ws.send(mira, "@devs", "first")
    ws.call(OWNER, CreateGroup("devs", ("mira", "otto")))
    ws.send(otto, "@devs", "second")
    assert ws.texts(vera) == ["first"]
    assert ws.texts(mira) == ["second"]
    assert ws.texts(otto) == ["first"], "a group's own member gets no copy of what it sends"
    said = refused(errors.NotFound, ws.call, OWNER, CreateGroup("devs", ("verra",)))
    assert said["did_you_mean"] == ["@vera"]


def test_a_group_of_an_agent_and_its_surface_is_one_message_for_it(ws: Workspace) -> None:
    ws.join("otto")
    cli, vera = ws.join("otto", "cli"), ws.join("vera")
    ws.call(OWNER, CreateGroup("devs", ("otto", "otto-cli")))
    ws.send(vera, "@devs")
    found = ws.call(cli, ListInbox())
    assert (len(found["messages"]), found["open"], found["unread"]) == (1, 1, 1)


def test_mail_that_expires_unread_is_told_to_its_sender(ws: Workspace) -> None:
    otto, vera = ws.join("otto", "cli"), ws.join("vera")
    unread = ws.send(otto, "@vera", "hurry", ttl_s=60)
    seen = ws.send(otto, "@vera", "read in time", ttl_s=60)
    ws.call(vera, ReadMessage(seen))
    ws.ms += 59_999
    assert ws.call(vera, Whoami())["open"] == 2
    ws.ms += 1
    assert ws.call(vera, Whoami()) | {"open": 1, "unread": 0} == ws.call(vera, Whoami())
    (notice,) = ws.call(otto, ListInbox())["messages"]
    assert (notice["from"], notice["reply_to"], notice["thread"]) == ("@interlock", unread, unread)
    assert notice["payload"]["text"].startswith(f"Your message {unread} to @vera expired unread")
    (delivery,) = ws.call(otto, ShowReceipts(unread))["deliveries"]
    assert delivery["state"] == "expired"
    assert unread in [row["id"] for row in ws.call(OWNER, Review())["expired"]]
    before = ws.head()
    ws.call(vera, ReadMessage(unread))
    assert ws.head() == before, "what has expired is not read after all"


def test_an_inbox_is_paged_through_without_loss_or_repeat(ws: Workspace) -> None:
    otto, cli, vera = ws.join("otto"), ws.join("otto", "cli"), ws.join("vera")
    for number in range(7):
        ws.send(vera, "@otto" if number % 2 else "@otto-cli", str(number))
    seen, after = [], 0
    while True:
        page = ws.call(cli, ListInbox(limit=2, after=after))
        seen += [message["payload"]["text"] for message in page["messages"]]
        assert (page["open"], page["unread"]) == (7, 7)
        if "next" not in page:
            break
        after = page["next"]
    assert seen == [str(number) for number in range(7)]
    assert ws.texts(otto) == ["1", "3", "5"]


# --- receipts


def test_receipts_tell_the_whole_way_of_a_message_in_order(ws: Workspace) -> None:
    otto, vera, cli = ws.join("otto"), ws.join("vera"), ws.join("vera", "cli")
    id = ws.send(otto, "@vera")
    ws.ms += 1000
    ws.call(vera, ListInbox())
    ws.call(cli, ListInbox())
    ws.ms += 1000
    ws.call(cli, ReadMessage(id))
    ws.call(vera, ReadMessage(id))
    ws.ms += 1000
    ws.call(vera, AckMessages((id,), note="done"))
    ws.call(cli, AckMessages((id,)))
    assert ws.call(otto, ShowReceipts(id)) == {
        "id": id,
        "deliveries": [
            {
                "recipient": "@vera",
                "state": "acked",
                "history": [
                    {"state": "accepted", "at": "2033-05-18T03:33:20.000Z"},
                    {"state": "shown", "at": "2033-05-18T03:33:21.000Z", "by": "@vera"},
                    {"state": "read", "at": "2033-05-18T03:33:22.000Z", "by": "@vera-cli"},
                    {
                        "state": "acked",
                        "at": "2033-05-18T03:33:23.000Z",
                        "by": "@vera",
                        "note": "done",
                    },
                ],
            }
        ],
    }


def test_a_recipient_sees_its_own_receipt_and_not_the_others(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.join("mira")
    id = ws.send(otto, "AGENT:*")
    assert [d["recipient"] for d in ws.call(vera, ShowReceipts(id))["deliveries"]] == ["@vera"]
    assert len(ws.call(otto, ShowReceipts(id))["deliveries"]) == 2


def test_acks_are_all_or_none(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    mine, hers = ws.send(otto, "@vera"), ws.send(vera, "@otto")
    before = ws.head()
    refused(errors.NotFound, ws.call, vera, AckMessages((mine, hers)))
    refused(errors.NotFound, ws.call, vera, AckMessages((mine, "0" * 36)))
    assert ws.head() == before
    assert ws.call(vera, Whoami())["open"] == 1
    ws.call(vera, AckMessages((mine, mine)))
    assert ws.call(vera, Whoami())["open"] == 0


def test_declining_what_was_acked_does_not_say_that_it_was_declined(ws: Workspace) -> None:
    otto, vera, cli = ws.join("otto"), ws.join("vera"), ws.join("vera", "cli")
    id = ws.send(otto, "@vera")
    ws.call(vera, AckMessages((id,)))
    answer = ws.call(cli, AckMessages((id,), decline=True))
    assert ws.call(otto, ShowReceipts(id))["deliveries"][0]["state"] == "acked"
    assert id not in answer.get("declined", [])


def test_unread_mail_does_not_come_back(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera")
    counts = []
    for act in (Whoami(), ReadMessage(id), ListInbox("all"), ReadMessage(id), AckMessages((id,))):
        ws.call(vera, act)
        counts.append((ws.call(vera, Whoami())["open"], ws.call(vera, Whoami())["unread"]))
    assert counts == [(1, 1), (1, 0), (1, 0), (1, 0), (0, 0)]


# --- asks


def test_an_answer_goes_to_who_asked_and_closes_the_ask(ws: Workspace) -> None:
    otto, vera = ws.join("otto", "cli"), ws.join("vera")
    ask = ws.ask(otto, "@vera")
    ws.call(vera, AnswerAsk(ask, "yes"))
    found = ws.call(otto, FindAnswer(ask))
    assert (found["answered"], found["answer"]["payload"]) == (True, {"text": "yes", "ask": ask})
    assert found["answer"]["to"] == "@otto-cli"
    assert ws.call(vera, Whoami())["open"] == 0
    assert ws.call(OWNER, Review())["unanswered"] == []


def test_a_question_with_a_time_limit_is_overdue_after_it(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.join("vera")
    payload = {"question": "may I?", "options": ["yes", "no"], "timeout_s": 60}
    ws.node.call(otto, SendMessage("@vera", payload, "ask"))
    (waiting_for,) = ws.call(OWNER, Review())["unanswered"]
    assert "overdue" not in waiting_for
    ws.ms += 60_000
    (waiting_for,) = ws.call(OWNER, Review())["unanswered"]
    assert waiting_for["overdue"] is True


def test_only_who_was_asked_answers_and_only_an_ask(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ask, note = ws.ask(otto, "@vera"), ws.send(otto, "@vera")
    refused(errors.InvalidMessage, ws.call, otto, AnswerAsk(ask, "to myself"))
    refused(errors.InvalidMessage, ws.call, vera, AnswerAsk(note, "yes"))
    elsewhere = SendMessage("@mira", {"text": "yes", "ask": ask}, "answer")
    refused(errors.InvalidMessage, ws.node.call, vera, elsewhere)
    assert ws.call(otto, FindAnswer(ask))["answered"] is False


def test_an_answer_is_seen_by_who_asked_and_not_by_others_who_were_asked(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ask = ws.ask(otto, "AGENT:*")
    ws.call(vera, AnswerAsk(ask, "only otto may know"))
    try:
        found = ws.call(mira, FindAnswer(ask))
    except errors.NotFound:
        return
    assert "answer" not in found


# --- limits


def test_a_chain_of_replies_ends_at_the_hop_limit(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.set("limits.hops", "2")
    id = ws.send(otto, "@vera")
    id = ws.send(vera, "@otto", reply_to=id)
    id = ws.send(otto, "@vera", reply_to=id)
    before = ws.head()
    said = refused(errors.TooManyHops, ws.send, vera, "@otto", reply_to=id)
    assert said["limit"] == 2
    assert ws.head() == before
    ws.send(vera, "@otto", thread=id)


def test_too_many_sends_in_a_minute_are_refused_until_it_is_over(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.set("limits.sends_per_minute", "3")
    for _ in range(3):
        ws.send(otto, "@vera")
    before = ws.head()
    said = refused(errors.RateLimited, ws.send, otto, "@vera")
    assert (said["retry_after_s"], said["limit"]) == (40, 3)  # it is 20 s past the minute
    assert ws.head() == before
    ws.send(vera, "@otto")
    ws.ms += said["retry_after_s"] * 1000
    ws.send(otto, "@vera")
    ws.set("limits.sends_per_minute", "0")
    for _ in range(5):
        ws.send(otto, "@vera")


def test_a_repeat_under_its_key_is_not_counted_as_another_send(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.set("limits.sends_per_minute", "1")
    act = SendMessage("@vera", {"text": "x"}, "send", key="k1")
    first = ws.node.call(otto, act)
    assert ws.node.call(otto, act) == first


@pytest.mark.parametrize(("limit", "size"), [(1000, 1001), (2 * MIB, 2 * MIB + 1)])
def test_a_message_above_the_limit_is_too_large_and_leaves_nothing(
    ws: Workspace, limit: int, size: int
) -> None:
    otto = ws.join("otto")
    ws.set("limits.message_bytes", str(limit))
    before = ws.head()
    said = refused(errors.TooLarge, ws.send, otto, "@vera", "x" * size)
    assert (said["size"], said["limit"]) == (size, limit)
    assert ws.head() == before
    assert ws.rows("SELECT * FROM blob_chunks") == []
    ws.send(otto, "@vera", "x" * limit)
    command = SendMessage("@vera", {"command": "x" * limit, "why": "y"}, "command")
    refused(errors.TooLarge, ws.node.call, otto, command)


def test_a_large_body_that_is_refused_leaves_no_bytes(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.set("recipients", "strict")
    refused(errors.UnknownRecipient, ws.send, otto, "@vera", "x" * (2 * MIB))
    ws.call(OWNER, Pause())
    refused(errors.Paused, ws.send, otto, "@otto", "x" * (2 * MIB))
    assert ws.rows("SELECT * FROM blob_chunks") == []


# --- bodies come back whole

ODD_TEXTS = [
    " leading, trailing \t\r\n",
    "\ufeffBOM, \u200b zero width, \u202e reversed",
    "e\u0301 is not \u00e9",
    "日本語 العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🇨🇭 🚦",
    "\x00\x01\x1b[31m\x7f\x85",
    "\uffff\U0010ffff",
    '{"text": "</envelope>\\u0000"}',
    "\n" * 1000,
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_body_of_any_script_comes_back_byte_for_byte(ws: Workspace, text: str) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", text)
    message = ws.call(vera, ReadMessage(id))
    assert message["payload"] == {"text": text}
    assert message["size"] == len(text.encode())
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert "part" not in message


def test_half_a_character_is_no_text(ws: Workspace) -> None:
    otto = ws.join("otto")
    before = ws.head()
    for text in ("\ud800", "x" * MIB + "\udfff"):
        refused(errors.InvalidMessage, ws.send, otto, "@vera", text)
    assert ws.head() == before


@pytest.mark.parametrize(
    ("text", "blobs"),
    [
        ("x" * MIB, 0),
        ("x" * (MIB + 1), 1),
        ("é" * (MIB // 2), 0),
        ("x" + "é" * (MIB // 2), 1),
        ("x" + "🚦" * (MIB // 2), 1),
    ],
    ids=["1 MiB", "a byte more", "1 MiB of é", "a byte more of é", "2 MiB of 🚦"],
)
def test_a_body_is_whole_on_both_sides_of_one_mebibyte(
    ws: Workspace, text: str, blobs: int
) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", text)
    assert len(ws.rows("SELECT * FROM blobs")) == blobs
    message = ws.call(vera, ReadMessage(id))
    assert message["payload"]["text"] == text
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert audit.verify(ws.node)["ok"]


def test_one_blob_serves_every_message_with_its_body_until_the_last_is_redacted(
    ws: Workspace,
) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    text = "x" * (MIB + 1)
    first, second = ws.send(otto, "@vera", text), ws.send(otto, "@vera", text)
    assert ws.rows("SELECT count(*) FROM blob_chunks") == [(2,)]
    ws.call(otto, Redact(first, "a secret"))
    assert "payload" not in ws.call(vera, ReadMessage(first))
    assert ws.call(vera, ReadMessage(second))["payload"]["text"] == text
    ws.call(otto, Redact(second, "a secret"))
    assert ws.rows("SELECT * FROM blob_chunks") == []
    assert audit.verify(ws.node)["ok"]


@pytest.mark.long
def test_a_body_of_64_mebibytes_comes_back_whole_and_in_ranges(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    line = "Grüße an 日本 🚦 \n"
    text = (line * (64 * MIB // len(line.encode()) + 1))[:-3]
    encoded = text.encode()
    assert len(encoded) >= 64 * MIB - 16
    id = ws.send(otto, "@vera", text)
    listed = ws.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["size"]) == (True, len(encoded))
    assert encoded.startswith(listed["payload"]["text"].encode())
    message = ws.call(vera, ReadMessage(id))
    assert message["sha256"] == hashlib.sha256(encoded).hexdigest()
    assert message["payload"]["text"] == text
    assert rejoined(ws, vera, id, 7 * MIB + 1) == encoded


def put(ws: Workspace, upload: str, chunks: dict[int, bytes]) -> None:
    for number, data in chunks.items():
        ws.node.do(lambda turn: turn.engine.put_chunk(upload, number, data))  # noqa: B023


@pytest.mark.parametrize(
    "chunks",
    [
        {0: b"x" * MIB, 1: b"changed"},
        {0: b"x" * MIB},
        {1: b"end"},
        {0: b"x" * MIB, 2: b"end"},
        {0: b"x" * (MIB - 1), 1: b"xend"},
        {},
    ],
    ids=["changed", "cut off", "no beginning", "a gap", "a short chunk", "nothing"],
)
def test_a_damaged_upload_is_not_joined_and_nothing_is_sent(
    ws: Workspace, chunks: dict[int, bytes]
) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    whole = b"x" * MIB + b"end"
    damaged, good = (f"{0:015}.otto.{uuid.uuid4()}" for _ in range(2))
    put(ws, damaged, chunks)
    before = ws.head()
    sha256 = hashlib.sha256(whole).hexdigest()
    act = SendMessage("@vera", {}, "send", sha256=sha256, size=len(whole), upload=damaged)
    refused(errors.DigestMismatch, ws.call, otto, act)
    refused(errors.DigestMismatch, ws.node.do, lambda turn: turn.engine.join(damaged, sha256))
    assert ws.head() == before
    assert ws.texts(vera) == []
    put(ws, good, {0: b"x" * MIB, 1: b"end"})
    ws.call(otto, act._replace(upload=good))
    assert ws.call(vera, ReadMessage(f"#{before + 1}"))["payload"]["text"].encode() == whole


def test_a_chunk_is_neither_empty_nor_too_large(ws: Workspace) -> None:
    for data in (b"", b"x" * (MIB + 1)):
        refused(errors.Usage, put, ws, "u", {0: data})


# --- ranges


def rejoined(ws: Workspace, by: Credentials, id: str, step: int) -> bytes:
    """What following next_offset from 0 gives, a step at a time."""
    offset, parts = 0, []
    while True:
        part = ws.call(by, ReadMessage(id, offset, offset + step))
        text = part["payload"].get("text", "").encode()
        parts.append(text)
        if "part" not in part:
            break
        assert part["shown"] == len(text)
        assert part.get("offset", 0) == offset
        if "next_offset" not in part:
            break
        assert part["next_offset"] == offset + len(text) > offset, "it always gets on"
        offset = part["next_offset"]
    return b"".join(parts)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Any, Any]]:
    made = Workspace(tmp_path_factory.mktemp("shared"))
    yield made, made.join("otto"), made.join("vera")
    made.node.close()


@given(text=st.text(min_size=1, max_size=80), step=st.integers(1, 40))
@example(text="🚦" * 20, step=1)
@example(text="aé日🚦" * 5, step=2)
@example(text="\x80\x00\U0010ffff", step=3)
@settings(max_examples=60, derandomize=True)
def test_following_next_offset_from_zero_gives_the_whole_text(
    shared: tuple[Workspace, Any, Any], text: str, step: int
) -> None:
    ws, otto, vera = shared
    id = ws.send(otto, "@vera", text)
    assert rejoined(ws, vera, id, step) == text.encode()


def test_ranges_of_a_blob_cross_its_chunks(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    text = "é" * (MIB + 7)
    id = ws.send(otto, "@vera", text)
    part = ws.call(vera, ReadMessage(id, MIB - 4, MIB + 4))
    assert part["payload"]["text"] == "é" * 4
    assert (part["offset"], part["shown"], part["next_offset"]) == (MIB - 4, 8, MIB + 4)
    assert rejoined(ws, vera, id, 300_001) == text.encode()


def test_a_range_begins_at_a_character_within_the_body(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", "aé")
    refused(errors.Usage, ws.call, vera, ReadMessage(id, 2, 3))
    assert refused(errors.Usage, ws.call, vera, ReadMessage(id, 4, 9))["size"] == 3
    assert ws.call(vera, ReadMessage(id, 3, 9))["shown"] == 0
    assert ws.call(vera, ReadMessage(id, 0, 1 << 60))["payload"]["text"] == "aé"


@pytest.mark.parametrize(
    ("start", "stop"), [(-5, None), (None, -1), (None, 0), (5, 5), (7, 3), (-3, 3)]
)
def test_a_range_that_is_none_is_bad_usage(
    ws: Workspace, start: int | None, stop: int | None
) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", "hello world")
    refused(errors.Usage, ws.call, vera, ReadMessage(id, start, stop))


def test_a_list_shows_the_beginning_of_a_long_text_and_says_so(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    text = "é" * 40_000
    id = ws.send(otto, "@vera", text)
    listed = ws.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 65_536, 65_536)
    assert listed["size"] == 80_000
    rest = ws.call(vera, ReadMessage(id, listed["next_offset"], 1 << 40))
    assert listed["payload"]["text"] + rest["payload"]["text"] == text


def test_a_long_command_in_a_list_is_withheld_wholly(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    command = "rm -rf build # " + "x" * 70_000
    payload = {"command": command, "why": "the disk is full"}
    id = ws.node.call(otto, SendMessage("@vera", payload, "command"))["message"]["id"]
    for listed in (
        ws.call(vera, ListInbox())["messages"][0],
        ws.call(vera, ShowThread(id))["messages"][0],
        ws.call(otto, ListInbox("sent"))["messages"][0],
        ws.call(vera, Search("build"))["messages"][0],
    ):
        assert listed["payload"] == {"why": "the disk is full"}
        assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 0, 0)
        assert listed["size"] == len(command)
    assert ws.call(vera, ReadMessage(id))["payload"] == payload
    short = payload | {"command": "ls"}
    ws.node.call(otto, SendMessage("@vera", short, "command"))
    assert ws.call(vera, ListInbox())["messages"][1]["payload"] == short


# --- who sees what

SEEING: dict[str, Callable[[str], Any]] = {
    "read": lambda id: ReadMessage(id),
    "receipts": lambda id: ShowReceipts(id),
    "thread": lambda id: ShowThread(id),
    "explain": lambda id: Explain(id),
    "ack": lambda id: AckMessages((id,)),
    "answer": lambda id: AnswerAsk(id, "yes"),
    "find answer": lambda id: FindAnswer(id),
    "reply": lambda id: SendMessage("@otto", {"text": "x"}, "send", reply_to=id),
    "join the thread": lambda id: SendMessage("@otto", {"text": "x"}, "send", thread=id),
}


def test_a_foreign_message_cannot_be_redacted_nor_told_from_an_absent_one(ws: Workspace) -> None:
    otto, mira = ws.join("otto"), ws.join("mira")
    ws.join("vera")
    foreign, before = ws.ask(otto, "@vera"), ws.head()
    refused(errors.NotFound, ws.call, mira, Redact(foreign, "why"))
    assert ws.head() == before


@pytest.mark.parametrize("verb", SEEING)
def test_what_is_not_yours_to_see_does_not_exist(ws: Workspace, verb: str) -> None:
    otto, mira = ws.join("otto"), ws.join("mira", scopes=("admin",))
    ws.join("vera")
    foreign, absent = ws.ask(otto, "@vera"), "12345678-1234-4234-8234-123456789abc"
    act = SEEING[verb]
    before = ws.head()
    said = refused(errors.NotFound, ws.call, mira, act(foreign))
    assert said == {
        name: value.replace(absent, foreign)
        for name, value in refused(errors.NotFound, ws.call, mira, act(absent)).items()
    }
    refused(errors.NotFound, ws.call, mira, act(foreign[:8]))
    refused(errors.NotFound, ws.call, mira, act(f"#{before}"))
    assert ws.head() == before


def test_a_review_tells_an_agent_nothing_of_others_mail(ws: Workspace) -> None:
    otto, mira = ws.join("otto"), ws.join("mira")
    ws.join("vera")
    ws.ask(otto, "@vera")
    ws.send(otto, "@vera", ttl_s=60)
    ws.ms += 61_000
    assert len(ws.call(OWNER, Review())["unanswered"]) == 1
    try:
        found = ws.call(mira, Review())
    except errors.MissingScope:
        return
    assert (found["unanswered"], found["expired"]) == ([], [])


def test_a_search_finds_ones_own_mail_and_no_other(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    id = ws.send(otto, "@vera", "the blue signal")
    for by, found in ((otto, 1), (vera, 1), (mira, 0)):
        assert len(ws.call(by, Search("signal blue"))["messages"]) == found
    ws.call(otto, Redact(id, "wrong"))
    assert ws.call(vera, Search("signal"))["messages"] == []


def test_a_search_finds_what_any_surface_sent_and_what_reached_this_one(ws: Workspace) -> None:
    cli, desktop, vera = ws.join("otto", "cli"), ws.join("otto", "desktop"), ws.join("vera")
    sent = ws.send(cli, "@vera", "a signal")
    shared, own = (ws.send(vera, to, "a signal") for to in ("@otto", "@otto-desktop"))

    def found(by: Credentials) -> list[str]:
        return [message["id"] for message in ws.call(by, Search("signal"))["messages"]]

    assert found(cli) == [shared, sent]
    assert found(desktop) == [own, shared, sent]
    assert found(vera) == [own, shared, sent]


def test_a_thread_shows_only_the_callers_part_of_it(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    first = ws.send(otto, "AGENT:*", "to both")
    ws.send(vera, "@otto", "from vera", reply_to=first)
    ws.send(mira, "@otto", "from mira", reply_to=first)
    shown = ws.call(mira, ShowThread(first))["messages"]
    assert [message["payload"]["text"] for message in shown] == ["to both", "from mira"]
    assert len(ws.call(otto, ShowThread(first))["messages"]) == 3


def test_a_message_is_named_by_id_prefix_or_position(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera")
    for reference in (id, id[:6], f"#{ws.head()}"):
        assert ws.call(vera, ReadMessage(reference))["id"] == id
    for reference in (id[:5], "", "#", "#-1", "#x", "#" + "9" * 30):
        refused(errors.Usage, ws.call, vera, ReadMessage(reference))


def test_explain_tells_the_story_of_a_messages_token(ws: Workspace) -> None:
    otto, vera = ws.join("otto", "cli", label="otto's laptop"), ws.join("vera")
    ws.ms += 5000
    id = ws.send(otto._replace(session="s1"), "@vera")
    ws.call(OWNER, RevokeToken(id=id_of(otto)))
    for by in (vera, OWNER):
        story = ws.call(by, Explain(id))
        assert (story["sender"], story["agent"], story["session"]) == ("@otto-cli", "otto", "s1")
        assert story["message"]["id"] == id
        assert story["token"] == {
            "id": id_of(otto),
            "sender": "otto-cli",
            "address": "@otto-cli",
            "label": "otto's laptop",
            "scopes": ["mail", "claim", "work"],
            "minted_by": "@owner",
            "minted_at": "2033-05-18T03:33:20.000Z",
            "seq": 3,
            "revoked_at": "2033-05-18T03:33:25.000Z",
        }


# --- claims


def test_two_sessions_of_one_sender_are_two_holders(ws: Workspace) -> None:
    otto = ws.join("otto")
    first, second = otto._replace(session="s1"), otto._replace(session="s2")
    ws.call(first, AcquireClaim(item="B-1"))
    for other in (second, otto):
        assert ws.call(other, AcquireClaim(item="B-1"))["acquired"] is False
        refused(errors.NotHolder, ws.call, other, ReleaseClaim(item="B-1"))
    assert ws.call(first, ReleaseClaim(item="B-1")) == {"released": True}
    assert ws.call(first, ReleaseClaim(item="B-1")) == {"released": False}


def test_asking_again_extends_and_keeps_what_is_not_mentioned(ws: Workspace) -> None:
    otto = ws.join("otto")
    act = AcquireClaim(item="B-1", branch="main", worktree="/w", note="n", ttl_s=600)
    first = ws.call(otto, act)["claim"]
    ws.ms += MINUTE
    again = ws.call(otto, AcquireClaim(item="B-1", note="m", ttl_s=60))["claim"]
    assert again == first | {"note": "m"}, "a lease does not get shorter"
    longer = ws.call(otto, AcquireClaim(item="B-1", ttl_s=3600))["claim"]
    assert longer == first | {"note": "m", "expires_at": "2033-05-18T04:34:20.000Z"}


def test_two_holders_in_one_worktree_are_warned(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    assert "notices" not in ws.call(otto, AcquireClaim(item="B-1", worktree="/w"))
    (notice,) = ws.call(vera, AcquireClaim(item="B-2", worktree="/w"))["notices"]
    assert (notice["code"], notice["claim"]["item"]) == ("SHARED_WORKTREE", "B-1")


def test_paths_meet_both_ways_within_one_repository(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.call(otto, AcquireClaim(paths=("src/a.py", "doc/a*.md"), repo="r"))
    for path in ("src/**", "src/*.py", "doc/*.md", "**"):
        answer = ws.call(vera, AcquireClaim(paths=(path,), repo="r"))
        assert answer["acquired"] is False, path
        assert answer["held_by"][0]["paths"] == ["doc/a*.md", "src/a.py"]
    for path, repo in (("src/b.py", "r"), ("src/**", "other")):
        assert ws.call(vera, AcquireClaim(paths=(path,), repo=repo))["acquired"], path


def test_waiters_are_served_in_order_and_nobody_overtakes(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ws.call(otto, AcquireClaim(item="B-1"))
    ws.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    ws.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    ws.call(otto, ReleaseClaim(item="B-1"))
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@vera"
    ws.call(vera, AcquireClaim(item="B-1"))
    assert ws.call(otto, AcquireClaim(item="B-1"))["queued"] == 1
    ws.call(vera, ReleaseClaim(item="B-1"))
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@mira"


def test_a_waiter_that_died_is_passed_over_and_what_it_got_is_free_again(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ws.call(otto, AcquireClaim(item="B-1"))
    ws.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    ws.ms += 31_000
    ws.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    ws.call(otto, ReleaseClaim(item="B-1"))
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@mira"
    ws.ms += 31_000
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False


def test_acquiring_one_thing_keeps_the_place_in_another_queue(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ws.call(otto, AcquireClaim(item="B-1"))
    ws.node.call_once(vera, AcquireClaim(item="B-1", wait_s=600))
    ws.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    ws.call(vera, AcquireClaim(item="B-2"))
    ws.call(otto, ReleaseClaim(item="B-1"))
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"] == "@vera"


def test_holding_a_part_is_not_in_the_way_of_waiting_for_the_whole(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.call(vera, AcquireClaim(paths=("src/b.py",), repo="r"))
    ws.call(otto, AcquireClaim(paths=("src/a.py",), repo="r"))
    ws.node.call_once(otto, AcquireClaim(paths=("src/**",), repo="r", wait_s=600))
    ws.call(vera, ReleaseClaim(paths=("src/b.py",), repo="r"))
    found = ws.call(OWNER, CheckClaim(paths=("src/**",), repo="r"))["claims"]
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
def test_what_is_no_text_names_nothing(ws: Workspace, act: Any) -> None:
    refused(errors.Usage, ws.call, ws.join("vera") if isinstance(act, Attend) else OWNER, act)


def test_nobody_stands_in_their_own_way_by_what_they_wait_for(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    ws.call(vera, AcquireClaim(paths=("src/b.py",), repo="r"))
    ws.node.call_once(otto, AcquireClaim(paths=("src/**",), repo="r", wait_s=600))
    assert ws.call(mira, AcquireClaim(paths=("src/a.py",), repo="r"))["acquired"] is False
    assert ws.call(otto, AcquireClaim(paths=("src/a.py",), repo="r"))["acquired"] is True
    ws.call(vera, AcquireClaim(paths=("lib/c.py",), repo="r"))
    ws.node.call_once(otto, AcquireClaim(paths=("lib/**", "src/b.py"), repo="r", wait_s=600))
    ws.node.call_once(otto, AcquireClaim(paths=("lib/c.py",), repo="r", wait_s=600))
    ws.call(vera, ReleaseClaim(paths=("lib/c.py",), repo="r"))
    held = ws.call(OWNER, CheckClaim(paths=("lib/c.py",), repo="r"))["claims"]
    assert [claim["holder"] for claim in held] == ["@otto"]


def test_a_session_that_ends_gives_up_its_claims_and_its_place(ws: Workspace) -> None:
    otto, vera, mira = ws.join("otto"), ws.join("vera"), ws.join("mira")
    first = otto._replace(session="s1")
    ws.call(first, StartSession("s1"))
    ws.call(first, AcquireClaim(item="B-1"))
    ws.call(otto, AcquireClaim(item="B-2"))
    ws.call(vera, AcquireClaim(item="B-3"))
    ws.node.call_once(first, AcquireClaim(item="B-3", wait_s=600))
    ws.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    answer = ws.call(otto, EndSession("s1"))
    assert [claim["item"] for claim in answer["released"]] == ["B-1"]
    ws.call(vera, ReleaseClaim(item="B-3"))
    held = {c["item"]: c["holder"] for c in ws.call(OWNER, ListClaims())["claims"]}
    assert held == {"B-1": "@mira", "B-2": "@otto"}


def test_a_living_session_keeps_its_claims_below_half_of_the_lease(ws: Workspace) -> None:
    otto = ws.join("otto")._replace(session="s1")
    ws.call(otto, AcquireClaim(item="B-1", ttl_s=100))
    ws.ms += 50_000
    before = ws.head()
    ws.call(otto, KeepSession("s1"))
    assert ws.head() == before
    ws.ms += 1
    told = ws.call(otto, KeepSession("s1"))["claims"]
    assert ws.head() == before + 1
    ws.ms += 99_999
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claims"] == told, "it says what it has done"


def test_a_person_takes_a_claim_over_and_the_holder_is_told(ws: Workspace) -> None:
    otto, mira = ws.join("otto"), ws.join("mira", kind="human")
    old = ws.call(otto, AcquireClaim(item="B-1"))["claim"]["fence"]
    refused(
        errors.MissingScope,
        ws.call,
        ws.join("vera"),
        TakeOverClaim("I want it", item="B-1"),
    )
    answer = ws.call(mira, TakeOverClaim("the build is red", item="B-1"))
    assert (answer["acquired"], answer["taken_from"]) == (True, ["@otto"])
    assert answer["claim"]["fence"] > old
    (text,) = ws.texts(otto)
    assert text == f"Your claim on B-1 (fence {old}) was taken over by @mira: the build is red"
    refused(errors.StaleFence, ws.call, otto, ReleaseClaim(item="B-1", fence=old))
    refused(errors.NotFound, ws.call, mira, TakeOverClaim("why not", item="B-2"))


def test_who_took_over_what_it_waited_for_waits_no_more(ws: Workspace) -> None:
    otto, mira = ws.join("otto"), ws.join("mira", kind="human")
    ws.call(otto, AcquireClaim(item="B-1"))
    ws.node.call_once(mira, AcquireClaim(item="B-1", wait_s=600))
    ws.call(mira, TakeOverClaim("the build is red", item="B-1"))
    ws.call(mira, ReleaseClaim(item="B-1"))
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False


def test_what_a_take_over_frees_beside_its_target_goes_to_the_queue(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    mira = ws.join("mira", kind="human")
    ws.call(otto, AcquireClaim(paths=("src/**",), repo="r"))
    ws.node.call_once(vera, AcquireClaim(paths=("src/b.py",), repo="r", wait_s=600))
    ws.call(mira, TakeOverClaim("mine", paths=("src/a.py",), repo="r"))
    found = ws.call(OWNER, CheckClaim(paths=("src/b.py",), repo="r"))["claims"]
    assert [claim["holder"] for claim in found] == ["@vera"]


def test_the_bytes_that_recognise_a_repeated_send_stay_as_the_log_has_them(ws: Workspace) -> None:
    otto = ws.join("otto")
    request = SendMessage("@vera", {"text": "x"}, subject="s", key="k-1", ttl_s=60)
    sent = ws.call(otto, request)["message"]
    digest = hashlib.sha256(b"x").hexdigest()
    given = [
        *("@vera", "send", {"text": "x"}, "s", None, None, "normal", None, 60, None, digest, 1),
        None,
    ]
    with ws.node.file.reading() as db:
        store = ws.node.transaction(db).store
        assert store.same_request(sent["seq"], canonical(given))


# --- a pause

WRITING: list[Any] = [
    Join("eve", token_hash="a" * 64),
    CreateGroup("devs", ("otto",)),
    MintToken("otto", token_hash="b" * 64),
    RotateToken(sender="otto", token_hash="c" * 64),
    ReaffirmTokens(),
    LabelToken("tok_0", "otto"),
    Invite("eve", code_hash="a" * 64),
    AcceptInvitation("a code", "b" * 64),
    Enrol("a code", "c" * 64, "b" * 64),
    SignIn("eve", "c" * 64, "b" * 64),
    ChangePassword("c" * 64, "d" * 64),
    GrantConnection(
        *("boss", None, ("mail",), "client", "A client", "https://x.example/mcp"),
        *("https://client.example/back", "c" * 43, "a" * 64),
    ),
    OpenConnection("a code", "client", "b" * 64, "c" * 64),
    RefreshConnection("a token", "client", "b" * 64, "c" * 64),
    NameConnection("con_0", "a phone"),
    ReportRefusal("TOKEN_IN_URL", "d" * 16),
    StartSession("s9"),
    EndSession("s1"),
    ChangeSetting("recipients", "strict"),
    SendMessage("@vera", {"text": "x"}, "send"),
    PutChunk(b"x", 1),
    DropUpload(f"{0:015}.boss.{uuid.UUID(int=0)}"),
    AnswerAsk("#7", "yes"),
    AckMessages(("#7",)),
    Redact("#7", "why"),
    AcquireClaim(item="B-2"),
    RenewClaim(item="B-1"),
    ReleaseClaim(item="B-1"),
    TakeOverClaim("why", item="B-1"),
    StopWaiting(item="B-1"),
    CreateTask("Sort the list"),
    TakeTask("T-1"),
    SubmitTask("T-1", "0" * 40, "1" * 40),
    CompleteTask("T-1"),
    FailTask("T-1"),
    CancelTask("T-1"),
    AddEvidence({"kind": "note", "text": "it works", "task_id": "T-1"}),
    CreateGate("athena", ("@boss",)),
    GiveVerdict("T-1", "athena", "pass"),
    RaiseBlocker("it is slow", "T-1"),
    ResolveBlocker("#7"),
    Mute(),
]


def test_every_writing_verb_obeys_a_pause_at_once_and_stores_nothing(ws: Workspace) -> None:
    # The node runs maintenance verbs, and Ask is a flow that sends.
    decided = [v for v in catalogue.verbs() if not v.declared.maintenance and v is not Ask]
    writes = {v for v in decided if not (v.declared.read_only or v.declared.when_paused)}
    assert {type(act) for act in WRITING} == writes
    boss = ws.join("boss", scopes=("admin",))._replace(session="s1")
    ws.call(boss, AcquireClaim(item="B-1"))
    ws.ms += 1000
    ws.call(OWNER, Pause("a leak"))
    before = ws.head()
    for act in WRITING:
        said = refused(errors.Paused, ws.call, boss, act)
        assert (said["since"], said["reason"]) == ("2033-05-18T03:33:21.000Z", "a leak")
    refused(errors.IdentityMismatch, ws.send, boss._replace(claimed="otto"), "@vera")
    assert ws.head() == before
    ws.call(OWNER, Resume())
    ws.send(boss, "@vera")


def test_looking_while_paused_marks_nothing_and_leases_still_end(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", ttl_s=60)
    ws.call(vera._replace(session="s1"), AcquireClaim(item="B-1", ttl_s=60))
    ws.call(OWNER, Pause())
    before = ws.head()
    ws.ms += 50_000
    ws.call(vera, ListInbox())
    ws.call(vera, ReadMessage(id))
    ws.call(vera, KeepSession("s1"))
    ws.ms += 10_000
    assert ws.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False
    assert ws.head() == before
    ws.call(OWNER, Resume())
    assert ws.call(otto, Whoami())["unread"] == 1, "now the sender is told that it expired"
    assert len(ws.facts("claim_expired")) == 1


# --- time


def test_while_the_clock_is_behind_the_log_goes_on_at_half_speed(ws: Workspace) -> None:
    ws.join("otto")
    ws.ms -= 5 * HOUR
    ws.call(OWNER, Resume())  # takes the turn, and finds nothing to record
    assert ws.now() == START
    for minutes in (10, 20, 30):
        ws.ms += 10 * MINUTE
        assert ws.now() == START + minutes * MINUTE // 2
    ws.join("vera")
    ws.ms += 10 * MINUTE
    assert ws.now() == START + 20 * MINUTE


def test_a_lease_ends_although_the_clock_was_set_back_by_hours(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.call(otto, AcquireClaim(item="B-1", ttl_s=60))
    ws.ms -= 5 * HOUR
    assert ws.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    ws.ms += 119_000
    assert ws.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    ws.ms += 1_000
    assert ws.call(vera, AcquireClaim(item="B-1"))["acquired"] is True


def test_many_acts_in_quick_succession_do_not_hold_half_speed_up(ws: Workspace) -> None:
    otto = ws.join("otto")
    ws.ms -= HOUR
    ws.send(otto, "@vera")
    for _ in range(100):
        ws.ms += 1
        ws.send(otto, "@vera")
    assert START + 49 <= ws.now() <= START + 50


def test_log_time_does_not_go_back_while_the_clock_runs_on(ws: Workspace) -> None:
    ws.join("otto")
    brief = ws.mint("otto", ttl_s=30 * 60)
    ws.ms -= 2 * HOUR
    ws.call(OWNER, Resume())
    seen, expired = [ws.now()], []
    for _ in range(30):
        ws.ms += 10 * MINUTE
        seen.append(ws.now())
        try:
            ws.call(brief, Whoami())
        except errors.TokenExpired:
            expired.append(True)
        else:
            expired.append(False)
    assert expired == sorted(expired), "a token that has expired does not come back to life"
    assert seen == sorted(seen)
    assert seen[-1] == ws.ms, "and at last the two agree again"


def test_facts_stand_in_the_order_of_their_times_whatever_the_clock_does(ws: Workspace) -> None:
    otto = ws.join("otto")
    for hours in (1, -5, 0, 3, -1, -12, 24, 0, -30):
        ws.ms += hours * HOUR
        ws.send(otto, "@vera")
    times = [fact["at"] for fact in ws.facts()]
    assert times == sorted(times)
    assert audit.verify(ws.node)["ok"]


# --- upkeep


def test_a_state_of_another_schema_is_rebuilt_when_the_workspace_is_opened(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    ws.send(otto, "@vera", "kept")
    ws.call(otto, AcquireClaim(item="B-1"))
    before = upkeep.state_digest(ws.node)

    def age(turn: Any) -> None:
        turn.db.execute("UPDATE state_position SET schema = '0-older'")
        turn.db.execute("DROP TABLE claims_waiting")
        turn.db.execute("CREATE TABLE mail_of_old(x); INSERT INTO mail_of_old VALUES (1)")

    ws.node.do(age)
    ws.node.close()
    ws.node = Node(str(ws.directory), clock=lambda: ws.ms)
    assert upkeep.state_digest(ws.node) == before
    assert ws.rows("SELECT 1 FROM sqlite_schema WHERE name = 'mail_of_old'") == []
    assert ws.texts(vera) == ["kept"]
    assert audit.verify(ws.node)["ok"]


def with_an_unknown_fact(ws: Workspace, copy: Path, *, state_of_another_schema: bool) -> None:
    """A copy of the workspace whose log a newer Interlock has gone on with."""
    copy.mkdir()
    upkeep.backup(ws.node, OWNER, str(copy / "log.db"))
    db = apsw.Connection(str(copy / "log.db"))
    rows: Any = db.execute("SELECT seq, header FROM log ORDER BY seq DESC LIMIT 1")
    seq, header = rows.fetchone()
    last = parse_header(header)
    dreamed = Header(
        workspace=last.workspace,
        epoch=last.epoch,
        seq=seq + 1,
        at=last.at,
        kind="task_dreamed",
        sender="otto",
        outcome={},
        prev=header_hash(header),
    ).encode()
    db.execute("INSERT INTO log VALUES (?, ?)", (seq + 1, dreamed))
    db.execute("UPDATE head SET seq = ?, hash = ?", (seq + 1, header_hash(dreamed)))
    if state_of_another_schema:
        db.execute("UPDATE state_position SET schema = '9-newer'")
    db.close()


def test_an_unknown_kind_of_fact_stops_whoever_meets_it(ws: Workspace, tmp_path: Path) -> None:
    otto = ws.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(ws, copy, state_of_another_schema=False)
    with Node(str(copy), clock=lambda: ws.ms) as node:
        act = SendMessage("@vera", {"text": "x"}, "send")
        for _ in range(2):
            said = refused(errors.NewerVersion, node.call, otto, act)
            assert "task_dreamed" in said["message"]
        refused(errors.NewerVersion, upkeep.rebuild, node, OWNER)
        assert audit.show(node, ShowLog(limit=1000))["facts"][-1]["kind"] == "task_dreamed"


def test_a_state_that_cannot_be_rebuilt_is_not_opened(ws: Workspace, tmp_path: Path) -> None:
    ws.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(ws, copy, state_of_another_schema=True)
    refused(errors.NewerVersion, Node, str(copy), clock=lambda: ws.ms)


def test_rebuilding_gives_the_same_state_while_much_expires(ws: Workspace) -> None:
    otto = ws.join("otto")
    for _ in range(250):
        ws.send(otto, "@vera", ttl_s=60)
    ws.ms += 61_000
    answer = upkeep.rebuild(ws.node, OWNER)
    assert (answer["rebuilt"], answer["changed"]) == (True, False)
    assert audit.verify(ws.node)["ok"]
    for _ in range(3):  # a few hundred at once, by whoever comes
        ws.call(OWNER, ShowStatus())
    assert len(ws.call(OWNER, Review())["expired"]) == 250


def test_a_redacted_body_is_gone_from_every_file_and_the_log_still_verifies(ws: Workspace) -> None:
    otto, vera = ws.join("otto"), ws.join("vera")
    id = ws.send(otto, "@vera", "the password is swordfish")
    ws.call(vera, Search("swordfish"))
    ws.call(otto, Redact(id, "leaked"))
    message = ws.call(vera, ReadMessage(id))
    assert message["redacted"] is True
    assert not {"payload", "sha256", "size"} & message.keys()
    assert audit.verify(ws.node)["ok"]
    assert upkeep.rebuild(ws.node, OWNER)["changed"] is False
    ws.node.close()
    for path in ws.directory.rglob("*"):
        if path.is_file():
            assert b"swordfish" not in path.read_bytes(), path


def test_a_backup_of_another_workspace_is_not_restored_over_this_one(
    ws: Workspace, tmp_path: Path
) -> None:
    otto = ws.join("otto")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Workspace(elsewhere)
    other.join("vera")
    backup = str(tmp_path / "other.db")
    upkeep.backup(other.node, OWNER, backup)
    other.node.close()
    refused(errors.Usage, upkeep.restore, ws.node, OWNER, backup)
    assert ws.call(otto, Whoami())["sender"] == "otto"
    shutil.rmtree(elsewhere)
    assert not [name for name in os.listdir(ws.directory) if name.startswith("restoring")]
