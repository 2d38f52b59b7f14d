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
from world.letting_in import secret
from world.workspace import HOUR, MINUTE, OWNER, START, Workspace, text_to

MIB = 1 << 20


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace on a clock that the test moves."""
    with Workspace(tmp_path) as workspace:
        yield workspace


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


def test_a_recipient_of_neither_shape_is_told_both_and_who_may_be_meant(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    workspace.join("gpt")
    said = workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("AGENT:gpt"))
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
def test_what_is_no_recipient_stores_nothing(workspace: Workspace, to: str) -> None:
    otto = workspace.join("otto")
    before = workspace.head()
    said = workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to(to))
    assert said["to"] == to
    assert "did_you_mean" not in said, "nobody of that name has joined"
    assert workspace.head() == before


def test_a_message_that_breaks_its_contract_is_told_each_problem(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    act = SendMessage("@vera", {"command": 7, "wyh": "x"}, "command")
    said = workspace.refused("INVALID_MESSAGE", otto, act)
    assert said["type"] == "command"
    assert [problem["member"] for problem in said["problems"]] == ["command", "why", "wyh"]


def test_an_unknown_type_is_told_the_near_ones(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    act = SendMessage("@vera", {"text": "x"}, "sned")
    said = workspace.refused("UNKNOWN_TYPE", otto, act)
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
def test_what_a_verb_writes_cannot_be_sent(workspace: Workspace, type: str, use: str) -> None:
    otto = workspace.join("otto")
    said = workspace.refused("USE_VERB", otto, SendMessage("@vera", {}, type))
    assert (said["type"], said["use"]) == (type, use)


def test_an_act_without_a_token_names_nobody(workspace: Workspace) -> None:
    said = workspace.refused("NO_IDENTITY", Credentials(), Whoami())
    assert said.keys() == {"error", "code", "message"}
    workspace.refused("NO_IDENTITY", OWNER, ListInbox())
    workspace.refused("NO_IDENTITY", Credentials(claimed="otto"), ListAgents())


def test_a_token_that_nobody_minted_opens_nothing(workspace: Workspace) -> None:
    workspace.join("otto")
    for token in (secret(), "hunter2", ""):
        said = workspace.refused("BAD_TOKEN", Credentials(token=token), Whoami())
        assert said.keys() == {"error", "code", "message"}


def test_a_mistyped_token_is_told_so(workspace: Workspace) -> None:
    token = workspace.join("otto").token or ""
    wrong = token[:-9] + ("a" if token[-9] != "a" else "b") + token[-8:]
    said = workspace.refused("BAD_TOKEN", Credentials(token=wrong), Whoami())
    assert "checksum" in said["message"]


def test_holding_by_another_is_said_with_its_claim(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    claim = workspace.call(otto, AcquireClaim(item="B-1", branch="main"))["claim"]
    assert claim.keys() == {
        *("id", "item", "holder", "agent", "surface", "fence", "branch"),
        *("acquired_at", "expires_at"),
    }
    answer = workspace.call(vera, AcquireClaim(item="B-1"))
    assert answer["message"].startswith("B-1 is held by @otto-cli until ")
    del answer["message"]
    assert answer == {
        "acquired": False,
        "error": "Claim held",
        "code": "CLAIM_HELD",
        "held_by": [claim],
    }
    said = workspace.refused("NOT_HOLDER", vera, ReleaseClaim(item="B-1"))
    assert said["held_by"] == [claim]
    said = workspace.refused("NOT_HOLDER", vera, RenewClaim(item="B-2"))
    assert said["held_by"] == []


def test_a_stale_fence_is_named_and_so_is_who_has_the_claim_now(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    old = workspace.call(otto, AcquireClaim(item="B-1", ttl_s=60))["claim"]["fence"]
    workspace.ms += 61_000
    claim = workspace.call(vera, AcquireClaim(item="B-1"))["claim"]
    assert claim["fence"] > old
    said = workspace.refused("STALE_FENCE", otto, RenewClaim(item="B-1", fence=old))
    assert (said["fence"], said["held_by"]) == (old, [claim])
    assert workspace.facts("request_refused")[-1]["outcome"]["code"] == "STALE_FENCE"
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"] == [claim]


def test_a_question_that_nobody_answers_is_a_plain_no(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera")
    answer = workspace.call(otto, Ask("@vera", "may I?", wait_s=1))
    assert (answer["answered"], answer["code"], answer["error"]) == (
        *(False, "NO_ANSWER", "No answer"),
    )
    assert workspace.call(otto, FindAnswer(answer["id"]))["answered"] is False


def test_a_closed_workspace_is_not_available(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.close()
    said = workspace.refused("ENGINE_UNAVAILABLE", OWNER, Resume())
    assert said.keys() == {"error", "code", "message"}


def through_sqlite(path: Path, sql: str, *bindings: Any) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, bindings)
    db.close()


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    through_sqlite(tmp_path / "log.db", "CREATE TABLE theirs(x)")
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(errors.NotAWorkspace):
        Node(str(tmp_path))
    assert (tmp_path / "log.db").read_bytes() == before


def test_a_file_of_a_newer_format_is_left_alone(workspace: Workspace) -> None:
    workspace.close()
    through_sqlite(workspace.directory / "log.db", "PRAGMA user_version = 99")
    with pytest.raises(errors.NewerVersion):
        Node(str(workspace.directory))


def test_a_file_last_used_on_another_host_is_left_alone_unless_adopted(
    workspace: Workspace,
) -> None:
    workspace.close()
    through_sqlite(
        workspace.directory / "log.db",
        "UPDATE file_meta SET value = 'elsewhere' WHERE name IN ('host', 'boot', 'name')",
    )
    with pytest.raises(errors.OtherHost) as refused:
        Node(str(workspace.directory))
    assert refused.value.members["host"] == "elsewhere"
    Node(str(workspace.directory), adopt=True).close()
    Node(str(workspace.directory)).close()


def test_a_damaged_log_names_the_first_bad_entry(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.send(otto, "@vera")
    last = workspace.head()
    workspace.close()
    through_sqlite(
        workspace.directory / "log.db", "UPDATE bodies SET body = x'7b7d' WHERE seq = ?", last
    )
    with Node(str(workspace.directory), clock=lambda: START) as node:
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
    workspace: Workspace, first: tuple[str, str | None], second: tuple[str, str | None]
) -> None:
    workspace.join(*first)
    before = workspace.head()
    said = workspace.refused("NAME_TAKEN", OWNER, Join(*second))
    assert said["name"] in (second[0], "-".join(part for part in second if part))
    assert "None" not in said["message"]
    assert workspace.head() == before


def test_an_agent_may_have_surfaces_and_a_plain_sender_in_any_order(workspace: Workspace) -> None:
    workspace.join("otto", "cli")
    workspace.join("otto")
    workspace.join("otto", "desktop")
    workspace.join("otto-a")
    found = workspace.call(OWNER, ListAgents())["agents"]
    assert [(row["address"], row["agent"], row.get("surface")) for row in found] == [
        ("@otto", "otto", None),
        ("@otto-a", "otto-a", None),
        ("@otto-cli", "otto", "cli"),
        ("@otto-desktop", "otto", "desktop"),
    ]


@pytest.mark.parametrize("name", ["owner", "interlock"])
def test_reserved_names_are_nobodys(workspace: Workspace, name: str) -> None:
    for surface in (None, "cli"):
        said = workspace.refused("NAME_TAKEN", OWNER, Join(name, surface))
        assert said["name"] == name
    workspace.join("otto")
    workspace.refused("NAME_TAKEN", OWNER, CreateGroup(name, ("otto",)))


def test_groups_and_agents_share_one_namespace(workspace: Workspace) -> None:
    workspace.join("otto", "cli")
    for name in ("otto", "otto-cli"):
        workspace.refused("NAME_TAKEN", OWNER, CreateGroup(name, ("otto",)))
    workspace.call(OWNER, CreateGroup("devs", ("otto",)))
    workspace.call(OWNER, CreateGroup("vera-cli", ("otto",)))
    assert workspace.refused("NAME_TAKEN", OWNER, Join("devs"))["name"] == "devs"
    assert workspace.refused("NAME_TAKEN", OWNER, Join("vera", "cli"))["name"] == "vera-cli"


def test_a_person_is_not_an_agent_of_the_same_name(workspace: Workspace) -> None:
    workspace.join("mira", kind="human")
    workspace.join("mira", "phone")
    workspace.refused("NAME_TAKEN", OWNER, Join("mira", "cli", kind="agent"))
    kinds = {row["kind"] for row in workspace.call(OWNER, ListAgents())["agents"]}
    assert kinds == {"human"}


@pytest.mark.parametrize("name", ["Otto", "1otto", "otto_cli", "ötto", "", "a" * 65, "../x", "a b"])
def test_a_name_outside_the_pattern_is_bad_usage(workspace: Workspace, name: str) -> None:
    before = workspace.head()
    workspace.refused("USAGE", OWNER, Join(name))
    workspace.refused("USAGE", OWNER, Join("otto", name))
    assert workspace.head() == before


def test_a_pattern_of_the_workspaces_own_lets_in_e_mail_addresses(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("@ada@example.org"))
    workspace.set("names.pattern", r"[a-z.]+@[a-z]+(\.[a-z]+)+(-[a-z]+)?")
    ada = workspace.join("ada@example.org")
    phone = workspace.join("ada@example.org", "phone")
    workspace.send(otto, "@ada@example.org", "to you")
    workspace.send(ada, "@otto", "to otto")
    assert workspace.texts(ada) == workspace.texts(phone) == ["to you"]
    message = workspace.call(otto, ListInbox())["messages"][0]
    assert (message["source"], message["from"]) == ("agent:ada@example.org", "@ada@example.org")
    assert workspace.call(ada, Whoami())["agent"] == "ada@example.org"
    workspace.call(phone, AcquireClaim(item="B-1"))
    holder = workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"]
    assert holder == "@ada@example.org-phone"


def test_no_pattern_lets_in_blanks_or_control_characters(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("names.pattern", r"(?s).*")
    for name in ("a b", "a\nb", "a\x00", "a\u2028b", " "):
        workspace.refused("USAGE", OWNER, Join(name))
        workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("@" + name))
    workspace.refused("USAGE", OWNER, ChangeSetting("names.pattern", "["))


@pytest.mark.parametrize("name", ["limits.hops", "limits.message_bytes", "limits.sends_per_minute"])
@pytest.mark.parametrize("value", ["-1", "", "1.5", "1e3", "٣", "0" * 17 + "1" + "9" * 5000])
def test_a_limit_is_a_number_within_bounds(workspace: Workspace, name: str, value: str) -> None:
    otto = workspace.join("otto")
    workspace.refused("USAGE", OWNER, ChangeSetting(name, value))
    workspace.send(otto, "@vera")


def test_a_setting_that_does_not_exist_is_told_those_that_do(workspace: Workspace) -> None:
    said = workspace.refused("USAGE", OWNER, ChangeSetting("recipient", "strict"))
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
    workspace: Workspace, asked: tuple[str, ...], granted: list[str]
) -> None:
    otto = workspace.join("otto", scopes=asked)
    assert workspace.call(otto, Whoami())["scopes"] == sorted(granted)


@pytest.mark.parametrize("scope", ["", "root", "gate:", "gate:A B", "Mail", "admin "])
def test_a_scope_that_does_not_exist_is_bad_usage(workspace: Workspace, scope: str) -> None:
    workspace.refused("USAGE", OWNER, Join("otto", scopes=(scope,)))
    assert workspace.call(OWNER, ListAgents())["agents"] == []


def test_a_missing_scope_is_named_and_recorded_without_the_request(workspace: Workspace) -> None:
    otto = workspace.join("otto", scopes=("claim",))
    said = workspace.refused("MISSING_SCOPE", otto, text_to("@vera", "the password is swordfish"))
    assert said["scope"] == "mail"
    (fact,) = workspace.facts("request_refused")
    assert (fact["sender"], fact["token"]) == ("@otto", id_of(otto))
    assert fact["outcome"].keys() == {"code", "digest"}
    assert fact["outcome"]["code"] == "MISSING_SCOPE"
    assert "body" not in fact
    headers = b"".join(row[0] for row in workspace.query("SELECT header FROM log"))
    bodies = b"".join(row[0] for row in workspace.query("SELECT body FROM bodies"))
    assert b"swordfish" not in headers + bodies


def test_looking_without_the_scope_is_recorded_too(workspace: Workspace) -> None:
    otto = workspace.join("otto", scopes=("claim",))
    workspace.refused("MISSING_SCOPE", otto, ListInbox())
    assert len(workspace.facts("request_refused")) == 1


def test_a_flood_of_refusals_is_cut_off_a_minute_long(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    forged = otto._replace(claimed="vera")
    for number in range(30):
        workspace.refused("IDENTITY_MISMATCH", forged, text_to("@mira"), is_recorded=number < 20)
    assert len(workspace.facts("request_refused")) == 20
    workspace.refused("IDENTITY_MISMATCH", vera._replace(claimed="otto"), text_to("@mira"))
    assert len(workspace.facts("request_refused")) == 21, "another's flood is another's"
    workspace.ms += MINUTE
    workspace.refused("IDENTITY_MISMATCH", forged, text_to("@mira"))
    assert len(workspace.facts("request_refused")) == 22
    assert len(workspace.call(OWNER, Review())["refusals"]) == 22


def test_a_forged_sender_is_refused_recorded_and_stores_nothing(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    for claimed in ("vera", "@vera", "otto", "OTTO-CLI", "", "@@otto-cli"):
        said = workspace.refused(
            "IDENTITY_MISMATCH", otto._replace(claimed=claimed), text_to("@vera")
        )
        assert (said["sender"], said["claimed"]) == ("@otto-cli", claimed)
    assert workspace.texts(vera) == []
    assert {fact["sender"] for fact in workspace.facts("request_refused")} == {"@otto-cli"}
    for claimed in ("otto-cli", "@otto-cli"):
        workspace.send(otto._replace(claimed=claimed), "@vera")


def test_beyond_the_defaults_only_an_admin_grants(workspace: Workspace) -> None:
    otto, boss = workspace.join("otto"), workspace.join("boss", scopes=("admin",))
    for act in (
        Join("eve", token_hash="a" * 64),
        MintToken("otto", scopes=("admin",), token_hash="b" * 64),
    ):
        said = workspace.refused("MISSING_SCOPE", otto, act)
        assert said["scope"] == "admin"
        workspace.call(boss, act._replace(token_hash=token_format.hashed(secret())))


def test_a_token_needs_a_sender(workspace: Workspace) -> None:
    workspace.join("otto")
    before = workspace.head()
    said = workspace.refused("UNKNOWN_SENDER", OWNER, MintToken("ottto"))
    assert said["did_you_mean"] == ["@otto"]
    assert "did_you_mean" not in workspace.refused("UNKNOWN_SENDER", OWNER, MintToken("quux"))
    assert workspace.head() == before


def test_a_token_ends_by_the_clock_to_the_millisecond(workspace: Workspace) -> None:
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=60)
    workspace.ms += 59_999
    workspace.call(brief, Whoami())
    workspace.ms += 1
    said = workspace.refused("TOKEN_EXPIRED", brief, Whoami())
    assert "2033-05-18T03:34:20.000Z" in said["message"]
    workspace.refused("TOKEN_EXPIRED", brief, text_to("@vera"))
    assert brief.token is not None
    told = workspace.call(OWNER, IdentifyToken(token_format.hashed(brief.token)))
    assert (told["known"], told["active"]) == (True, False)


def rotated(workspace: Workspace, **which: Any) -> Credentials:
    """The token that the owner gets in place of another, as credentials."""
    return Credentials(token=workspace.call(OWNER, RotateToken(**which))["token"])


def test_a_rotated_token_replaces_the_old_one_at_once(workspace: Workspace) -> None:
    otto = workspace.join("otto", scopes=("mail",), label="laptop")
    new = rotated(workspace, id=id_of(otto))
    workspace.refused("BAD_TOKEN", otto, Whoami())
    assert workspace.call(new, Whoami())["scopes"] == ["mail"]
    assert workspace.call(OWNER, ShowToken(id_of(new)))["label"] == "laptop"
    newest = rotated(workspace, sender="otto")
    workspace.refused("BAD_TOKEN", new, Whoami())
    workspace.call(newest, Whoami())


def test_rotating_an_expired_token_gives_one_that_opens(workspace: Workspace) -> None:
    """Which is what the refusal of an expired token says to do."""
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=60)
    workspace.ms += 61_000
    new = rotated(workspace, id=id_of(brief))
    assert workspace.call(new, Whoami())["sender"] == "otto"


def test_tokens_are_an_admins_business_even_ones_own(workspace: Workspace) -> None:
    """Else a token narrowed to mail could rotate its sender's others, and have their scopes."""
    otto, boss = workspace.join("otto", scopes=("mail",)), workspace.join("boss", scopes=("admin",))
    workspace.mint("otto", scopes=("admin",))
    for act in (
        RotateToken(sender="otto", token_hash=token_format.hashed(secret())),
        RevokeToken(id=id_of(otto)),
        ShowToken(id_of(otto)),
        ListTokens(),
        ReaffirmTokens(),
        LabelToken(id_of(otto), "otto"),
        ImportTokens(({"token_hash": "d" * 64, "agent": "otto"},)),
    ):
        assert workspace.refused("MISSING_SCOPE", otto, act)["scope"] == "admin"
    assert len(workspace.call(boss, ListTokens())["tokens"]) == 3
    assert workspace.call(boss, RevokeToken(id=id_of(otto))) == {"revoked": [id_of(otto)]}
    workspace.refused("BAD_TOKEN", otto, Whoami())


