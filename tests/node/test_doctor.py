"""The doctor's checks of the log and of presence.

Each test creates a problem, runs the advised command as printed, and checks that the finding ends.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

from interlock.doors.cli import doctor as examining
from interlock.node import Node, doctor
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.verbs import MintToken
from interlock.rooms.people.verbs import NameConnection
from interlock.rooms.work.verbs import SubmitTask, TakeTask
from interlock.rooms.workspace.findings import MAX_FINDINGS, ORDER
from interlock.rooms.workspace.verbs import Attend, Examine, Whoami
from interlock.verbs.credentials import Credentials
from world.commandline import Place, lines, until
from world.doctor_findings import findings, findings_of, node_in_the_past, only_finding, run_advice
from world.fork_server import Servers
from world.server import ForkedServer
from world.signed_in_people import connected, signed_in
from world.wake_workspace import window_of
from world.workspace import DAY, HOUR, OWNER, join, send_text

pytestmark = pytest.mark.every_engine

COMMIT, TREE = "5" * 40, "6" * 40
PEER = "192.0.2.7"


# --- all of them


def test_order_lists_every_check() -> None:
    of_node = [*doctor.CHECKS, *doctor.PRIVATE]
    assert sorted([*of_node, *examining.CHECKS]) == sorted(ORDER)


def test_new_workspace_has_no_findings(place: Place, servers: Servers) -> None:
    """The agents have just joined, sent mail and made claims, and have read nothing."""
    place.join("otto", "cli", "--label", "Otto's laptop")
    place.join("vera", None, "--kind", "human")
    text = place.run("doctor").text
    assert text == f"No problems found. Interlock ran {len(ORDER)} checks.\n"
    with ForkedServer(place, servers):
        place.join("bert")
        place.ok("setup", "claude-code", "--from", "bert")
        place.ok("send", "@bert", "Good morning.", "--from", "vera")
        place.ok("send", "AGENT:*", "Good morning.", "--from", "vera")
        place.ok("send", "@otto", "Are you there?", "--type", "ask", "--from", "vera")
        place.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
        place.ok("gate", "create", "athena", "--holder", "vera")
        place.ok("task", "create", "--title", "Sort it", "--gate", "athena", "--from", "vera")
        place.ok("token", "mint", "--sender", "bert", "--ttl", "1h")
        assert findings(place) == []


def test_findings_with_the_smallest_change_come_first(joined: Place) -> None:
    joined.ok("send", "@nobody-yet", "hello", "--from", "vera")
    joined.ok("gate", "create", "athena", "--holder", "vera")
    joined.ok("token", "mint", "--sender", "otto-cli", "--label", "a laptop")
    joined.ok("token", "revoke", "--sender", "vera")
    assert [found["check"] for found in findings(joined)] == [
        *("labels-agree", "recipients-known", "credentials-good", "gates-held"),
    ]
    text = joined.run("doctor").text
    head = f"Problems found by {len(ORDER)} checks, the smallest fix first:\n\nlabels-"
    assert text.startswith(head)


def test_doctor_counts_the_findings_beyond_the_limit(joined: Place) -> None:
    for number in range(MAX_FINDINGS + 5):
        joined.ok("send", f"@Missing_{number:02}", "hello", "--from", "vera")
    found = findings_of(joined, "recipients-known")
    assert [each["subject"] for each in found[:-1]] == [
        f"@Missing_{number:02}" for number in range(MAX_FINDINGS)
    ]
    assert (
        found[-1]["message"]
        == "This check has 5 more findings. Solve these first, then check again."
    )


def test_only_admins_get_findings_about_tokens(place: Place) -> None:
    otto, vera = place.join("otto"), place.join("vera", None, "--kind", "human")
    admin = place.join("ada", None, "--scope", "admin")
    place.ok("token", "mint", "--sender", "vera", "--label", "a laptop")
    assert findings_of(place, "labels-agree", INTERLOCK_TOKEN=otto) == []
    assert findings_of(place, "labels-agree", INTERLOCK_TOKEN=vera) == []
    assert len(findings_of(place, "labels-agree", INTERLOCK_TOKEN=admin)) == 1


def test_advised_command_names_the_given_workspace(joined: Place) -> None:
    joined.ok("token", "mint", "--sender", "vera", "--label", "a laptop")
    named = ("--workspace", str(joined.workspace))
    (found,) = findings(joined, *named, INTERLOCK_WORKSPACE=None)
    assert found["do"].startswith(f"interlock --workspace {joined.workspace} token label tok_")
    run_advice(joined.but(INTERLOCK_WORKSPACE=None), found)
    assert findings(joined) == []


def test_doctor_refuses_a_missing_workspace_and_does_not_create_it(joined: Place) -> None:
    missing = joined.root / "mistyped"
    refusal = joined.no("NOT_A_WORKSPACE", "doctor", INTERLOCK_WORKSPACE=str(missing))
    assert str(missing) in refusal["message"]
    assert not missing.exists()


def test_doctor_prints_a_shared_remedy_once(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "vera")
    joined.ok("token", "revoke", "--sender", "vera")
    kept, gate = findings(joined)
    assert kept["do"] == gate["do"] == "interlock token mint --sender vera --keep"
    shown = joined.run("doctor").text
    again = "The same command as for credentials-good."
    assert shown.count(kept["do"]) == shown.count(again) == 1
    run_advice(joined, kept)
    assert findings(joined) == []


def test_advice_for_a_caller_with_a_token_has_no_from_flag(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    admin = joined.ok("token", "mint", "--sender", "vera", "--scope", "admin")["token"]
    joined.ok("token", "revoke", "--sender", "otto-cli")
    (found,) = findings_of(joined, "claims-alive", INTERLOCK_TOKEN=admin)
    assert "--from" not in found["do"]
    run_advice(joined.but(INTERLOCK_TOKEN=admin), found)
    assert findings_of(joined, "claims-alive") == []


def test_failed_check_is_a_finding(joined: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Node) -> Any:
        raise ZeroDivisionError("by accident")

    monkeypatch.setitem(doctor.PRIVATE, "gates-held", broken)
    found = only_finding(joined, "gates-held")
    assert found["message"] == "This check failed with an error: by accident"


# --- tokens


def test_advised_commands_fix_a_label_that_names_another_agent(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "otto-cli", "--label", "Vera's laptop")
    found = only_finding(joined, "labels-agree")
    assert "names @vera" in found["message"]
    assert found["subject"] == made["id"]
    said, own = found["message"].split(" — or, if it should belong to ")
    _, other = said.split(" If it should belong to ")
    assert own == f"@otto-cli: {found['do']}"
    run_advice(joined, found)
    assert findings(joined) == []
    joined.ok("token", "label", made["id"], "Vera's laptop")
    run_advice(joined, {"do": other.removeprefix("@vera: ")})
    assert findings(joined) == []


def test_advised_command_renames_a_connection_named_after_another_agent(place: Place) -> None:
    with node_in_the_past(place, 0) as node:
        browser = signed_in(node, "vera", "otto")
        join(node, "mia")
        made = connected(node, browser, "otto", "phone")
        for name in ("Vera's phone", "otto and mia", "On the train"):
            node.call(OWNER, NameConnection(made.id, name))
            assert findings_of(place, "labels-agree") == []
        node.call(OWNER, NameConnection(made.id, "Mia's phone"))
    (found,) = findings_of(place, "labels-agree")
    assert found["subject"] == made.id
    assert "mentions @mia, but the connection acts as @otto-phone for @vera" in found["message"]
    run_advice(place, found)
    assert findings_of(place, "labels-agree") == []


def test_doctor_ignores_labels_of_revoked_tokens(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "otto-cli", "--label", "Vera's laptop")
    joined.ok("token", "revoke", made["id"])
    assert findings(joined) == []


def test_advised_command_rotates_a_token_that_expires_soon(place: Place) -> None:
    with node_in_the_past(place, 6 * DAY) as node:
        join(node, "otto")
        made = node.call(OWNER, MintToken("otto", ttl_s=7 * 86_400))
        node.call(OWNER, MintToken("otto", ttl_s=30 * 86_400))
    found = only_finding(place, "tokens-lasting")
    assert found["subject"] == made["id"]
    run_advice(place, found)
    assert findings(place) == []


def test_doctor_ignores_new_tokens_with_a_short_lifetime(joined: Place) -> None:
    for ttl in ("1m", "1h", "7d"):
        joined.ok("token", "mint", "--sender", "vera", "--ttl", ttl)
    assert findings(joined) == []


@pytest.mark.embedded("a backup cannot replace the log of a shared engine")
def test_doctor_lists_suspended_tokens_until_they_are_reaffirmed(joined: Place) -> None:
    joined.ok("backup", "copy.db")
    joined.ok("restore", "copy.db")
    suspended = findings_of(joined, "tokens-lasting")
    assert len(suspended) == 2
    assert len(findings_of(joined, "credentials-good")) == 2
    for found in suspended:
        assert "is suspended" in found["message"]
        run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_token_in_two_sessions_at_once(joined: Place) -> None:
    for session in ("one", "one", "two", "two"):
        joined.ok("whoami", "--from", "otto-cli", "--session", session)
    joined.ok("whoami", "--from", "otto-cli")
    assert findings(joined) == [], "the sessions did not overlap"
    joined.ok("whoami", "--from", "otto-cli", "--session", "one")
    found = only_finding(joined, "tokens-apart")
    assert "2 sessions at once: one, two." in found["message"]
    assert "a token of its own" in found["message"]
    assert found["do"] == "interlock token mint --sender otto-cli"
    printed = run_advice(joined, found)
    (own,) = (line for line in printed.splitlines() if line.startswith("ilk_"))
    shutil.rmtree(joined.workspace / "presence")  # ten minutes pass
    for session in ("one", "two", "one", "two"):
        if session == "one":
            joined.ok("whoami", "--from", "otto-cli", "--session", session)
        else:
            joined.ok("whoami", "--session", session, INTERLOCK_TOKEN=own)
    assert findings(joined) == []


def call_from(place: Place, token: str, peer: str | None) -> None:
    """Call a newly started node from this address."""
    with node_in_the_past(place, 0) as node:
        node.call(Credentials(token=token, peer=peer), Whoami())


def test_doctor_finds_a_token_at_two_addresses_at_once(place: Place) -> None:
    token = place.join("otto")
    for peer in (PEER, PEER, None, None):
        call_from(place, token, peer)
    assert findings(place) == [], "the token moved to another address"
    call_from(place, token, PEER)
    found = only_finding(place, "tokens-apart")
    assert f"2 hosts at once: {PEER}, this machine." in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_loopback_and_unix_socket_count_as_one_host(place: Place, servers: Servers) -> None:
    token = place.join("otto")
    with ForkedServer(place, servers) as served:
        for _ in range(2):
            assert served.ask("GET", "/v1/whoami", token=token).status == 200
            place.ok("whoami", "--from", "otto")
    place.ok("whoami", "--from", "otto")
    assert findings(place) == []


# --- mail


def test_advised_command_tells_the_sender_of_mail_to_a_mistyped_name(joined: Place) -> None:
    sent = joined.ok("send", "@vrea", "hello", "--from", "otto-cli")["message"]["id"]
    found = only_finding(joined, "recipients-known")
    assert "Did you mean @vera?" in found["message"]
    assert found["do"].startswith("interlock send @otto-cli ")
    run_advice(joined, found)
    (mail,) = joined.ok("inbox", "--from", "otto-cli")["messages"]
    assert mail["source"] == "agent:vera"
    assert f"send {sent} again, to @vera." in mail["payload"]["text"]
    assert findings(joined) == [], "the sender was told"


@pytest.mark.parametrize(
    ("words", "is_fixed"),
    [
        (("Something else.",), False),
        (("Something else.", "--subject", "Lunch"), False),
        (("Deployed.",), True),
        (("Deployed, I meant to say.", "--subject", "Shop"), True),
        (("As I wrote.", "--reply-to", "$lost"), True),
        (("As I wrote.", "--thread", "$lost"), True),
    ],
)
def test_only_the_same_message_to_a_registered_name_fixes_lost_mail(
    joined: Place, words: tuple[str, ...], is_fixed: bool
) -> None:
    said = ("Deployed.", "--subject", "Shop", "--from", "otto-cli")
    lost = joined.ok("send", "@vrea", *said)["message"]["id"]
    again = [word.replace("$lost", lost) for word in words]
    joined.ok("send", "@vera", *again, "--from", "otto-cli")
    assert (findings_of(joined, "recipients-known") == []) is is_fixed


def test_resent_mail_does_not_fix_another_senders_mail_to_the_same_name(joined: Place) -> None:
    joined.join("bert")
    left = joined.ok("send", "@vrea", "hello", "--from", "bert")["message"]["id"]
    joined.ok("send", "@vrea", "hello", "--from", "otto-cli")
    assert "2 messages wait" in only_finding(joined, "recipients-known")["message"]
    joined.ok("send", "@vera", "hello", "--from", "otto-cli")
    found = only_finding(joined, "recipients-known")
    assert "1 message waits" in found["message"]
    assert f"The last one is {left}, from @bert" in found["message"]


def test_finding_about_an_unregistered_name_ends_when_it_joins(joined: Place) -> None:
    joined.ok("send", "@zephyrine", "hello", "--from", "otto-cli")
    found = only_finding(joined, "recipients-known")
    assert found["message"].endswith("interlock join zephyrine")
    assert found["do"].startswith("interlock send @otto-cli '@zephyrine is not registered. ")
    joined.join("zephyrine")
    assert findings(joined) == []


def test_advised_command_tells_the_sender_of_mail_to_an_unregistered_name(joined: Place) -> None:
    joined.ok("send", "@zephyrine", "hello", "--from", "otto-cli")
    run_advice(joined, only_finding(joined, "recipients-known"))
    assert findings(joined) == []


def test_doctor_ignores_old_mail_to_unregistered_names(place: Place) -> None:
    with node_in_the_past(place, 8 * DAY) as node:
        send_text(node, join(node, "otto"), "@zephyrine")
    assert findings(place) == []


def test_doctor_finds_a_mailbox_unread_for_a_day(place: Place) -> None:
    with node_in_the_past(place, 2 * DAY) as node:
        otto = join(node, "otto")
        join(node, "vera", kind="human")
        send_text(node, otto, "@vera")["id"]
    place.ok("token", "mint", "--sender", "vera", "--keep")
    found = only_finding(place, "mailboxes-read")
    assert "@vera has 1 unread message" in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_doctor_ignores_unread_mail_of_a_sender_that_wrote_since(place: Place) -> None:
    """Sent mail counts as activity, even without a record in presence."""
    with node_in_the_past(place, 2 * DAY) as node:
        otto, vera = join(node, "otto"), join(node, "vera", kind="human")
        send_text(node, otto, "@vera")["id"]
        send_text(node, vera, "@zephyrine")["id"]
    shutil.rmtree(place.workspace / "presence")
    assert findings_of(place, "mailboxes-read") == []


# --- waking


def test_doctor_finds_an_agent_with_mail_that_cannot_be_woken(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        vera = join(node, "vera", kind="human")
        join(node, "otto")
        send_text(node, vera, "@otto")["id"]
    found = only_finding(place, "agents-wakeable")
    assert found["message"].startswith("@otto has had unread mail since ")
    assert found["do"] == "interlock setup claude-code --from otto", "no client is installed"
    place.ok("token", "mint", "--sender", "otto", "--keep")
    with place.start("watch", "--from", "otto", "--json") as watching:
        until(lambda: not findings_of(place, "agents-wakeable"))
        watching.kill()
    assert len(findings_of(place, "agents-wakeable")) == 1
    place.ok("mute", "@otto", "--from", "otto")
    assert findings_of(place, "agents-wakeable") == []


def test_advice_sets_up_the_installed_client(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        join(node, "otto", surface="cli")
        send_text(node, join(node, "vera", kind="human"), "@otto-cli")
    (place.home / ".codex").mkdir()
    found = only_finding(place, "agents-wakeable")
    assert found["do"] == "interlock setup codex --from otto-cli"
    place.ok("token", "mint", "--sender", "otto-cli", "--keep")
    run_advice(place, found)


def test_advice_for_a_connected_client_is_a_message_to_its_person(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        made = connected(node, signed_in(node, "vera", "otto"), "otto", "claudeai")
        send_text(node, join(node, "mia"), f"@{made.sender}")
    place.ok("token", "mint", "--sender", "mia", "--keep")
    (found,) = findings_of(place, "agents-wakeable")
    assert "It is a client that @vera connected" in found["message"]
    assert found["do"].startswith("interlock send @vera ")
    run_advice(place, found)
    (mail,) = (row for row in place.ok("inbox", "--sent", "--from", "mia")["messages"][-1:])
    assert (mail["to"], mail["payload"]["text"][:24]) == ("@vera", "@otto-claudeai has unrea")


def test_doctor_counts_a_client_with_hooks_as_reachable(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        otto = join(node, "otto")
        node.call(otto, AcquireClaim("B-1", ttl_s=86_400))
    assert "@otto holds B-1" in findings_of(place, "agents-wakeable")[0]["message"]
    with node_in_the_past(place, 0) as node:
        node.call(otto._replace(session="s-1"), Attend("start", "claude-code"))
    assert findings_of(place, "agents-wakeable") == []


@pytest.mark.parametrize(("command", "count"), [("false", 1), ("true", 0)])
def test_doctor_finds_a_failed_wake_up(
    place: Place, servers: Servers, command: str, count: int
) -> None:
    place.join("otto")
    place.join("vera", None, "--kind", "human")
    rules = place.workspace / "wake.toml"
    rules.write_text(f'[commands]\notto = ["{command}"]\n')
    rules.chmod(0o600)
    with ForkedServer(place, servers):
        sent = place.ok("send", "@otto", "hello", "--from", "vera")["message"]["id"]
        until(lambda: any(fact["kind"] == "wake_ended" for fact in place.facts("wake_ended")))
        found = findings_of(place, "wakes-working")
    assert len(found) == count
    for each in found:
        assert each["do"] == f"interlock receipts {sent} --from vera"
        assert "@otto" in run_advice(place, each)


# --- claims


def test_doctor_finds_a_claim_whose_client_has_died(place: Place) -> None:
    place.join("vera", None, "--kind", "human")
    otto = Credentials(token=place.join("otto"), session="s-1")
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        next(lines(client))
        with node_in_the_past(place, 0) as node:
            node.call(otto, Attend("start", "claude-code", window=window_of(client.pid)))
            node.call(otto, AcquireClaim(paths=("src/a b.py",), repo="example.org/o/r"))
        assert findings(place) == []
        client.kill()
    found = only_finding(place, "claims-alive")
    assert "the client of its session has died" in found["message"]
    assert "then holds the claim" in found["message"]
    run_advice(place, found)
    assert findings(place) == []
    (claim,) = place.ok("claim", "list")["claims"]
    assert claim["holder"] == "@vera"


SLEEPING = 'echo $$; "$PY" -m interlock claim acquire --item B-1 >&2; exec sleep 600'


def claim_and_kill(place: Place) -> None:
    """Start a client of otto with `interlock run`, let it claim an item, and kill both."""
    with place.start("run", "otto", "--", "sh", "-c", SLEEPING) as running:
        client = int(next(lines(running)))
        until(lambda: place.ok("claim", "list")["claims"])
        windows = place.workspace / "presence" / "otto.windows"
        until(lambda: windows.is_dir() and any(windows.iterdir()))
        assert findings_of(place, "claims-alive") == []
        running.kill()
        running.wait()
        assert findings_of(place, "claims-alive") == [], "the client still runs"
        os.kill(client, signal.SIGKILL)


def test_doctor_finds_a_claim_of_a_killed_session(place: Place) -> None:
    place.join("vera", None, "--kind", "human")
    place.join("otto")
    claim_and_kill(place)
    (found,) = until(lambda: findings_of(place, "claims-alive"))
    assert "the client of its session has died" in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_server_releases_the_claims_of_a_killed_session(place: Place, servers: Servers) -> None:
    place.join("otto")
    with ForkedServer(place, servers):
        claim_and_kill(place)
        until(lambda: not place.ok("claim", "list")["claims"])
        assert findings(place) == []


def test_advice_joins_a_person_before_the_take_over_if_there_is_none(place: Place) -> None:
    place.join("otto")
    place.join("bert")
    place.ok("claim", "acquire", "--item", "B-1", "--from", "otto")
    place.ok("token", "revoke", "--sender", "otto")
    (found,) = findings_of(place, "claims-alive")
    assert found["do"].startswith("interlock join NAME --kind human && interlock claim take-over ")
    run_advice(place, found | {"do": found["do"].replace("NAME", "vera")})
    assert findings_of(place, "claims-alive") == []


def test_doctor_finds_a_claim_of_a_sender_without_a_token(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    assert findings(joined) == []
    joined.ok("token", "revoke", "--sender", "otto-cli")
    (found,) = findings_of(joined, "claims-alive")
    assert "it has no valid token" in found["message"]
    run_advice(joined, found)
    assert findings_of(joined, "claims-alive") == []


@pytest.mark.embedded("a backup cannot replace the log of a shared engine")
def test_advice_does_not_take_over_a_claim_of_a_suspended_token(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    joined.ok("backup", "copy.db")
    joined.ok("restore", "copy.db")
    (found,) = findings_of(joined, "claims-alive")
    assert "take-over" not in found["do"] + found["message"]
    joined.ok("token", "reaffirm", "--all")
    assert findings_of(joined, "claims-alive") == []


# --- gates


def test_doctor_finds_a_gate_whose_holder_has_no_token(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "vera")
    assert findings(joined) == []
    joined.ok("token", "revoke", "--sender", "vera")
    (joined.workspace / "credentials" / "vera.json").unlink()
    found = only_finding(joined, "gates-held")
    assert found["do"] == "interlock token mint --sender vera --keep"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_gate_that_only_a_revoked_scope_held(joined: Place) -> None:
    scope = ("--scope", "gate:scrub")
    made = joined.ok("token", "mint", "--sender", "vera", *scope)
    task = ("task", "create", "--title", "Sort it", "--id", "T-1", "--gate", "scrub")
    joined.ok(*task, "--from", "otto-cli")
    with node_in_the_past(joined, 0) as node:
        otto = Credentials(token=joined.ok("token", "mint", "--sender", "otto-cli")["token"])
        node.call(otto, TakeTask("T-1"))
        node.call(otto, SubmitTask("T-1", COMMIT, TREE))
    assert findings(joined) == []
    joined.ok("token", "revoke", made["id"])
    found = only_finding(joined, "gates-held")
    assert found["do"] == "interlock token mint --sender vera --scope gate:scrub --keep"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_gate_that_only_the_worker_holds(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "otto")
    task = ("task", "create", "--title", "Sort it", "--id", "T-1", "--gate", "athena")
    joined.ok(*task, "--from", "vera")
    with node_in_the_past(joined, 0) as node:
        otto = Credentials(token=joined.ok("token", "mint", "--sender", "otto-cli")["token"])
        node.call(otto, TakeTask("T-1"))
        assert findings(joined) == []
        node.call(otto, SubmitTask("T-1", COMMIT, TREE))
    found = only_finding(joined, "gates-held")
    assert "Only @otto-cli can hold this gate" in found["message"]
    assert found["do"] == "interlock gate create athena --replace --holder otto --holder vera"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_hides_tokens_from_callers_without_admin(joined: Place) -> None:
    admin = joined.join("dora", None, "--kind", "human", "--scope", "admin")
    label = ("--label", "the laptop of Nina")
    minted = joined.ok("token", "mint", "--sender", "otto-cli", *label)
    with Node(str(joined.workspace)) as node:
        browser = signed_in(node, "rosa")

        def told(**shown: Any) -> str:
            return json.dumps(node.call(Credentials(**shown), Examine()))

        for shown in ({"owner": True}, {"token": admin}):
            assert minted["id"] in told(**shown)
            assert "the laptop of Nina" in told(**shown)
        for token in (browser, joined.token_of("vera"), joined.token_of("otto-cli")):
            assert minted["id"] not in told(token=token)
            assert "Nina" not in told(token=token)
