"""The rules of tokens, scopes and sessions: what a caller may do, as which sender, until when."""

import contextlib
import weakref
from typing import Any

import pytest

from interlock.errors import BadToken
from interlock.node import audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import (
    EndSession,
    IdentifyToken,
    ImportTokens,
    Join,
    LabelToken,
    ListAgents,
    ListTokens,
    MintToken,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    ShowToken,
    StartSession,
)
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.workspace.verbs import Review, Whoami
from interlock.verbs.credentials import Credentials
from world.signed_in_people import secret
from world.workspace import MINUTE, OWNER, Workspace, text_to


def id_of(credentials: Credentials) -> str:
    assert credentials.token is not None
    return token_format.token_id(token_format.hashed(credentials.token))


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
def test_basic_scopes_limit_a_token_and_other_scopes_add_to_it(
    workspace: Workspace, asked: tuple[str, ...], granted: list[str]
) -> None:
    otto = workspace.join("otto", scopes=asked)
    assert workspace.call(otto, Whoami())["scopes"] == sorted(granted)


@pytest.mark.parametrize("scope", ["", "root", "gate:", "gate:A B", "Mail", "admin "])
def test_an_unknown_scope_is_refused(workspace: Workspace, scope: str) -> None:
    workspace.refused("USAGE", OWNER, Join("otto", scopes=(scope,)))
    assert workspace.call(OWNER, ListAgents())["agents"] == []


def test_a_missing_scope_is_named_and_recorded_without_the_request(workspace: Workspace) -> None:
    otto = workspace.join("otto", scopes=("claim",))
    error = workspace.refused("MISSING_SCOPE", otto, text_to("@vera", "the password is swordfish"))
    assert error["scope"] == "mail"
    (fact,) = workspace.facts("request_refused")
    assert (fact["sender"], fact["token"]) == ("@otto", id_of(otto))
    assert fact["outcome"].keys() == {"code", "digest"}
    assert fact["outcome"]["code"] == "MISSING_SCOPE"
    assert "body" not in fact
    headers = b"".join(row[0] for row in workspace.query("SELECT header FROM log"))
    bodies = b"".join(row[0] for row in workspace.query("SELECT body FROM bodies"))
    assert b"swordfish" not in headers + bodies


def test_a_read_without_the_scope_is_recorded_too(workspace: Workspace) -> None:
    otto = workspace.join("otto", scopes=("claim",))
    workspace.refused("MISSING_SCOPE", otto, ListInbox())
    assert len(workspace.facts("request_refused")) == 1


