"""The doctor on what the log says and who was seen: each check once sick and once healthy, and
what puts it right is typed as it stands."""

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
THERE = "192.0.2.7"


# --- all of them


def test_every_check_has_its_place_in_the_order() -> None:
    of_node = [*doctor.CHECKS, *doctor.PRIVATE]
    assert sorted([*of_node, *examining.CHECKS]) == sorted(ORDER)


def test_a_workspace_in_its_first_minutes_is_well(place: Place, servers: Servers) -> None:
    """Agents that have just joined, written, claimed, and not yet read anything."""
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


def test_the_smallest_change_comes_first(joined: Place) -> None:
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


def test_of_very_many_findings_the_first_are_told_and_the_others_counted(joined: Place) -> None:
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


def test_an_agent_is_told_of_the_engine_and_not_of_others_tokens(place: Place) -> None:
    otto, vera = place.join("otto"), place.join("vera", None, "--kind", "human")
    admin = place.join("ada", None, "--scope", "admin")
    place.ok("token", "mint", "--sender", "vera", "--label", "a laptop")
    assert findings_of(place, "labels-agree", INTERLOCK_TOKEN=otto) == []
    assert findings_of(place, "labels-agree", INTERLOCK_TOKEN=vera) == []
    assert len(findings_of(place, "labels-agree", INTERLOCK_TOKEN=admin)) == 1


def test_what_is_to_be_typed_names_the_workspace_that_was_named(joined: Place) -> None:
    joined.ok("token", "mint", "--sender", "vera", "--label", "a laptop")
    named = ("--workspace", str(joined.workspace))
    (found,) = findings(joined, *named, INTERLOCK_WORKSPACE=None)
    assert found["do"].startswith(f"interlock --workspace {joined.workspace} token label tok_")
    run_advice(joined.but(INTERLOCK_WORKSPACE=None), found)
    assert findings(joined) == []


def test_a_workspace_that_was_mistyped_is_neither_well_nor_made(joined: Place) -> None:
    missing = joined.root / "mistyped"
    refusal = joined.no("NOT_A_WORKSPACE", "doctor", INTERLOCK_WORKSPACE=str(missing))
    assert str(missing) in refusal["message"]
    assert not missing.exists()


def test_what_puts_several_things_right_is_said_once(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "vera")
    joined.ok("token", "revoke", "--sender", "vera")
    kept, gate = findings(joined)
    assert kept["do"] == gate["do"] == "interlock token mint --sender vera --keep"
    shown = joined.run("doctor").text
    again = "The same command as for credentials-good."
    assert shown.count(kept["do"]) == shown.count(again) == 1
    run_advice(joined, kept)
    assert findings(joined) == []


