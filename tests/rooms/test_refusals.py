"""Each refusal has one code, one title and one status, and describes the problem."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock import errors
from interlock.node import Node, audit
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim, RenewClaim
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.verbs import Ask, FindAnswer, ListInbox, SendMessage
from interlock.rooms.workspace.verbs import Resume, Whoami
from interlock.verbs.credentials import Credentials
from world.signed_in_people import secret
from world.workspace import OWNER, START, Workspace, text_to

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
    ("USE_VERB", "Reserved message type", 2, 400),
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
    ("LOG_FORKED", "Log forked", 4, 503),
    ("NEWER_VERSION", "Newer version", 4, 503),
    ("UNSAFE_FILESYSTEM", "Unsafe filesystem", 4, 503),
    ("OTHER_HOST", "Used on another host", 4, 503),
    ("ADDRESS_UNAVAILABLE", "Address unavailable", 4, 503),
    ("INTERNAL", "Internal error", 70, 500),
]


@pytest.mark.parametrize(("code", "title", "exit_status", "http"), REFUSALS)
def test_a_code_has_one_title_and_one_status_on_every_interface(
    code: str, title: str, exit_status: int, http: int
) -> None:
    kind = errors.by_code(code)
    assert (kind.code, kind.title, kind.exit, kind.http) == (code, title, exit_status, http)
    assert kind().as_dict() == {"error": title, "code": code, "message": kind().message}
    remedy = kind.remedy or ""
    assert kind().message.removesuffix(remedy).rstrip().endswith(".")


def test_the_list_has_every_refusal() -> None:
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


# --- the members of the error objects


def test_the_refusal_of_a_bad_recipient_has_both_shapes_and_a_suggestion(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    workspace.join("gpt")
    refusal = workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("AGENT:gpt"))
    assert refusal == {
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
def test_a_message_to_a_bad_recipient_is_not_stored(workspace: Workspace, to: str) -> None:
    otto = workspace.join("otto")
    before = workspace.head()
    refusal = workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to(to))
    assert refusal["to"] == to
    assert "did_you_mean" not in refusal, "no similar name is registered"
    assert workspace.head() == before


def test_the_refusal_of_an_invalid_message_lists_each_problem(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"command": 7, "wyh": "x"}, "command")
    refusal = workspace.refused("INVALID_MESSAGE", otto, request)
    assert refusal["type"] == "command"
    assert [problem["member"] for problem in refusal["problems"]] == ["command", "why", "wyh"]


def test_the_refusal_of_an_unknown_type_suggests_similar_types(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"text": "x"}, "sned")
    refusal = workspace.refused("UNKNOWN_TYPE", otto, request)
    assert (refusal["type"], refusal["did_you_mean"]) == ("sned", ["send"])
    assert refusal["valid_types"] == [
        *("send", "ask", "answer", "announce", "wake", "command", "blocker")
    ]


@pytest.mark.parametrize(
    ("type", "use"),
    [
        ("evidence", "interlock evidence run or interlock evidence add"),
        ("gate_verdict", "interlock gate pass or interlock gate fail"),
        ("task_created", "interlock task create"),
        ("task_claimed", "interlock task take"),
        ("task_completed", "interlock task complete"),
        ("agent_joined", "interlock join"),
    ],
)
def test_a_message_type_that_a_verb_writes_cannot_be_sent(
    workspace: Workspace, type: str, use: str
) -> None:
    otto = workspace.join("otto")
    refusal = workspace.refused("USE_VERB", otto, SendMessage("@vera", {}, type))
    assert (refusal["type"], refusal["use"]) == (type, use)


def test_a_request_without_a_token_is_refused(workspace: Workspace) -> None:
    refusal = workspace.refused("NO_IDENTITY", Credentials(), Whoami())
    assert refusal.keys() == {"error", "code", "message"}
    workspace.refused("NO_IDENTITY", OWNER, ListInbox())
    workspace.refused("NO_IDENTITY", Credentials(claimed="otto"), ListAgents())


def test_an_unknown_token_is_refused(workspace: Workspace) -> None:
    workspace.join("otto")
    for token in (secret(), "hunter2", ""):
        refusal = workspace.refused("BAD_TOKEN", Credentials(token=token), Whoami())
        assert refusal.keys() == {"error", "code", "message"}


def test_the_refusal_of_a_mistyped_token_names_its_checksum(workspace: Workspace) -> None:
    token = workspace.join("otto").token or ""
    wrong = token[:-9] + ("a" if token[-9] != "a" else "b") + token[-8:]
    refusal = workspace.refused("BAD_TOKEN", Credentials(token=wrong), Whoami())
    assert "checksum" in refusal["message"]


def test_the_refusal_of_a_held_claim_has_the_claim(workspace: Workspace) -> None:
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
    refusal = workspace.refused("NOT_HOLDER", vera, ReleaseClaim(item="B-1"))
    assert refusal["held_by"] == [claim]
    refusal = workspace.refused("NOT_HOLDER", vera, RenewClaim(item="B-2"))
    assert refusal["held_by"] == []


def test_the_refusal_of_a_stale_fence_has_the_fence_and_the_present_claim(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    old = workspace.call(otto, AcquireClaim(item="B-1", ttl_s=60))["claim"]["fence"]
    workspace.ms += 61_000
    claim = workspace.call(vera, AcquireClaim(item="B-1"))["claim"]
    assert claim["fence"] > old
    refusal = workspace.refused("STALE_FENCE", otto, RenewClaim(item="B-1", fence=old))
    assert (refusal["fence"], refusal["held_by"]) == (old, [claim])
    assert workspace.facts("request_refused")[-1]["outcome"]["code"] == "STALE_FENCE"
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claims"] == [claim]


def test_an_unanswered_question_is_a_plain_no(workspace: Workspace) -> None:
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
    refusal = workspace.refused("ENGINE_UNAVAILABLE", OWNER, Resume())
    assert refusal.keys() == {"error", "code", "message"}


def through_sqlite(path: Path, sql: str, *bindings: Any) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, bindings)
    db.close()


def test_a_file_of_another_program_is_not_changed(tmp_path: Path) -> None:
    through_sqlite(tmp_path / "log.db", "CREATE TABLE theirs(x)")
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(errors.NotAWorkspace):
        Node(str(tmp_path))
    assert (tmp_path / "log.db").read_bytes() == before


def test_a_file_of_a_newer_format_is_refused(workspace: Workspace) -> None:
    workspace.close()
    through_sqlite(workspace.directory / "log.db", "PRAGMA user_version = 99")
    with pytest.raises(errors.NewerVersion):
        Node(str(workspace.directory))


def test_a_file_last_used_on_another_host_is_refused_unless_adopted(
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