def test_a_token_that_is_not_there_is_not_found(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.call(OWNER, RevokeToken(id=id_of(otto)))
    for act in (RevokeToken(id=id_of(otto)), RevokeToken(sender="vera"), ShowToken("tok_0")):
        workspace.refused("NOT_FOUND", OWNER, act)
    for both in (RevokeToken(), RevokeToken(id=id_of(otto), sender="otto")):
        workspace.refused("USAGE", OWNER, both)


def test_no_token_is_stored_only_its_digest(workspace: Workspace) -> None:
    token = workspace.join("otto").token
    assert token is not None
    for (header,) in workspace.query("SELECT header FROM log"):
        assert token.encode() not in header


def test_a_session_is_one_senders_and_runs_once(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, StartSession("s1"))
    workspace.call(otto, StartSession("s1"))
    workspace.refused("NAME_TAKEN", vera, StartSession("s1"))
    workspace.call(otto, EndSession("s1"))
    workspace.refused("NAME_TAKEN", otto, StartSession("s1"))
    assert len(workspace.facts("session_started")) == 1


@pytest.mark.parametrize("session", ["", "a b", "-s", "../s", "s" * 129, "s\n", "ü"])
def test_a_session_of_another_form_is_bad_usage(workspace: Workspace, session: str) -> None:
    otto = workspace.join("otto")
    before = workspace.head()
    workspace.refused("USAGE", otto, StartSession(session))
    workspace.refused("USAGE", otto._replace(session=session), text_to("@vera"))
    assert workspace.head() == before


def test_tokens_are_suspended_after_a_restore_until_reaffirmed(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    fence = workspace.call(otto, AcquireClaim(item="B-1"))["claim"]["fence"]
    backup = str(workspace.directory / "kept.db")
    upkeep.backup(workspace.node, OWNER, backup)
    revoked = vera
    workspace.call(OWNER, RevokeToken(sender="vera"))
    assert upkeep.restore(workspace.node, OWNER, backup)["epoch"] == 1
    for credentials in (otto, revoked):
        said = workspace.refused("BAD_TOKEN", credentials, Whoami())
        assert "suspended" in said["message"]
        assert "reaffirm" in said["message"]
    assert workspace.call(OWNER, ReaffirmTokens(sender="otto")) == {"reaffirmed": [id_of(otto)]}
    workspace.refused("BAD_TOKEN", revoked, Whoami())
    assert workspace.call(otto, AcquireClaim(item="B-2"))["claim"]["fence"] > fence + (1 << 32)
    assert audit.verify(workspace.node)["ok"]
    assert workspace.facts("epoch_started")[0]["outcome"]["abandoned"]["epoch"] == 0


# --- acts are done once


def test_the_same_key_and_body_give_the_first_answer_whatever_came_since(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    act = SendMessage("@vera", {"text": "once"}, "send", key="k1", ttl_s=3600)
    first = workspace.node.call(otto, act)
    workspace.send(otto, "@vera", "more")
    workspace.send(vera, "@otto", "and more")
    workspace.ms += MINUTE
    before = workspace.head()
    again = workspace.node.call(otto, act)
    for answer in (first, again):
        del answer["deliveries"][0]["reach"]  # which is as of now
    assert again == first
    assert workspace.head() == before
    workspace.call(vera, ReadMessage(first["message"]["id"]))
    assert workspace.node.call(otto, act)["deliveries"][0]["state"] == "read"
    assert workspace.texts(vera) == ["once", "more"]


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
    workspace: Workspace, change: dict[str, Any]
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    act = SendMessage("@vera", {"text": "once"}, "send", key="k1")
    seq = workspace.node.call(otto, act)["message"]["seq"]
    before = workspace.head()
    other = act._replace(**change)
    said = workspace.refused("IDEMPOTENCY_CONFLICT", otto, other)
    assert (said["key"], said["seq"]) == ("k1", seq)
    assert workspace.head() == before
    workspace.node.call(vera, other)  # keys are a sender's own


def test_a_key_whose_body_was_redacted_is_a_conflict(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    act = SendMessage("@vera", {"text": "a secret"}, "send", key="k1")
    sent = workspace.node.call(otto, act)["message"]
    workspace.call(otto, Redact(sent["id"], "leaked"))
    workspace.refused("IDEMPOTENCY_CONFLICT", otto, act)


def test_an_answer_under_a_key_is_given_once(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    ask = workspace.ask(otto, "@vera")
    first = workspace.call(vera, AnswerAsk(ask, "yes", key="k1"))
    assert workspace.call(vera, AnswerAsk(ask, "yes", key="k1"))["message"] == first["message"]
    workspace.refused("IDEMPOTENCY_CONFLICT", vera, AnswerAsk(ask, "no", key="k1"))
    assert workspace.texts(otto) == ["yes"]


def test_a_large_body_sent_again_under_its_key_is_kept_once(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    act = SendMessage("@vera", {"text": "x" * (2 * MIB)}, "send", key="k1")
    first = workspace.node.call(otto, act)
    assert workspace.node.call(otto, act) == first
    assert workspace.query("SELECT count(*) FROM blob_chunks") == [(2,)]


# --- who gets a message


def test_an_unknown_recipient_is_accepted_and_said_with_near_matches(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera")
    workspace.join("vera", "cli")
    answer = workspace.node.call(otto, SendMessage("@verra", {"text": "x"}, "send"))
    assert answer["deliveries"] == [
        {"recipient": "@verra", "known": False, "reach": "unknown", "state": "accepted"}
    ]
    (notice,) = answer["notices"]
    assert (notice["code"], notice["did_you_mean"]) == (
        *("UNKNOWN_RECIPIENT", ["@vera", "@vera-cli"]),
    )
    answer = workspace.node.call(otto, SendMessage("@quux", {"text": "x"}, "send"))
    assert "did_you_mean" not in answer["notices"][0]


def test_a_strict_workspace_refuses_unknown_recipients(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera", "cli")
    workspace.set("recipients", "strict")
    before = workspace.head()
    said = workspace.refused("UNKNOWN_RECIPIENT", otto, text_to("@verra"))
    assert said["to"] == "@verra"
    assert said["did_you_mean"] == ["@vera", "@vera-cli"]
    assert workspace.head() == before
    for known in ("@vera", "@vera-cli", "AGENT:*"):
        workspace.send(otto, known)
    workspace.set("recipients", "open")
    workspace.send(otto, "@verra")


@pytest.mark.parametrize(("name", "joins_as"), [("vera", ("vera", None)), ("a-b", ("a", "b"))])
def test_mail_to_an_unknown_name_is_there_when_it_joins(
    workspace: Workspace, name: str, joins_as: tuple[str, str | None]
) -> None:
    otto = workspace.join("otto")
    workspace.send(otto, "@" + name, "welcome")
    assert workspace.texts(workspace.join(*joins_as)) == ["welcome"]


def test_mail_for_an_agent_is_seen_by_each_surface_and_taken_by_the_first(
    workspace: Workspace,
) -> None:
    otto, cli, desktop = (
        workspace.join("otto"),
        workspace.join("otto", "cli"),
        workspace.join("otto", "desktop"),
    )
    vera = workspace.join("vera")
    id = workspace.send(vera, "@otto", "for all of you")
    workspace.send(vera, "@otto-cli", "for the shell")
    assert workspace.texts(otto) == workspace.texts(desktop) == ["for all of you"]
    assert workspace.texts(cli) == ["for all of you", "for the shell"]
    assert "taken_by" not in workspace.call(cli, ReadMessage(id))
    assert workspace.call(desktop, ReadMessage(id))["taken_by"] == "@otto-cli"
    assert workspace.call(otto, ListInbox())["messages"][0]["taken_by"] == "@otto-cli"
    assert "taken_by" not in workspace.call(cli, ListInbox())["messages"][0]
    assert workspace.call(desktop, Whoami())["unread"] == 0
    workspace.refused("NOT_FOUND", desktop, ReadMessage("#" + str(workspace.head() - 3)))


def test_a_broadcast_reaches_who_is_there_but_the_senders_own_agent(workspace: Workspace) -> None:
    otto, cli = workspace.join("otto"), workspace.join("otto", "cli")
    vera, mira = workspace.join("vera", "cli"), workspace.join("mira", kind="human")
    answer = workspace.node.call(cli, SendMessage("AGENT:*", {"text": "all"}, "send"))
    assert [row["recipient"] for row in answer["deliveries"]] == ["@mira", "@vera"]
    late = workspace.join("late")
    assert workspace.texts(vera) == workspace.texts(mira) == ["all"]
    assert workspace.texts(otto) == workspace.texts(late) == []


def test_a_group_is_who_was_in_it_at_that_moment(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(OWNER, CreateGroup("devs", ("@vera", "otto", "vera")))
    workspace.send(mira, "@devs", "first")
    workspace.call(OWNER, CreateGroup("devs", ("mira", "otto")))
    workspace.send(otto, "@devs", "second")
    assert workspace.texts(vera) == ["first"]
    assert workspace.texts(mira) == ["second"]
    assert workspace.texts(otto) == ["first"], "a group's own member gets no copy of what it sends"
    said = workspace.refused("NOT_FOUND", OWNER, CreateGroup("devs", ("verra",)))
    assert said["did_you_mean"] == ["@vera"]


def test_a_group_of_an_agent_and_its_surface_is_one_message_for_it(workspace: Workspace) -> None:
    workspace.join("otto")
    cli, vera = workspace.join("otto", "cli"), workspace.join("vera")
    workspace.call(OWNER, CreateGroup("devs", ("otto", "otto-cli")))
    workspace.send(vera, "@devs")
    found = workspace.call(cli, ListInbox())
    assert (len(found["messages"]), found["open"], found["unread"]) == (1, 1, 1)


def test_mail_that_expires_unread_is_told_to_its_sender(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    unread = workspace.send(otto, "@vera", "hurry", ttl_s=60)
    seen = workspace.send(otto, "@vera", "read in time", ttl_s=60)
    workspace.call(vera, ReadMessage(seen))
    workspace.ms += 59_999
    assert workspace.call(vera, Whoami())["open"] == 2
    workspace.ms += 1
    assert workspace.call(vera, Whoami()) | {"open": 1, "unread": 0} == workspace.call(
        vera, Whoami()
    )
    (notice,) = workspace.call(otto, ListInbox())["messages"]
    assert (notice["from"], notice["reply_to"], notice["thread"]) == ("@interlock", unread, unread)
    assert notice["payload"]["text"].startswith(f"Your message {unread} to @vera expired unread")
    (delivery,) = workspace.call(otto, ShowReceipts(unread))["deliveries"]
    assert delivery["state"] == "expired"
    assert unread in [row["id"] for row in workspace.call(OWNER, Review())["expired"]]
    before = workspace.head()
    workspace.call(vera, ReadMessage(unread))
    assert workspace.head() == before, "what has expired is not read after all"


def test_an_inbox_is_paged_through_without_loss_or_repeat(workspace: Workspace) -> None:
    otto, cli, vera = workspace.join("otto"), workspace.join("otto", "cli"), workspace.join("vera")
    for number in range(7):
        workspace.send(vera, "@otto" if number % 2 else "@otto-cli", str(number))
    seen, after = [], 0
    while True:
        page = workspace.call(cli, ListInbox(limit=2, after=after))
        seen += [message["payload"]["text"] for message in page["messages"]]
        assert (page["open"], page["unread"]) == (7, 7)
        if "next" not in page:
            break
        after = page["next"]
    assert seen == [str(number) for number in range(7)]
    assert workspace.texts(otto) == ["1", "3", "5"]


# --- receipts


def test_receipts_tell_the_whole_way_of_a_message_in_order(workspace: Workspace) -> None:
    otto, vera, cli = workspace.join("otto"), workspace.join("vera"), workspace.join("vera", "cli")
    id = workspace.send(otto, "@vera")
    workspace.ms += 1000
    workspace.call(vera, ListInbox())
    workspace.call(cli, ListInbox())
    workspace.ms += 1000
    workspace.call(cli, ReadMessage(id))
    workspace.call(vera, ReadMessage(id))
    workspace.ms += 1000
    workspace.call(vera, AckMessages((id,), note="done"))
    workspace.call(cli, AckMessages((id,)))
    assert workspace.call(otto, ShowReceipts(id)) == {
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


def test_a_recipient_sees_its_own_receipt_and_not_the_others(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.join("mira")
    id = workspace.send(otto, "AGENT:*")
    assert [d["recipient"] for d in workspace.call(vera, ShowReceipts(id))["deliveries"]] == [
        "@vera"
    ]
    assert len(workspace.call(otto, ShowReceipts(id))["deliveries"]) == 2


def test_acks_are_all_or_none(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    mine, hers = workspace.send(otto, "@vera"), workspace.send(vera, "@otto")
    before = workspace.head()
    workspace.refused("NOT_FOUND", vera, AckMessages((mine, hers)))
    workspace.refused("NOT_FOUND", vera, AckMessages((mine, "0" * 36)))
    assert workspace.head() == before
    assert workspace.call(vera, Whoami())["open"] == 1
    workspace.call(vera, AckMessages((mine, mine)))
    assert workspace.call(vera, Whoami())["open"] == 0


def test_declining_what_was_acked_does_not_say_that_it_was_declined(workspace: Workspace) -> None:
    otto, vera, cli = workspace.join("otto"), workspace.join("vera"), workspace.join("vera", "cli")
    id = workspace.send(otto, "@vera")
    workspace.call(vera, AckMessages((id,)))
    answer = workspace.call(cli, AckMessages((id,), decline=True))
    assert workspace.call(otto, ShowReceipts(id))["deliveries"][0]["state"] == "acked"
    assert id not in answer.get("declined", [])


def test_unread_mail_does_not_come_back(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera")
    counts = []
    for act in (Whoami(), ReadMessage(id), ListInbox("all"), ReadMessage(id), AckMessages((id,))):
        workspace.call(vera, act)
        counts.append(
            (workspace.call(vera, Whoami())["open"], workspace.call(vera, Whoami())["unread"])
        )
    assert counts == [(1, 1), (1, 0), (1, 0), (1, 0), (0, 0)]


# --- asks


def test_an_answer_goes_to_who_asked_and_closes_the_ask(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    ask = workspace.ask(otto, "@vera")
    workspace.call(vera, AnswerAsk(ask, "yes"))
    found = workspace.call(otto, FindAnswer(ask))
    assert (found["answered"], found["answer"]["payload"]) == (True, {"text": "yes", "ask": ask})
    assert found["answer"]["to"] == "@otto-cli"
    assert workspace.call(vera, Whoami())["open"] == 0
    assert workspace.call(OWNER, Review())["unanswered"] == []


def test_a_question_with_a_time_limit_is_overdue_after_it(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera")
    payload = {"question": "may I?", "options": ["yes", "no"], "timeout_s": 60}
    workspace.node.call(otto, SendMessage("@vera", payload, "ask"))
    (waiting_for,) = workspace.call(OWNER, Review())["unanswered"]
    assert "overdue" not in waiting_for
    workspace.ms += 60_000
    (waiting_for,) = workspace.call(OWNER, Review())["unanswered"]
    assert waiting_for["overdue"] is True


def test_only_who_was_asked_answers_and_only_an_ask(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    ask, note = workspace.ask(otto, "@vera"), workspace.send(otto, "@vera")
    workspace.refused("INVALID_MESSAGE", otto, AnswerAsk(ask, "to myself"))
    workspace.refused("INVALID_MESSAGE", vera, AnswerAsk(note, "yes"))
    elsewhere = SendMessage("@mira", {"text": "yes", "ask": ask}, "answer")
    workspace.refused("INVALID_MESSAGE", vera, elsewhere)
    assert workspace.call(otto, FindAnswer(ask))["answered"] is False


def test_an_answer_is_seen_by_who_asked_and_not_by_others_who_were_asked(
    workspace: Workspace,
) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    ask = workspace.ask(otto, "AGENT:*")
    workspace.call(vera, AnswerAsk(ask, "only otto may know"))
    try:
        found = workspace.call(mira, FindAnswer(ask))
    except errors.NotFound:
        return
    assert "answer" not in found


# --- limits


def test_a_chain_of_replies_ends_at_the_hop_limit(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.set("limits.hops", "2")
    id = workspace.send(otto, "@vera")
    id = workspace.send(vera, "@otto", reply_to=id)
    id = workspace.send(otto, "@vera", reply_to=id)
    before = workspace.head()
    said = workspace.refused("TOO_MANY_HOPS", vera, text_to("@otto", reply_to=id))
    assert said["limit"] == 2
    assert workspace.head() == before
    workspace.send(vera, "@otto", thread=id)


def test_too_many_sends_in_a_minute_are_refused_until_it_is_over(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.set("limits.sends_per_minute", "3")
    for _ in range(3):
        workspace.send(otto, "@vera")
    before = workspace.head()
    said = workspace.refused("RATE_LIMITED", otto, text_to("@vera"))
    assert (said["retry_after_s"], said["limit"]) == (40, 3)  # it is 20 s past the minute
    assert workspace.head() == before
    workspace.send(vera, "@otto")
    workspace.ms += said["retry_after_s"] * 1000
    workspace.send(otto, "@vera")
    workspace.set("limits.sends_per_minute", "0")
    for _ in range(5):
        workspace.send(otto, "@vera")


def test_a_repeat_under_its_key_is_not_counted_as_another_send(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("limits.sends_per_minute", "1")
    act = SendMessage("@vera", {"text": "x"}, "send", key="k1")
    first = workspace.node.call(otto, act)
    assert workspace.node.call(otto, act) == first


@pytest.mark.parametrize(("limit", "size"), [(1000, 1001), (2 * MIB, 2 * MIB + 1)])
def test_a_message_above_the_limit_is_too_large_and_leaves_nothing(
    workspace: Workspace, limit: int, size: int
) -> None:
    otto = workspace.join("otto")
    workspace.set("limits.message_bytes", str(limit))
    before = workspace.head()
    said = workspace.refused("TOO_LARGE", otto, text_to("@vera", "x" * size))
    assert (said["size"], said["limit"]) == (size, limit)
    assert workspace.head() == before
    assert workspace.query("SELECT * FROM blob_chunks") == []
    workspace.send(otto, "@vera", "x" * limit)
    command = SendMessage("@vera", {"command": "x" * limit, "why": "y"}, "command")
    workspace.refused("TOO_LARGE", otto, command)


def test_a_large_body_that_is_refused_leaves_no_bytes(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("recipients", "strict")
    workspace.refused("UNKNOWN_RECIPIENT", otto, text_to("@vera", "x" * (2 * MIB)))
    workspace.call(OWNER, Pause())
    workspace.refused("PAUSED", otto, text_to("@otto", "x" * (2 * MIB)))
    assert workspace.query("SELECT * FROM blob_chunks") == []


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
def test_a_body_of_any_script_comes_back_byte_for_byte(workspace: Workspace, text: str) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", text)
    message = workspace.call(vera, ReadMessage(id))
    assert message["payload"] == {"text": text}
    assert message["size"] == len(text.encode())
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert "part" not in message


def test_half_a_character_is_no_text(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    before = workspace.head()
    for text in ("\ud800", "x" * MIB + "\udfff"):
        workspace.refused("INVALID_MESSAGE", otto, text_to("@vera", text))
    assert workspace.head() == before


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
    workspace: Workspace, text: str, blobs: int
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", text)
    assert len(workspace.query("SELECT * FROM blobs")) == blobs
    message = workspace.call(vera, ReadMessage(id))
    assert message["payload"]["text"] == text
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert audit.verify(workspace.node)["ok"]


def test_one_blob_serves_every_message_with_its_body_until_the_last_is_redacted(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "x" * (MIB + 1)
    first, second = workspace.send(otto, "@vera", text), workspace.send(otto, "@vera", text)
    assert workspace.query("SELECT count(*) FROM blob_chunks") == [(2,)]
    workspace.call(otto, Redact(first, "a secret"))
    assert "payload" not in workspace.call(vera, ReadMessage(first))
    assert workspace.call(vera, ReadMessage(second))["payload"]["text"] == text
    workspace.call(otto, Redact(second, "a secret"))
    assert workspace.query("SELECT * FROM blob_chunks") == []
    assert audit.verify(workspace.node)["ok"]


@pytest.mark.long
def test_a_body_of_64_mebibytes_comes_back_whole_and_in_ranges(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    line = "Grüße an 日本 🚦 \n"
    text = (line * (64 * MIB // len(line.encode()) + 1))[:-3]
    encoded = text.encode()
    assert len(encoded) >= 64 * MIB - 16
    id = workspace.send(otto, "@vera", text)
    listed = workspace.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["size"]) == (True, len(encoded))
    assert encoded.startswith(listed["payload"]["text"].encode())
    message = workspace.call(vera, ReadMessage(id))
    assert message["sha256"] == hashlib.sha256(encoded).hexdigest()
    assert message["payload"]["text"] == text
    assert rejoined(workspace, vera, id, 7 * MIB + 1) == encoded


def put(workspace: Workspace, upload: str, chunks: dict[int, bytes]) -> None:
    for number, data in chunks.items():
        workspace.node.do(lambda turn: turn.engine.put_chunk(upload, number, data))  # noqa: B023


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
    workspace: Workspace, chunks: dict[int, bytes]
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    whole = b"x" * MIB + b"end"
    damaged, good = (f"{0:015}.otto.{uuid.uuid4()}" for _ in range(2))
    put(workspace, damaged, chunks)
    before = workspace.head()
    sha256 = hashlib.sha256(whole).hexdigest()
    act = SendMessage("@vera", {}, "send", sha256=sha256, size=len(whole), upload=damaged)
    workspace.refused("DIGEST_MISMATCH", otto, act)
    with pytest.raises(errors.DigestMismatch):
        workspace.node.do(lambda turn: turn.engine.join(damaged, sha256))
    assert workspace.head() == before
    assert workspace.texts(vera) == []
    put(workspace, good, {0: b"x" * MIB, 1: b"end"})
    workspace.call(otto, act._replace(upload=good))
    assert workspace.call(vera, ReadMessage(f"#{before + 1}"))["payload"]["text"].encode() == whole


def test_a_chunk_is_neither_empty_nor_too_large(workspace: Workspace) -> None:
    for data in (b"", b"x" * (MIB + 1)):
        with pytest.raises(errors.Usage):
            put(workspace, "u", {0: data})


# --- ranges


def rejoined(workspace: Workspace, by: Credentials, id: str, step: int) -> bytes:
    """What following next_offset from 0 gives, a step at a time."""
    offset, parts = 0, []
    while True:
        part = workspace.call(by, ReadMessage(id, offset, offset + step))
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
    made.close()


@given(text=st.text(min_size=1, max_size=80), step=st.integers(1, 40))
@example(text="🚦" * 20, step=1)
@example(text="aé日🚦" * 5, step=2)
@example(text="\x80\x00\U0010ffff", step=3)
@settings(max_examples=60, derandomize=True)
def test_following_next_offset_from_zero_gives_the_whole_text(
    shared: tuple[Workspace, Any, Any], text: str, step: int
) -> None:
    workspace, otto, vera = shared
    id = workspace.send(otto, "@vera", text)
    assert rejoined(workspace, vera, id, step) == text.encode()


def test_ranges_of_a_blob_cross_its_chunks(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "é" * (MIB + 7)
    id = workspace.send(otto, "@vera", text)
    part = workspace.call(vera, ReadMessage(id, MIB - 4, MIB + 4))
    assert part["payload"]["text"] == "é" * 4
    assert (part["offset"], part["shown"], part["next_offset"]) == (MIB - 4, 8, MIB + 4)
    assert rejoined(workspace, vera, id, 300_001) == text.encode()


def test_a_range_begins_at_a_character_within_the_body(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "aé")
    workspace.refused("USAGE", vera, ReadMessage(id, 2, 3))
    assert workspace.refused("USAGE", vera, ReadMessage(id, 4, 9))["size"] == 3
    assert workspace.call(vera, ReadMessage(id, 3, 9))["shown"] == 0
    assert workspace.call(vera, ReadMessage(id, 0, 1 << 60))["payload"]["text"] == "aé"


@pytest.mark.parametrize(
    ("start", "stop"), [(-5, None), (None, -1), (None, 0), (5, 5), (7, 3), (-3, 3)]
)
def test_a_range_that_is_none_is_bad_usage(
    workspace: Workspace, start: int | None, stop: int | None
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "hello world")
    workspace.refused("USAGE", vera, ReadMessage(id, start, stop))


def test_a_list_shows_the_beginning_of_a_long_text_and_says_so(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "é" * 40_000
    id = workspace.send(otto, "@vera", text)
    listed = workspace.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 65_536, 65_536)
    assert listed["size"] == 80_000
    rest = workspace.call(vera, ReadMessage(id, listed["next_offset"], 1 << 40))
    assert listed["payload"]["text"] + rest["payload"]["text"] == text


def test_a_long_command_in_a_list_is_withheld_wholly(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    command = "rm -rf build # " + "x" * 70_000
    payload = {"command": command, "why": "the disk is full"}
    id = workspace.node.call(otto, SendMessage("@vera", payload, "command"))["message"]["id"]
    for listed in (
        workspace.call(vera, ListInbox())["messages"][0],
        workspace.call(vera, ShowThread(id))["messages"][0],
        workspace.call(otto, ListInbox("sent"))["messages"][0],
        workspace.call(vera, Search("build"))["messages"][0],
    ):
        assert listed["payload"] == {"why": "the disk is full"}
        assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 0, 0)
        assert listed["size"] == len(command)
    assert workspace.call(vera, ReadMessage(id))["payload"] == payload
    short = payload | {"command": "ls"}
    workspace.node.call(otto, SendMessage("@vera", short, "command"))
    assert workspace.call(vera, ListInbox())["messages"][1]["payload"] == short


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


def test_a_foreign_message_cannot_be_redacted_nor_told_from_an_absent_one(
    workspace: Workspace,
) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira")
    workspace.join("vera")
    foreign, before = workspace.ask(otto, "@vera"), workspace.head()
    workspace.refused("NOT_FOUND", mira, Redact(foreign, "why"))
    assert workspace.head() == before


@pytest.mark.parametrize("verb", SEEING)
def test_what_is_not_yours_to_see_does_not_exist(workspace: Workspace, verb: str) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira", scopes=("admin",))
    workspace.join("vera")
    foreign, absent = workspace.ask(otto, "@vera"), "12345678-1234-4234-8234-123456789abc"
    act = SEEING[verb]
    before = workspace.head()
    said = workspace.refused("NOT_FOUND", mira, act(foreign))
    assert said == {
        name: value.replace(absent, foreign)
        for name, value in workspace.refused("NOT_FOUND", mira, act(absent)).items()
    }
    workspace.refused("NOT_FOUND", mira, act(foreign[:8]))
    workspace.refused("NOT_FOUND", mira, act(f"#{before}"))
    assert workspace.head() == before


def test_a_review_tells_an_agent_nothing_of_others_mail(workspace: Workspace) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira")
    workspace.join("vera")
    workspace.ask(otto, "@vera")
    workspace.send(otto, "@vera", ttl_s=60)
    workspace.ms += 61_000
    assert len(workspace.call(OWNER, Review())["unanswered"]) == 1
    try:
        found = workspace.call(mira, Review())
    except errors.MissingScope:
        return
    assert (found["unanswered"], found["expired"]) == ([], [])


def test_a_search_finds_ones_own_mail_and_no_other(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    id = workspace.send(otto, "@vera", "the blue signal")
    for by, found in ((otto, 1), (vera, 1), (mira, 0)):
        assert len(workspace.call(by, Search("signal blue"))["messages"]) == found
    workspace.call(otto, Redact(id, "wrong"))
    assert workspace.call(vera, Search("signal"))["messages"] == []


def test_a_search_finds_what_any_surface_sent_and_what_reached_this_one(
    workspace: Workspace,
) -> None:
    cli, desktop, vera = (
        workspace.join("otto", "cli"),
        workspace.join("otto", "desktop"),
        workspace.join("vera"),
    )
    sent = workspace.send(cli, "@vera", "a signal")
    shared, own = (workspace.send(vera, to, "a signal") for to in ("@otto", "@otto-desktop"))

    def found(by: Credentials) -> list[str]:
        return [message["id"] for message in workspace.call(by, Search("signal"))["messages"]]

    assert found(cli) == [shared, sent]
    assert found(desktop) == [own, shared, sent]
    assert found(vera) == [own, shared, sent]


def test_a_thread_shows_only_the_callers_part_of_it(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    first = workspace.send(otto, "AGENT:*", "to both")
    workspace.send(vera, "@otto", "from vera", reply_to=first)
    workspace.send(mira, "@otto", "from mira", reply_to=first)
    shown = workspace.call(mira, ShowThread(first))["messages"]
    assert [message["payload"]["text"] for message in shown] == ["to both", "from mira"]
    assert len(workspace.call(otto, ShowThread(first))["messages"]) == 3


def test_a_message_is_named_by_id_prefix_or_position(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera")
    for reference in (id, id[:6], f"#{workspace.head()}"):
        assert workspace.call(vera, ReadMessage(reference))["id"] == id
    for reference in (id[:5], "", "#", "#-1", "#x", "#" + "9" * 30):
        workspace.refused("USAGE", vera, ReadMessage(reference))


def test_explain_tells_the_story_of_a_messages_token(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli", label="otto's laptop"), workspace.join("vera")
    workspace.ms += 5000
    id = workspace.send(otto._replace(session="s1"), "@vera")
    workspace.call(OWNER, RevokeToken(id=id_of(otto)))
    for by in (vera, OWNER):
        story = workspace.call(by, Explain(id))
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


def test_the_bytes_that_recognise_a_repeated_send_stay_as_the_log_has_them(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"text": "x"}, subject="s", key="k-1", ttl_s=60)
    sent = workspace.call(otto, request)["message"]
    digest = hashlib.sha256(b"x").hexdigest()
    given = [
        *("@vera", "send", {"text": "x"}, "s", None, None, "normal", None, 60, None, digest, 1),
        None,
    ]
    with workspace.node.file.reading() as db:
        store = workspace.node.transaction(db).store
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


def test_every_writing_verb_obeys_a_pause_at_once_and_stores_nothing(workspace: Workspace) -> None:
    # The node runs maintenance verbs, and Ask is a flow that sends.
    decided = [v for v in catalogue.verbs() if not v.declared.maintenance and v is not Ask]
    writes = {v for v in decided if not (v.declared.read_only or v.declared.when_paused)}
    assert {type(act) for act in WRITING} == writes
    boss = workspace.join("boss", scopes=("admin",))._replace(session="s1")
    workspace.call(boss, AcquireClaim(item="B-1"))
    workspace.ms += 1000
    workspace.call(OWNER, Pause("a leak"))
    before = workspace.head()
    for act in WRITING:
        said = workspace.refused("PAUSED", boss, act)
        assert (said["since"], said["reason"]) == ("2033-05-18T03:33:21.000Z", "a leak")
    mismatched = boss._replace(claimed="otto")
    workspace.refused("IDENTITY_MISMATCH", mismatched, text_to("@vera"), is_recorded=False)
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    workspace.send(boss, "@vera")


def test_looking_while_paused_marks_nothing_and_leases_still_end(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", ttl_s=60)
    workspace.call(vera._replace(session="s1"), AcquireClaim(item="B-1", ttl_s=60))
    workspace.call(OWNER, Pause())
    before = workspace.head()
    workspace.ms += 50_000
    workspace.call(vera, ListInbox())
    workspace.call(vera, ReadMessage(id))
    workspace.call(vera, KeepSession("s1"))
    workspace.ms += 10_000
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    assert workspace.call(otto, Whoami())["unread"] == 1, "now the sender is told that it expired"
    assert len(workspace.facts("claim_expired")) == 1


# --- time


def log_time(workspace: Workspace) -> int:
    """The time of the log in milliseconds since 1970."""
    now = datetime.fromisoformat(workspace.call(OWNER, ShowStatus())["now"])
    return (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_while_the_clock_is_behind_the_log_goes_on_at_half_speed(workspace: Workspace) -> None:
    workspace.join("otto")
    workspace.ms -= 5 * HOUR
    workspace.call(OWNER, Resume())  # takes the turn, and finds nothing to record
    assert log_time(workspace) == START
    for minutes in (10, 20, 30):
        workspace.ms += 10 * MINUTE
        assert log_time(workspace) == START + minutes * MINUTE // 2
    workspace.join("vera")
    workspace.ms += 10 * MINUTE
    assert log_time(workspace) == START + 20 * MINUTE


def test_a_lease_ends_although_the_clock_was_set_back_by_hours(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, AcquireClaim(item="B-1", ttl_s=60))
    workspace.ms -= 5 * HOUR
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    workspace.ms += 119_000
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is False
    workspace.ms += 1_000
    assert workspace.call(vera, AcquireClaim(item="B-1"))["acquired"] is True


def test_many_acts_in_quick_succession_do_not_hold_half_speed_up(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.ms -= HOUR
    workspace.send(otto, "@vera")
    for _ in range(100):
        workspace.ms += 1
        workspace.send(otto, "@vera")
    assert START + 49 <= log_time(workspace) <= START + 50


def test_log_time_does_not_go_back_while_the_clock_runs_on(workspace: Workspace) -> None:
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=30 * 60)
    workspace.ms -= 2 * HOUR
    workspace.call(OWNER, Resume())
    seen, expired = [log_time(workspace)], []
    for _ in range(30):
        workspace.ms += 10 * MINUTE
        seen.append(log_time(workspace))
        try:
            workspace.call(brief, Whoami())
        except errors.TokenExpired:
            expired.append(True)
        else:
            expired.append(False)
    assert expired == sorted(expired), "a token that has expired does not come back to life"
    assert seen == sorted(seen)
    assert seen[-1] == workspace.ms, "and at last the two agree again"


def test_facts_stand_in_the_order_of_their_times_whatever_the_clock_does(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    for hours in (1, -5, 0, 3, -1, -12, 24, 0, -30):
        workspace.ms += hours * HOUR
        workspace.send(otto, "@vera")
    times = [fact["at"] for fact in workspace.facts()]
    assert times == sorted(times)
    assert audit.verify(workspace.node)["ok"]


# --- upkeep


def test_a_state_of_another_schema_is_rebuilt_when_the_workspace_is_opened(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.send(otto, "@vera", "kept")
    workspace.call(otto, AcquireClaim(item="B-1"))
    before = upkeep.state_digest(workspace.node)

    def age(turn: Any) -> None:
        turn.db.execute("UPDATE state_position SET schema = '0-older'")
        turn.db.execute("DROP TABLE claims_waiting")
        turn.db.execute("CREATE TABLE mail_of_old(x); INSERT INTO mail_of_old VALUES (1)")

    workspace.node.do(age)
    workspace.close()
    workspace.node = Node(str(workspace.directory), clock=lambda: workspace.ms)
    assert upkeep.state_digest(workspace.node) == before
    assert workspace.query("SELECT 1 FROM sqlite_schema WHERE name = 'mail_of_old'") == []
    assert workspace.texts(vera) == ["kept"]
    assert audit.verify(workspace.node)["ok"]


def with_an_unknown_fact(
    workspace: Workspace, copy: Path, *, state_of_another_schema: bool
) -> None:
    """A copy of the workspace whose log a newer Interlock has gone on with."""
    copy.mkdir()
    upkeep.backup(workspace.node, OWNER, str(copy / "log.db"))
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


def test_an_unknown_kind_of_fact_stops_whoever_meets_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    otto = workspace.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(workspace, copy, state_of_another_schema=False)
    with Node(str(copy), clock=lambda: workspace.ms) as node:
        act = SendMessage("@vera", {"text": "x"}, "send")
        for _ in range(2):
            with pytest.raises(errors.NewerVersion, match="task_dreamed"):
                node.call(otto, act)
        with pytest.raises(errors.NewerVersion):
            upkeep.rebuild(node, OWNER)
        assert audit.show(node, ShowLog(limit=1000))["facts"][-1]["kind"] == "task_dreamed"


def test_a_state_that_cannot_be_rebuilt_is_not_opened(workspace: Workspace, tmp_path: Path) -> None:
    workspace.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(workspace, copy, state_of_another_schema=True)
    with pytest.raises(errors.NewerVersion):
        Node(str(copy), clock=lambda: workspace.ms)


def test_rebuilding_gives_the_same_state_while_much_expires(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    for _ in range(250):
        workspace.send(otto, "@vera", ttl_s=60)
    workspace.ms += 61_000
    answer = upkeep.rebuild(workspace.node, OWNER)
    assert (answer["rebuilt"], answer["changed"]) == (True, False)
    assert audit.verify(workspace.node)["ok"]
    for _ in range(3):  # a few hundred at once, by whoever comes
        workspace.call(OWNER, ShowStatus())
    assert len(workspace.call(OWNER, Review())["expired"]) == 250


def test_a_redacted_body_is_gone_from_every_file_and_the_log_still_verifies(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "the password is swordfish")
    workspace.call(vera, Search("swordfish"))
    workspace.call(otto, Redact(id, "leaked"))
    message = workspace.call(vera, ReadMessage(id))
    assert message["redacted"] is True
    assert not {"payload", "sha256", "size"} & message.keys()
    assert audit.verify(workspace.node)["ok"]
    assert upkeep.rebuild(workspace.node, OWNER)["changed"] is False
    workspace.close()
    for path in workspace.directory.rglob("*"):
        if path.is_file():
            assert b"swordfish" not in path.read_bytes(), path


def test_a_backup_of_another_workspace_is_not_restored_over_this_one(
    workspace: Workspace, tmp_path: Path
) -> None:
    otto = workspace.join("otto")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Workspace(elsewhere)
    other.join("vera")
    backup = str(tmp_path / "other.db")
    upkeep.backup(other.node, OWNER, backup)
    other.close()
    with pytest.raises(errors.Usage):
        upkeep.restore(workspace.node, OWNER, backup)
    assert workspace.call(otto, Whoami())["sender"] == "otto"
    shutil.rmtree(elsewhere)
    assert not [name for name in os.listdir(workspace.directory) if name.startswith("restoring")]