def test_whoever_has_a_session_is_not_told_to_be_another(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    admin = joined.ok("token", "mint", "--sender", "vera", "--scope", "admin")["token"]
    joined.ok("token", "revoke", "--sender", "otto-cli")
    (found,) = findings_of(joined, "claims-alive", INTERLOCK_TOKEN=admin)
    assert "--from" not in found["do"]
    run_advice(joined.but(INTERLOCK_TOKEN=admin), found)
    assert findings_of(joined, "claims-alive") == []


def test_a_check_that_cannot_be_made_is_a_finding(
    joined: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Node) -> Any:
        raise ZeroDivisionError("by accident")

    monkeypatch.setitem(doctor.PRIVATE, "gates-held", broken)
    found = only_finding(joined, "gates-held")
    assert found["message"] == "This check failed with an error: by accident"


# --- tokens


def test_a_label_that_names_another_is_put_right_by_one_word(joined: Place) -> None:
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


def test_a_connection_that_is_called_after_another_is_named_anew(place: Place) -> None:
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
    assert "names @mia, but it acts as @otto-phone for @vera" in found["message"]
    run_advice(place, found)
    assert findings_of(place, "labels-agree") == []


def test_a_label_of_a_token_that_has_ended_misleads_nobody(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "otto-cli", "--label", "Vera's laptop")
    joined.ok("token", "revoke", made["id"])
    assert findings(joined) == []


def test_a_token_that_soon_expires_is_rotated(place: Place) -> None:
    with node_in_the_past(place, 6 * DAY) as node:
        join(node, "otto")
        made = node.call(OWNER, MintToken("otto", ttl_s=7 * 86_400))
        node.call(OWNER, MintToken("otto", ttl_s=30 * 86_400))
    found = only_finding(place, "tokens-lasting")
    assert found["subject"] == made["id"]
    run_advice(place, found)
    assert findings(place) == []


def test_a_token_that_was_made_for_an_hour_or_a_week_is_not_about_to_expire(joined: Place) -> None:
    for ttl in ("1m", "1h", "7d"):
        joined.ok("token", "mint", "--sender", "vera", "--ttl", ttl)
    assert findings(joined) == []


@pytest.mark.embedded("a log that an engine keeps is not restored over its nodes' heads")
def test_suspended_tokens_are_told_until_they_are_trusted_again(joined: Place) -> None:
    joined.ok("backup", "copy.db")
    joined.ok("restore", "copy.db")
    suspended = findings_of(joined, "tokens-lasting")
    assert len(suspended) == 2
    assert len(findings_of(joined, "credentials-good")) == 2
    for found in suspended:
        assert "is suspended" in found["message"]
        run_advice(joined, found)
    assert findings(joined) == []


def test_one_token_in_two_sessions_at_once_is_found(joined: Place) -> None:
    for session in ("one", "one", "two", "two"):
        joined.ok("whoami", "--from", "otto-cli", "--session", session)
    joined.ok("whoami", "--from", "otto-cli")
    assert findings(joined) == [], "one session came after the other"
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


def asks_from(place: Place, token: str, peer: str | None) -> None:
    """Somebody elsewhere asks, of a node that has just been started."""
    with node_in_the_past(place, 0) as node:
        node.call(Credentials(token=token, peer=peer), Whoami())


def test_one_token_at_two_addresses_at_once_is_found(place: Place) -> None:
    token = place.join("otto")
    for peer in (THERE, THERE, None, None):
        asks_from(place, token, peer)
    assert findings(place) == [], "it has moved"
    asks_from(place, token, THERE)
    found = only_finding(place, "tokens-apart")
    assert f"2 places at once: {THERE}, this machine." in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_what_asks_by_turns_from_the_loopback_and_the_socket_is_one_place(
    place: Place, servers: Servers
) -> None:
    token = place.join("otto")
    with ForkedServer(place, servers) as served:
        for _ in range(2):
            assert served.ask("GET", "/v1/whoami", token=token).status == 200
            place.ok("whoami", "--from", "otto")
    place.ok("whoami", "--from", "otto")
    assert findings(place) == []


# --- mail


def test_mail_to_a_name_near_to_another_is_told_to_whoever_sent_it(joined: Place) -> None:
    sent = joined.ok("send", "@vrea", "hello", "--from", "otto-cli")["message"]["id"]
    found = only_finding(joined, "recipients-known")
    assert "Did you mean @vera?" in found["message"]
    assert found["do"].startswith("interlock send @otto-cli ")
    run_advice(joined, found)
    (mail,) = joined.ok("inbox", "--from", "otto-cli")["messages"]
    assert mail["source"] == "agent:vera"
    assert f"send {sent} again, to @vera." in mail["payload"]["text"]
    assert findings(joined) == [], "the sender knows"


@pytest.mark.parametrize(
    ("words", "is_put_right"),
    [
        (("Something else.",), False),
        (("Something else.", "--subject", "Lunch"), False),
        (("Deployed.",), True),
        (("Deployed, I meant to say.", "--subject", "Shop"), True),
        (("As I wrote.", "--reply-to", "$lost"), True),
        (("As I wrote.", "--thread", "$lost"), True),
    ],
)
def test_what_was_lost_is_put_right_by_sending_it_again_and_by_nothing_else(
    joined: Place, words: tuple[str, ...], is_put_right: bool
) -> None:
    said = ("Deployed.", "--subject", "Shop", "--from", "otto-cli")
    lost = joined.ok("send", "@vrea", *said)["message"]["id"]
    again = [word.replace("$lost", lost) for word in words]
    joined.ok("send", "@vera", *again, "--from", "otto-cli")
    assert (findings_of(joined, "recipients-known") == []) is is_put_right


def test_what_another_sent_to_the_same_wrong_name_is_still_astray(joined: Place) -> None:
    joined.join("bert")
    left = joined.ok("send", "@vrea", "hello", "--from", "bert")["message"]["id"]
    joined.ok("send", "@vrea", "hello", "--from", "otto-cli")
    assert "2 messages wait" in only_finding(joined, "recipients-known")["message"]
    joined.ok("send", "@vera", "hello", "--from", "otto-cli")
    found = only_finding(joined, "recipients-known")
    assert "1 message waits" in found["message"]
    assert f"the last is {left}, from @bert" in found["message"]


def test_mail_to_a_name_like_no_other_is_there_once_it_joins(joined: Place) -> None:
    joined.ok("send", "@zephyrine", "hello", "--from", "otto-cli")
    found = only_finding(joined, "recipients-known")
    assert found["message"].endswith("interlock join zephyrine")
    assert found["do"].startswith("interlock send @otto-cli 'Nobody has joined as @zephyrine. ")
    joined.join("zephyrine")
    assert findings(joined) == []


def test_whoever_wrote_to_a_name_like_no_other_is_told(joined: Place) -> None:
    joined.ok("send", "@zephyrine", "hello", "--from", "otto-cli")
    run_advice(joined, only_finding(joined, "recipients-known"))
    assert findings(joined) == []


def test_an_unknown_recipient_of_long_ago_is_let_be(place: Place) -> None:
    with node_in_the_past(place, 8 * DAY) as node:
        send_text(node, join(node, "otto"), "@zephyrine")
    assert findings(place) == []


def test_a_mailbox_that_nobody_has_opened_for_a_day_is_found(place: Place) -> None:
    with node_in_the_past(place, 2 * DAY) as node:
        otto = join(node, "otto")
        join(node, "vera", kind="human")
        send_text(node, otto, "@vera")["id"]
    place.ok("token", "mint", "--sender", "vera", "--keep")
    found = only_finding(place, "mailboxes-read")
    assert "1 message is unread at @vera" in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_mail_that_waits_for_somebody_who_is_about_is_no_finding(place: Place) -> None:
    """Whoever writes was there, even if nobody noted seeing them."""
    with node_in_the_past(place, 2 * DAY) as node:
        otto, vera = join(node, "otto"), join(node, "vera", kind="human")
        send_text(node, otto, "@vera")["id"]
        send_text(node, vera, "@zephyrine")["id"]
    shutil.rmtree(place.workspace / "presence")
    assert findings_of(place, "mailboxes-read") == []


# --- waking


def test_an_agent_that_mail_waits_for_and_nothing_can_wake_is_found(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        vera = join(node, "vera", kind="human")
        join(node, "otto")
        send_text(node, vera, "@otto")["id"]
    found = only_finding(place, "agents-wakeable")
    assert found["message"].startswith("@otto has had mail since ")
    assert found["do"] == "interlock setup claude-code --from otto", "none is found there"
    place.ok("token", "mint", "--sender", "otto", "--keep")
    with place.start("watch", "--from", "otto", "--json") as watching:
        until(lambda: not findings_of(place, "agents-wakeable"))
        watching.kill()
    assert len(findings_of(place, "agents-wakeable")) == 1
    place.ok("mute", "@otto", "--from", "otto")
    assert findings_of(place, "agents-wakeable") == []


def test_the_client_that_is_there_is_the_one_to_set_up(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        join(node, "otto", surface="cli")
        send_text(node, join(node, "vera", kind="human"), "@otto-cli")
    (place.home / ".codex").mkdir()
    found = only_finding(place, "agents-wakeable")
    assert found["do"] == "interlock setup codex --from otto-cli"
    place.ok("token", "mint", "--sender", "otto-cli", "--keep")
    run_advice(place, found)


def test_of_a_connected_client_its_person_is_asked(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        made = connected(node, signed_in(node, "vera", "otto"), "otto", "claudeai")
        send_text(node, join(node, "mia"), f"@{made.sender}")
    place.ok("token", "mint", "--sender", "mia", "--keep")
    (found,) = findings_of(place, "agents-wakeable")
    assert "it is a client that @vera connected" in found["message"]
    assert found["do"].startswith("interlock send @vera ")
    run_advice(place, found)
    (mail,) = (row for row in place.ok("inbox", "--sent", "--from", "mia")["messages"][-1:])
    assert (mail["to"], mail["payload"]["text"][:24]) == ("@vera", "Mail waits for @otto-cla")


def test_an_agent_whose_client_tells_by_hooks_can_be_reached(place: Place) -> None:
    with node_in_the_past(place, 2 * HOUR) as node:
        otto = join(node, "otto")
        node.call(otto, AcquireClaim("B-1", ttl_s=86_400))
    assert "@otto holds B-1" in findings_of(place, "agents-wakeable")[0]["message"]
    with node_in_the_past(place, 0) as node:
        node.call(otto._replace(session="s-1"), Attend("start", "claude-code"))
    assert findings_of(place, "agents-wakeable") == []


@pytest.mark.parametrize(("command", "count"), [("false", 1), ("true", 0)])
def test_a_wake_that_failed_is_found(
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


def test_a_claim_whose_client_has_died_is_found(place: Place) -> None:
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
    assert "holds it from then on" in found["message"]
    run_advice(place, found)
    assert findings(place) == []
    (claim,) = place.ok("claim", "list")["claims"]
    assert claim["holder"] == "@vera"


SLEEPING = 'echo $$; "$PY" -m interlock claim acquire --item B-1 >&2; exec sleep 600'


def killed(place: Place) -> None:
    """A client of otto's that `interlock run` started takes a claim, and is killed with it."""
    with place.start("run", "otto", "--", "sh", "-c", SLEEPING) as running:
        client = int(next(lines(running)))
        until(lambda: place.ok("claim", "list")["claims"])
        windows = place.workspace / "presence" / "otto.windows"
        until(lambda: windows.is_dir() and any(windows.iterdir()))
        assert findings_of(place, "claims-alive") == []
        running.kill()
        running.wait()
        assert findings_of(place, "claims-alive") == [], "its command still works"
        os.kill(client, signal.SIGKILL)


def test_a_claim_of_a_session_that_was_killed_with_its_command_is_found(place: Place) -> None:
    place.join("vera", None, "--kind", "human")
    place.join("otto")
    killed(place)
    (found,) = until(lambda: findings_of(place, "claims-alive"))
    assert "the client of its session has died" in found["message"]
    run_advice(place, found)
    assert findings(place) == []


def test_a_server_gives_up_what_a_session_held_that_was_killed(
    place: Place, servers: Servers
) -> None:
    place.join("otto")
    with ForkedServer(place, servers):
        killed(place)
        until(lambda: not place.ok("claim", "list")["claims"])
        assert findings(place) == []


def test_where_no_person_can_take_a_claim_over_one_joins_first(place: Place) -> None:
    place.join("otto")
    place.join("bert")
    place.ok("claim", "acquire", "--item", "B-1", "--from", "otto")
    place.ok("token", "revoke", "--sender", "otto")
    (found,) = findings_of(place, "claims-alive")
    assert found["do"].startswith("interlock join NAME --kind human && interlock claim take-over ")
    run_advice(place, found | {"do": found["do"].replace("NAME", "vera")})
    assert findings_of(place, "claims-alive") == []


def test_a_claim_of_somebody_without_a_token_is_found(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    assert findings(joined) == []
    joined.ok("token", "revoke", "--sender", "otto-cli")
    (found,) = findings_of(joined, "claims-alive")
    assert "no token of it is live any more" in found["message"]
    run_advice(joined, found)
    assert findings_of(joined, "claims-alive") == []


@pytest.mark.embedded("a log that an engine keeps is not restored over its nodes' heads")
def test_a_claim_of_somebody_whose_token_is_suspended_is_not_taken_over(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    joined.ok("backup", "copy.db")
    joined.ok("restore", "copy.db")
    (found,) = findings_of(joined, "claims-alive")
    assert "take-over" not in found["do"] + found["message"]
    joined.ok("token", "reaffirm", "--all")
    assert findings_of(joined, "claims-alive") == []


# --- gates


def test_a_gate_whose_holder_lost_its_token_is_found(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "vera")
    assert findings(joined) == []
    joined.ok("token", "revoke", "--sender", "vera")
    (joined.workspace / "credentials" / "vera.json").unlink()
    found = only_finding(joined, "gates-held")
    assert found["do"] == "interlock token mint --sender vera --keep"
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_gate_that_was_held_by_scope_alone_is_found(joined: Place) -> None:
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


def test_a_gate_that_only_the_worker_holds_is_found(joined: Place) -> None:
    joined.ok("gate", "create", "athena", "--holder", "otto")
    task = ("task", "create", "--title", "Sort it", "--id", "T-1", "--gate", "athena")
    joined.ok(*task, "--from", "vera")
    with node_in_the_past(joined, 0) as node:
        otto = Credentials(token=joined.ok("token", "mint", "--sender", "otto-cli")["token"])
        node.call(otto, TakeTask("T-1"))
        assert findings(joined) == []
        node.call(otto, SubmitTask("T-1", COMMIT, TREE))
    found = only_finding(joined, "gates-held")
    assert "Only @otto-cli can hold the gate athena" in found["message"]
    assert found["do"] == "interlock gate create athena --replace --holder otto --holder vera"
    run_advice(joined, found)
    assert findings(joined) == []


def test_the_doctor_tells_people_nothing_of_others_tokens(joined: Place) -> None:
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