def test_only_twenty_refusals_of_a_sender_per_minute_are_recorded(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    forged = otto._replace(claimed="vera")
    for number in range(30):
        workspace.refused("IDENTITY_MISMATCH", forged, text_to("@mira"), is_recorded=number < 20)
    assert len(workspace.facts("request_refused")) == 20
    workspace.refused("IDENTITY_MISMATCH", vera._replace(claimed="otto"), text_to("@mira"))
    assert len(workspace.facts("request_refused")) == 21, "each sender has its own count"
    workspace.ms += MINUTE
    workspace.refused("IDENTITY_MISMATCH", forged, text_to("@mira"))
    assert len(workspace.facts("request_refused")) == 22
    assert len(workspace.call(OWNER, Review())["refusals"]) == 22


def test_a_forged_sender_is_refused_recorded_and_stores_nothing(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    for claimed in ("vera", "@vera", "otto", "OTTO-CLI", "", "@@otto-cli"):
        error = workspace.refused(
            "IDENTITY_MISMATCH", otto._replace(claimed=claimed), text_to("@vera")
        )
        assert (error["sender"], error["claimed"]) == ("@otto-cli", claimed)
    assert workspace.texts(vera) == []
    assert {fact["sender"] for fact in workspace.facts("request_refused")} == {"@otto-cli"}
    for claimed in ("otto-cli", "@otto-cli"):
        workspace.send(otto._replace(claimed=claimed), "@vera")


def test_only_an_admin_grants_more_than_the_default_scopes(workspace: Workspace) -> None:
    otto, boss = workspace.join("otto"), workspace.join("boss", scopes=("admin",))
    for request in (
        Join("eve", token_hash="a" * 64),
        MintToken("otto", scopes=("admin",), token_hash="b" * 64),
    ):
        error = workspace.refused("MISSING_SCOPE", otto, request)
        assert error["scope"] == "admin"
        workspace.call(boss, request._replace(token_hash=token_format.hashed(secret())))


def test_a_token_for_an_unregistered_sender_is_refused(workspace: Workspace) -> None:
    workspace.join("otto")
    before = workspace.head()
    error = workspace.refused("UNKNOWN_SENDER", OWNER, MintToken("ottto"))
    assert error["did_you_mean"] == ["@otto"]
    assert "did_you_mean" not in workspace.refused("UNKNOWN_SENDER", OWNER, MintToken("quux"))
    assert workspace.head() == before


def test_a_token_expires_to_the_millisecond(workspace: Workspace) -> None:
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=60)
    workspace.ms += 59_999
    workspace.call(brief, Whoami())
    workspace.ms += 1
    error = workspace.refused("TOKEN_EXPIRED", brief, Whoami())
    assert "2033-05-18T03:34:20.000Z" in error["message"]
    workspace.refused("TOKEN_EXPIRED", brief, text_to("@vera"))
    assert brief.token is not None
    found = workspace.call(OWNER, IdentifyToken(token_format.hashed(brief.token)))
    assert (found["known"], found["active"]) == (True, False)


def rotated(workspace: Workspace, **which: Any) -> Credentials:
    """Rotate a token as the owner, and return the credentials of the new one."""
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


def test_rotating_an_expired_token_gives_a_valid_one(workspace: Workspace) -> None:
    """The refusal of an expired token advises this."""
    workspace.join("otto")
    brief = workspace.mint("otto", ttl_s=60)
    workspace.ms += 61_000
    new = rotated(workspace, id=id_of(brief))
    assert workspace.call(new, Whoami())["sender"] == "otto"


def test_only_an_admin_manages_tokens_even_the_callers_own(workspace: Workspace) -> None:
    """Otherwise a token with only the scope mail could rotate its sender's other tokens, and get
    their scopes."""
    otto, boss = workspace.join("otto", scopes=("mail",)), workspace.join("boss", scopes=("admin",))
    workspace.mint("otto", scopes=("admin",))
    for request in (
        RotateToken(sender="otto", token_hash=token_format.hashed(secret())),
        RevokeToken(id=id_of(otto)),
        ShowToken(id_of(otto)),
        ListTokens(),
        ReaffirmTokens(),
        LabelToken(id_of(otto), "otto"),
        ImportTokens(({"token_hash": "d" * 64, "agent": "otto"},)),
    ):
        assert workspace.refused("MISSING_SCOPE", otto, request)["scope"] == "admin"
    assert len(workspace.call(boss, ListTokens())["tokens"]) == 3
    assert workspace.call(boss, RevokeToken(id=id_of(otto))) == {"revoked": [id_of(otto)]}
    workspace.refused("BAD_TOKEN", otto, Whoami())


def test_an_absent_or_revoked_token_is_not_found(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.call(OWNER, RevokeToken(id=id_of(otto)))
    for request in (RevokeToken(id=id_of(otto)), RevokeToken(sender="vera"), ShowToken("tok_0")):
        workspace.refused("NOT_FOUND", OWNER, request)
    for both in (RevokeToken(), RevokeToken(id=id_of(otto), sender="otto")):
        workspace.refused("USAGE", OWNER, both)


def test_the_log_contains_no_token(workspace: Workspace) -> None:
    token = workspace.join("otto").token
    assert token is not None
    for (header,) in workspace.query("SELECT header FROM log"):
        assert token.encode() not in header


def test_a_session_belongs_to_one_sender_and_cannot_restart(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(otto, StartSession("s1"))
    workspace.call(otto, StartSession("s1"))
    workspace.refused("NAME_TAKEN", vera, StartSession("s1"))
    workspace.call(otto, EndSession("s1"))
    workspace.refused("NAME_TAKEN", otto, StartSession("s1"))
    assert len(workspace.facts("session_started")) == 1


@pytest.mark.parametrize("session", ["", "a b", "-s", "../s", "s" * 129, "s\n", "ü"])
def test_a_malformed_session_is_refused(workspace: Workspace, session: str) -> None:
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
        error = workspace.refused("BAD_TOKEN", credentials, Whoami())
        assert "suspended" in error["message"]
        assert "reaffirm" in error["message"]
    assert workspace.call(OWNER, ReaffirmTokens(sender="otto")) == {"reaffirmed": [id_of(otto)]}
    workspace.refused("BAD_TOKEN", revoked, Whoami())
    assert workspace.call(otto, AcquireClaim(item="B-2"))["claim"]["fence"] > fence + (1 << 32)
    assert audit.verify(workspace.node)["ok"]
    assert workspace.facts("epoch_started")[0]["outcome"]["abandoned"]["epoch"] == 0


def test_a_token_is_registered_once_and_only_by_a_valid_hash(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    assert otto.token is not None
    workspace.refused(
        "NAME_TAKEN", OWNER, MintToken("otto", token_hash=token_format.hashed(otto.token))
    )
    for hash in ("zz", "A" * 64, "a" * 63):
        workspace.refused("USAGE", OWNER, MintToken("otto", token_hash=hash))
    assert workspace.call(otto, Whoami())["sender"] == "otto"


def test_the_owner_cannot_claim_to_be_a_sender(workspace: Workspace) -> None:
    workspace.join("vera")
    workspace.refused("IDENTITY_MISMATCH", OWNER._replace(claimed="vera"), Join("zed"))
    assert [agent["agent"] for agent in workspace.call(OWNER, ListAgents())["agents"]] == ["vera"]
    assert workspace.facts("request_refused") != []


class Text(str):
    """A string that allows weak references, so that a test notices when it is freed."""


@pytest.mark.parametrize("prefix", ["", "ilk_", "ilr_"])
def test_the_hash_cache_does_not_keep_a_huge_secret(prefix: str) -> None:
    shown = Text(prefix + "a" * 60_000)
    kept = weakref.ref(shown)
    with contextlib.suppress(BadToken):
        hashed(shown)
    del shown
    assert kept() is None
