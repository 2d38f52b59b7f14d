"""Import of tokens from the file of another message bus: the verdict on each row, the imported
tokens, and labels that contradict the token's sender."""

import hashlib
import http.client
import json
import shlex
from contextlib import closing
from typing import Any

import pytest

from world.commandline import LIMIT_S, Done, Place
from world.fork_server import Servers, ServersByWorkspace

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

SECRET = "bus-0123456789abcdef"


def sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def old(agent: str | None, label: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a row. Its token is its label, or its agent if it has no label."""
    row = {"token_hash": sha256(label or agent or ""), "agent": agent, "label": label}
    return {name: value for name, value in (row | more).items() if value is not None}


def imported(place: Place, rows: Any, *words: str) -> Any:
    """Return the answer of `token import`, whether all rows are ready or not."""
    done = _import(place, rows, *words, "--json")
    assert done.status == int(not done.json["ok"]), done
    return done.json


def _import(place: Place, rows: Any, *words: str) -> Done:
    file = place.root / "tokens.json"
    file.write_text(json.dumps(rows))
    return place.run("token", "import", str(file), *words)


def verdicts(answer: Any) -> list[str]:
    return [row["verdict"] for row in answer["rows"]]


# --- 78 rows, and one of them has a label that contradicts its agent

AGENTS = [f"{name}-{maker}" for name in ("neo", "otto", "vera", "milo") for maker in "abcdef"]
AGENTS += ["athena", "hera"]
FORMS = ("{0}", "{0} laptop", "CI of {0}")
JOINED = ("-", "_", "")
ODD = 40  # counted from 0
LABEL = "Otto_C laptop"


def many() -> list[dict[str, Any]]:
    """Return three rows for each of 26 agents. One row of otto-c names the agent neo-b."""
    rows = [
        {
            "token_hash": sha256(f"old {agent} {number}"),
            "agent": agent,
            "label": form.format(agent.replace("-", JOINED[number])).title(),
            "project": "shop",
            "active": True,
            "scope": "mail claim work",
        }
        for agent in AGENTS
        for number, form in enumerate(FORMS)
    ]
    rows[ODD] |= {"token_hash": sha256(SECRET), "agent": "neo-b", "label": LABEL}
    return rows


def test_one_contradiction_in_78_rows_is_found_with_its_fix(place: Place) -> None:
    rows = many()
    assert len(rows) == 78
    found = imported(place, rows)
    (wrong,) = [row for row in found["rows"] if row["verdict"] != "ready"]
    assert wrong["verdict"] == "contradiction"
    assert (wrong["number"], wrong["label"], wrong["agent"]) == (ODD + 1, LABEL, "neo-b")
    assert wrong["message"].startswith(f"Row {ODD + 1}: The label {LABEL!r} names @otto-c and not")
    assert f"--map '{LABEL}=otto-c'" in wrong["do"]
    assert f"interlock token label {wrong['id']} neo-b" in wrong["do"]
    shown = _import(place, rows).text
    assert wrong["message"] in shown
    assert wrong["do"] in shown
    assert "78 rows: 77 ready, 1 contradiction." in shown
    assert place.ok("agents") == {"agents": []}


def test_explain_shows_the_contradiction_until_the_row_is_mapped(place: Place) -> None:
    rows = many()
    first = imported(place, rows, "--apply")
    assert first["imported"] == 78
    assert len(place.ok("agents")["agents"]) == len(AGENTS)
    sent = place.ok("send", "@athena", "hello", INTERLOCK_TOKEN=SECRET)["message"]
    assert sent["from"] == "@neo-b"

    story = place.ok("explain", sent["id"])
    wrong, _, ways = story["contradiction"].partition(" If it should belong to ")
    assert wrong in first["rows"][ODD]["message"]
    assert ways == (
        f"@otto-c: interlock token import FILE --map '{LABEL}=otto-c' --apply "
        f"— or, if it should belong to @neo-b: {story['do']}"
    )
    assert story["do"] == f"interlock token label {story['token']['id']} neo-b"
    shown = place.run("explain", sent["id"]).text
    assert story["contradiction"] in shown
    assert story["do"] in shown

    advice = first["rows"][ODD]["do"].split(": ")[1]
    fix = shlex.split(advice.removesuffix(" — or, if it should belong to @neo-b"))
    assert fix == ["--map", f"{LABEL}=otto-c"]
    mapped = imported(place, rows, *fix, "--apply")
    assert (mapped["ok"], mapped["imported"]) == (True, 1)
    assert place.ok("whoami", INTERLOCK_TOKEN=SECRET)["sender"] == "otto-c"
    story = place.ok("explain", sent["id"])
    assert (story["sender"], story["token"]["sender"]) == ("@neo-b", "otto-c")
    assert not {"contradiction", "do"} & set(story)
    shown = place.run("explain", sent["id"]).text
    assert "The token belonged to @neo-b when it sent the message." in shown


def test_map_at_the_first_import_avoids_the_contradiction(place: Place) -> None:
    found = imported(place, many(), "--map", f"{LABEL}=otto-c", "--apply")
    assert (found["ok"], found["imported"]) == (True, 78)
    assert place.ok("whoami", INTERLOCK_TOKEN=SECRET)["sender"] == "otto-c"


def test_new_label_removes_the_contradiction(place: Place) -> None:
    rows = many()
    id = imported(place, rows, "--apply")["rows"][ODD]["id"]
    listed = {token["id"]: token for token in place.ok("token", "list")["tokens"]}
    assert {i for i, token in listed.items() if "contradiction" in token} == {id}
    assert listed[id]["contradiction"] in place.run("token", "list").text
    assert place.ok("token", "show", id)["contradiction"] == listed[id]["contradiction"]
    assert "contradiction" not in place.ok("token", "label", id, "neo-b, laptop")
    assert "contradiction" not in place.ok("token", "show", id)
    assert imported(place, rows)["ok"]
    before = place.entries()
    place.ok("token", "label", id, "neo-b, laptop")
    assert place.entries() == before


# --- importing


def test_without_apply_nothing_changes(place: Place) -> None:
    place.ok("init")
    before = place.entries()
    assert imported(place, [old("otto", "Otto")])["importable"] == 1
    assert place.entries() == before
    place.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN="Otto")


def test_second_import_adds_nothing(place: Place) -> None:
    rows = [old("otto", "Otto"), old("otto", "laptop"), old("vera", token=SECRET, token_hash=None)]
    assert imported(place, rows, "--apply")["imported"] == 3
    before = place.entries()
    again = imported(place, rows, "--apply")
    assert (again["importable"], again["imported"]) == (0, 0)
    assert verdicts(again) == ["ready", "contradiction", "clear-text secret"]
    assert all("is already imported" in row["message"] for row in again["rows"])
    assert place.entries() == before


def test_log_records_the_join_and_the_import(place: Place) -> None:
    imported(place, [old("otto", "Otto", scope=["mail"], display_name="O. Kraft")], "--apply")
    (joined,) = place.facts("agent_joined")
    assert joined["outcome"] == {"agent": "otto", "kind": "agent", "sender": "otto"}
    (fact,) = place.facts("token_imported")
    assert (fact["sender"], fact["outcome"]["sender"]) == ("@owner", "otto")
    assert fact["outcome"]["display_name"] == "O. Kraft"
    assert (fact["outcome"]["label"], fact["outcome"]["scopes"]) == ("Otto", ["mail"])


@pytest.mark.parametrize(
    ("row", "verdict", "says", "do"),
    [
        (old("otto", "Otto"), "ready", "for @otto", None),
        (old("otto"), "ready", "for @otto", None),
        (old("@otto", "Otto"), "ready", "for @otto", None),
        (old("otto", "laptop"), "contradiction", "Row 1: ", "--map laptop=AGENT"),
        (old("otto", "it's"), "contradiction", "Row 1: ", """--map 'it'"'"'s=AGENT'"""),
        (old(None, "Otto"), "no agent", "Row 1 has no agent", "--map Otto=otto"),
        (old(None), "no agent", "Row 1 has no agent", "Write its agent into the row."),
        (old(None, "the vera"), "no agent", "no agent", "--map 'the vera=vera'"),
        (old("Otto Kraft", "Otto"), "no agent", "cannot be a name", "--map Otto=otto"),
        (old("team", "the team"), "no agent", "@team is a group", "--map 'the team=AGENT'"),
        (old("owner", "owner"), "no agent", "@owner is reserved", "--map owner=AGENT"),
        (old("otto", "Otto", token_hash="12"), "unknown hash", "SHA-256", "token_hash"),
        ({"agent": "otto", "label": "Otto"}, "unknown hash", "SHA-256", "token_hash"),
        (old("otto", "Otto", token=SECRET), "unknown hash", "SHA-256", "token_hash"),
        (old("otto", token="ilk_mistyped", token_hash=None), "unknown hash", "SHA-256", "token"),
        (old("otto", "laptop", active=False), "inactive", "not active", None),
        ({"agent": "otto", "token": SECRET}, "clear-text secret", "in clear", "token rotate tok_"),
        (
            {"agent": "otto", "label": "laptop", "token": SECRET},
            "contradiction",
            "in clear",
            "--map laptop=AGENT",
        ),
    ],
)
def test_every_row_gets_its_verdict(
    joined: Place, row: dict[str, Any], verdict: str, says: str, do: str | None
) -> None:
    joined.ok("group", "create", "team", "--member", "@vera")
    found = imported(joined, [row])
    assert verdicts(found) == [verdict]
    (told,) = found["rows"]
    assert says in told["message"]
    assert (do is None) == ("do" not in told)
    assert do is None or do in told["do"]
    is_importable = verdict in ("ready", "contradiction", "clear-text secret")
    assert found["importable"] == int(is_importable)
    assert imported(joined, [row], "--apply")["imported"] == int(is_importable)
    assert len(joined.facts("token_imported")) == int(is_importable)


def test_hash_in_capitals_is_accepted(place: Place) -> None:
    imported(place, [old("otto", "Otto", token_hash=sha256(SECRET).upper())], "--apply")
    assert place.ok("whoami", INTERLOCK_TOKEN=SECRET)["sender"] == "otto"


def test_secrets_are_neither_printed_nor_stored(place: Place) -> None:
    rows = [{"agent": "otto", "token": SECRET}, {"agent": "otto", "token_hash": SECRET}]
    done = _import(place, rows, "--apply", "--json")
    assert done.json["imported"] == 1
    assert SECRET.encode() not in done.out
    assert SECRET.encode() not in _import(place, rows).out
    assert place.ok("whoami", INTERLOCK_TOKEN=SECRET)["sender"] == "otto"
    assert place.query(f"SELECT 1 FROM log WHERE instr(header, '{SECRET}')") == []
    assert place.query("SELECT hash FROM identity_tokens") == [(sha256(SECRET),)]


def test_existing_senders_keep_their_agent(joined: Place) -> None:
    rows = [old("otto-cli", "Otto, on his shell"), old("otto", "Otto himself"), old("vera", "Vera")]
    assert imported(joined, rows, "--apply")["ok"]
    for label, sender, agent, kind in (
        ("Otto, on his shell", "otto-cli", "otto", "agent"),
        ("Otto himself", "otto", "otto", "agent"),
        ("Vera", "vera", "vera", "human"),
    ):
        who = joined.ok("whoami", INTERLOCK_TOKEN=label)
        assert (who["sender"], who["agent"], who["kind"]) == (sender, agent, kind)


def test_known_scopes_are_imported_and_others_are_named(place: Place) -> None:
    rows = [
        old("otto", "Otto 1", scope="read, write"),
        old("otto", "Otto 2", scope="work mail read"),
        old("otto", "Otto 3"),
    ]
    shown = _import(place, rows).text
    assert "Interlock ignores these scopes of the rows: read, write." in shown
    assert "token mint" not in shown
    found = imported(place, rows, "--apply")
    assert found["foreign_scopes"] == ["read", "write"]
    assert found["rows"][1]["message"].endswith("Interlock ignores these scopes: read.")
    assert "      The token gets only the scopes mail, work.\n" in shown
    wanted = [["mail", "work"], ["mail", "claim", "work"]]
    assert [row["scopes"] for row in found["rows"][1:]] == wanted
    assert [token["scopes"] for token in place.ok("token", "list")["tokens"]] == wanted


@pytest.mark.parametrize("scope", [[], "", " ", "read write", ["admin"]])
def test_row_without_a_known_scope_is_not_imported(place: Place, scope: Any) -> None:
    (row,) = imported(place, [old("otto", "Otto", scope=scope)], "--apply")["rows"]
    assert row["verdict"] == "no scope"
    assert "The import skips it." in row["message"]
    assert "scopes" not in row
    assert place.ok("token", "list") == {"tokens": []}


@pytest.mark.parametrize("name", ["expires_at", "expiry", "expiresAt", "exp"])
@pytest.mark.parametrize(
    "end", ["2020-01-01T00:00:00Z", "2020-01-01", "2020-01-01T01:00:00.5+02:00", 1577836800, 0]
)
def test_a_token_that_has_expired_is_not_ready(place: Place, name: str, end: Any) -> None:
    (row,) = imported(place, [old("otto", "Otto", **{name: end})], "--apply")["rows"]
    assert row["verdict"] == "inactive"
    assert "expired at 20" in row["message"] or "expired at 1970" in row["message"]
    assert place.ok("token", "list") == {"tokens": []}


@pytest.mark.parametrize("end", ["2999-12-31T23:00:00-01:00", 32503680000, 32503680000000])
def test_imported_token_keeps_its_expiry(place: Place, end: Any) -> None:
    (row,) = imported(place, [old("otto", "Otto", expires_at=end)], "--apply")["rows"]
    assert (row["verdict"], row["expires_at"]) == ("ready", "3000-01-01T00:00:00.000Z")
    (token,) = place.ok("token", "list")["tokens"]
    assert token["expires_at"] == "3000-01-01T00:00:00.000Z"


@pytest.mark.parametrize("end", ["soon", "2020-13-01", "2021-02-29", True, [], {}])
def test_row_with_an_invalid_expiry_is_not_imported(place: Place, end: Any) -> None:
    (row,) = imported(place, [old("otto", "Otto", expires_at=end)], "--apply")["rows"]
    assert row["verdict"] == "contradiction"
    assert "expires_at must be a time" in row["message"]


@pytest.mark.parametrize(("secret", "is_short"), [("x" * 15, True), ("x" * 16, False)])
def test_short_clear_text_secret_is_reported_as_guessable(
    place: Place, secret: str, is_short: bool
) -> None:
    (row,) = imported(place, [{"token": secret, "agent": "otto"}])["rows"]
    assert row["verdict"] == "clear-text secret"
    assert ("so short that it can be guessed" in row["message"]) is is_short


@pytest.mark.parametrize("word", ["admin", "gate:athena"])
def test_import_grants_neither_admin_nor_gates(joined: Place, word: str) -> None:
    rows = [old("otto", "Otto 1", scope=[word]), old("otto", "Otto 2", scope=f"mail {word}")]
    shown = _import(joined, rows).text
    assert f"ignores these scopes of the rows: {word}.\n" in shown
    assert "To grant it: interlock token mint --sender SENDER --scope admin\n" in shown
    found = imported(joined, rows, "--apply")
    assert found["foreign_scopes"] == [word]
    assert verdicts(found) == ["no scope", "ready"]
    assert found["rows"][1]["scopes"] == ["mail"]
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN="Otto 1")
    assert joined.ok("whoami", INTERLOCK_TOKEN="Otto 2")["scopes"] == ["mail"]


def test_label_may_use_the_display_name_of_its_agent(place: Place) -> None:
    rows = [
        old("otto", "Mr Kraft, laptop"),
        old("otto", "otto", display_name="Mr. Kraft"),
        old("neo", "The One", displayName="The One"),
        old("vera", "Veronica, at home", name="Veronica"),
    ]
    assert imported(place, rows, "--apply")["ok"]
    assert not [token for token in place.ok("token", "list")["tokens"] if "contradiction" in token]
    id = place.ok("token", "mint", "--sender", "otto", "--label", "Kraft")["id"]
    assert "contradiction" in place.ok("token", "show", id)
    assert "contradiction" not in place.ok("token", "label", id, "Mr Kraft")


@pytest.mark.parametrize(
    "row",
    [
        old("otto", "Vera, laptop", display_name="Vera"),
        old("otto", "laptop 3", name="laptop 3"),
    ],
)
def test_name_of_another_agent_or_the_label_is_no_display_name(
    joined: Place, row: dict[str, Any]
) -> None:
    assert verdicts(imported(joined, [row], "--apply")) == ["contradiction"]


def test_display_name_of_a_mapped_row_does_not_count_for_its_new_agent(place: Place) -> None:
    row = old("otto", "Mr Kraft", display_name="Mr Kraft")
    assert verdicts(imported(place, [row], "--map", "Mr Kraft=vera")) == ["contradiction"]


def test_a_person_who_has_joined_on_a_surface_stays_a_person(place: Place) -> None:
    place.join("vera", "phone", "--kind", "human")
    imported(place, [old("vera", "Vera")], "--apply")
    kinds = [fact["outcome"]["kind"] for fact in place.facts("agent_joined")]
    assert kinds == ["human", "human"]


def test_hash_with_the_id_of_another_token_is_not_imported(place: Place) -> None:
    rows = [old("otto", "Otto", token_hash="a" * 64), old("otto", token_hash="a" * 12 + "b" * 52)]
    assert verdicts(imported(place, rows, "--apply")) == ["ready", "unknown hash"]
    assert verdicts(imported(place, rows[1:], "--apply")) == ["unknown hash"]
    assert len(place.facts("token_imported")) == 1


def test_a_token_in_several_rows_is_imported_once(place: Place) -> None:
    rows = [old("otto", "Otto"), old("otto", "Otto too", token_hash=sha256("Otto"))]
    found = imported(place, rows, "--apply")
    assert (found["ok"], found["imported"]) == (True, 1)
    assert "Row 1 has the same token." in found["rows"][1]["message"]


def test_token_of_several_agents_is_not_imported_until_it_is_mapped(place: Place) -> None:
    rows = [old("otto", "Otto"), old("vera", "Vera", token_hash=sha256("Otto"))]
    found = imported(place, rows, "--apply")
    assert verdicts(found) == ["no agent", "no agent"]
    assert found["imported"] == 0
    assert imported(place, rows, "--map", "Vera=otto", "--apply")["imported"] == 1
    assert place.ok("whoami", INTERLOCK_TOKEN="Otto")["sender"] == "otto"


@pytest.mark.parametrize("whose", ["milo", "otto"])
def test_advice_for_a_token_of_several_agents_works(place: Place, whose: str) -> None:
    same = sha256("shared")
    rows = [
        old("otto", "Otto", token_hash=same),
        old("otto", "Otto's desk", token_hash=same),
        old("milo", "Milo", token_hash=same),
        old("Otto Kraft", "Kraft", token_hash=same),
        old(None, "Nobody's", token_hash=same),
        old("vera", "Vera"),
    ]
    found = imported(place, rows)
    assert verdicts(found) == ["no agent"] * 5 + ["ready"]
    (advice,) = {row["do"] for row in found["rows"][:5]}
    ways = dict(way.split(": ") for way in advice.removeprefix("If ").split(" — or, if "))
    assert list(ways) == ["it should belong to @milo", "it should belong to @otto"]
    words = shlex.split(ways[f"it should belong to @{whose}"])
    assert words.count("--map") == 5
    assert imported(place, rows, *words, "--apply")["imported"] == 2
    assert place.ok("whoami", INTERLOCK_TOKEN="shared")["sender"] == whose


def test_advice_for_rows_without_a_label_is_to_merge_them(place: Place) -> None:
    same = sha256("shared")
    rows = [
        old("otto", "Otto", token_hash=same),
        old("vera"),
        old("milo", token_hash=same),
        old("neo", "two\nlines", token_hash=same),
    ]
    found = imported(place, rows)
    assert verdicts(found) == ["no agent", "ready", "no agent", "contradiction"]
    for row in found["rows"][0], found["rows"][2]:
        assert row["do"] == "Combine the rows 1, 3, 4 into one row, with one agent."


def test_advice_for_many_rows_of_a_token_is_to_merge_them(place: Place) -> None:
    """Otherwise the advice would be far longer than the file."""
    same = sha256("shared")
    rows = [old(f"agent-{number}", f"Agent {number}", token_hash=same) for number in range(1000)]
    found = imported(place, rows)
    assert set(verdicts(found)) == {"no agent"}
    (advice,) = {row["do"] for row in found["rows"]}
    assert advice.startswith("Combine the rows 1, 2, 3, ")


def test_import_without_the_map_does_not_undo_it(place: Place) -> None:
    rows = [old("otto", "Vera, laptop"), old("vera", "Vera")]
    imported(place, rows, "--map", "Vera, laptop=vera", "--apply")
    again = imported(place, rows, "--apply")
    assert (again["ok"], again["imported"]) == (True, 0)
    assert place.ok("whoami", INTERLOCK_TOKEN="Vera, laptop")["sender"] == "vera"


def test_row_without_an_agent_is_imported_with_a_map(place: Place) -> None:
    found = imported(place, [old(None, "Otto=laptop")], "--map", "Otto=laptop=otto", "--apply")
    assert (found["ok"], found["imported"]) == (True, 1)
    assert place.ok("whoami", INTERLOCK_TOKEN="Otto=laptop")["sender"] == "otto"


@pytest.mark.parametrize(
    "maps",
    [
        ["Otto=otto"],
        ["otto, laptop=otto"],
        ["Otto, laptop"],
        ["=otto"],
        ["Otto, laptop="],
        ["Otto, laptop=otto", "Otto, laptop=vera"],
    ],
)
def test_invalid_map_is_refused(place: Place, maps: list[str]) -> None:
    words = [word for map in maps for word in ("--map", map)]
    done = _import(place, [old("otto", "Otto, laptop")], *words, "--apply", "--json")
    assert (done.status, done.json["code"]) == (2, "USAGE")
    assert place.facts("token_imported") == []


# --- the validity of an old token


def test_an_old_token_works_until_it_is_rotated(place: Place) -> None:
    rows = [old("otto", "Otto, laptop", token_hash=sha256(SECRET))]
    id = imported(place, rows, "--apply")["rows"][0]["id"]
    assert place.ok("whoami", INTERLOCK_TOKEN=SECRET)["sender"] == "otto"
    new = place.ok("token", "rotate", id)
    place.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=SECRET)
    assert place.ok("whoami", INTERLOCK_TOKEN=new["token"])["sender"] == "otto"
    again = imported(place, rows, "--apply")
    assert (verdicts(again), again["imported"]) == (["inactive"], 0)
    place.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=SECRET)


def test_an_old_token_works_over_http_until_it_is_rotated(place: Place, servers: Servers) -> None:
    rows = [old("otto", "Otto, laptop", token_hash=sha256(SECRET))]
    id = imported(place, rows, "--apply")["rows"][0]["id"]
    with closing(ServersByWorkspace(servers)) as served:
        url = served.at(str(place.workspace), place.environ, str(place.cwd)).url
        status, who = _asked(url, "GET", "/v1/whoami")
        assert (status, who["sender"]) == (200, "otto")
        place.ok("token", "rotate", id)
        status, refused = _asked(url, "GET", "/v1/whoami")
        assert (status, refused["code"]) == (401, "BAD_TOKEN")


def test_secret_sent_over_http_is_refused_and_not_echoed(place: Place, servers: Servers) -> None:
    place.ok("join", "otto")
    admin = place.ok("token", "mint", "--sender", "otto", "--scope", "admin")["token"]
    with closing(ServersByWorkspace(servers)) as served:
        url = served.at(str(place.workspace), place.environ, str(place.cwd)).url
        for row in ({"agent": "vera", "token": "in clear"}, {"token_hash": "in clear"}):
            said = {"rows": [row]}
            status, refused = _asked(url, "POST", "/v1/tokens/import", said, token=admin)
            assert (status, refused["code"]) == (400, "USAGE")
            assert "in clear" not in json.dumps(refused)


def _asked(
    url: str, method: str, path: str, said: Any = None, token: str = SECRET
) -> tuple[int, Any]:
    """Send a request with the old token, or with the given one."""
    address = url.removeprefix("http://")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(said) if said is not None else None
    with closing(http.client.HTTPConnection(address, timeout=LIMIT_S)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


# --- files


def test_rows_can_be_under_tokens_and_on_standard_input(place: Place) -> None:
    content = b"\xef\xbb\xbf" + json.dumps({"tokens": [old("otto", "Otto")]}).encode()
    assert place.ok("token", "import", "-", "--apply", stdin=content)["imported"] == 1


def test_unknown_members_are_named_and_ignored(place: Place) -> None:
    rows = [old("otto", "Otto", created="2024", clear=True), old("otto", "Otto 2", note="x")]
    found = imported(place, rows)
    assert (found["ok"], found["ignored"]) == (True, ["clear", "created", "note"])
    assert "these members of the rows: clear, created, note." in _import(place, rows).text


def test_projects_of_the_rows_are_named(place: Place) -> None:
    rows = [old("otto", "Otto", project="shop"), old("otto", "Otto 2", project="mill")]
    found = imported(place, rows)
    assert found["projects"] == ["mill", "shop"]
    assert "several projects (mill, shop)" in _import(place, rows).text
    assert "projects" not in imported(place, rows[:1])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[",
        b"\xff\xfe",
        b"null",
        b"7",
        b'"text"',
        b"{}",
        b'{"tokens": {}}',
        b'{"tokens": [], "tokens": [7]}',
        b"[]",
        b"[NaN]",
        b'["\\ud800"]',
        b"[" * 100_000,
        b"[" * 1010 + b"]" * 1010,
    ],
)
def test_invalid_token_file_is_refused(place: Place, content: bytes) -> None:
    place.ok("init")
    file = place.root / "tokens.json"
    file.write_bytes(content)
    before = place.entries()
    said = place.no("USAGE", "token", "import", str(file), "--apply")
    assert len(said["message"]) < 400
    assert place.entries() == before


def test_too_large_token_file_must_be_split(place: Place) -> None:
    file = place.root / "tokens.json"
    file.write_bytes(b" " * (4 << 20) + b"[]")
    said = place.no("TOO_LARGE", "token", "import", str(file))
    assert "Split the file." in said["message"]
    file.write_text(json.dumps([{"agent": "otto"}] * 1001))
    said = place.no("USAGE", "token", "import", str(file))
    assert "rows has 1001 values" in said["message"]
    assert "Split a longer file." in said["message"]


# --- malformed rows

LINE = f'"token_hash": "{sha256("odd")}", "agent": "otto", "label": "Otto"'


@pytest.mark.parametrize(
    ("row", "verdict", "says"),
    [
        ("7", "unknown hash", "The row must be an object"),
        ('["otto"]', "unknown hash", "The row must be an object"),
        (f'{{{LINE}, "token": 7}}', "unknown hash", "token must be text."),
        (f'{{{LINE}, "token_hash": "0"}}', "unknown hash", "token_hash must be given only once."),
        ('{"agent": "otto", "token_hash": ["0"]}', "unknown hash", "token_hash must be text."),
        ('{"agent": 7, "token_hash": ["0"]}', "unknown hash", "agent must be text."),
        (LINE.replace('"otto"', "7"), "no agent", "agent must be text."),
        (LINE.replace('"otto"', '["otto", "milo"]'), "no agent", "agent must be text."),
        (LINE.replace('"otto"', r'"ot\nto"'), "no agent", "agent has control characters"),
        (f'{LINE}, "agent": "milo"', "no agent", "agent must be given only once."),
        (f'{LINE}, "active": "false"', "contradiction", "active must be true or false."),
        (f'{LINE}, "active": "yes"', "contradiction", "active must be true or false."),
        (f'{LINE}, "active": 0', "contradiction", "active must be true or false."),
        (f'{LINE}, "active": true, "active": false', "contradiction", "active must be given"),
        (f'{LINE}, "active": false, "scope": 7', "inactive", "not active"),
        (f'{LINE}, "scope": {{"mail": true}}', "contradiction", "scope must be text, or a list"),
        (f'{LINE}, "scope": ["mail", 7]', "contradiction", "scope must be text, or a list"),
        (LINE.replace('"Otto"', r'"Otto\n"'), "contradiction", "label has control"),
        (LINE.replace('"Otto"', f'"{"x" * 505}"'), "contradiction", "label has 505 characters"),
        (f'{LINE}, "label": "Otto 2"', "contradiction", "label must be given only once."),
        (f'{LINE}, "project": []', "contradiction", "project must be text."),
        (f'{LINE}, "name": true, "scope": 7', "contradiction", "display_name must be text."),
    ],
)
def test_malformed_row_is_not_imported_and_affects_no_other_row(
    place: Place, row: str, verdict: str, says: str
) -> None:
    """A valid row with the same token is imported."""
    row = row if row[0] in "{[7" else f"{{{row}}}"
    content = f"[{json.dumps(old('vera', 'Vera'))}, {row}, {{{LINE}}}]".encode()
    for words in (), ("--apply",):
        done = place.run("token", "import", "-", *words, "--json", stdin=content)
        assert done.status == 1
        assert verdicts(done.json) == ["ready", verdict, "ready"]
        assert says in done.json["rows"][1]["message"]
        assert ("do" in done.json["rows"][1]) == (verdict != "inactive")
        assert done.json["importable"] == 2
    assert [fact["outcome"]["sender"] for fact in place.facts("token_imported")] == ["vera", "otto"]


def test_all_errors_of_a_row_are_reported_together(place: Place) -> None:
    rows = [old("otto", "Otto", active=1, scope=7, project=[])]
    (row,) = imported(place, rows)["rows"]
    for name in ("active", "scope", "project"):
        assert f"{name} must be" in row["message"]
    assert (row["agent"], row["label"]) == ("otto", "Otto")


def test_row_of_several_agents_is_imported_with_a_map(place: Place) -> None:
    rows = [old("otto", "Otto") | {"agent": ["otto", "milo"]}]
    (row,) = imported(place, rows)["rows"]
    words = shlex.split(row["do"])
    assert words == ["--map", "Otto=AGENT"]
    found = imported(place, rows, "--map", "Otto=otto", "--apply")
    assert (found["ok"], found["imported"]) == (True, 1)
    assert place.ok("whoami", INTERLOCK_TOKEN="Otto")["sender"] == "otto"


def test_columns_of_the_view_are_aligned(place: Place) -> None:
    rows = [old("otto", "Otto"), old("neo-gpt", "Neo GPT"), old(None, "Nobody's")]
    lines = _import(place, rows).text.splitlines()
    shown = [line for line in lines if line[:6].strip().isdigit()]
    assert len(shown) == 3
    assert len({line.index(row["label"]) for line, row in zip(shown, rows, strict=True)}) == 1


def test_a_thousand_rows_are_imported_at_once(place: Place) -> None:
    rows = [old(f"agent-{number}", f"Agent {number}") for number in range(1000)]
    assert imported(place, rows, "--apply")["imported"] == 1000
    assert place.ok("whoami", INTERLOCK_TOKEN="Agent 999")["sender"] == "agent-999"
    assert place.ok("audit", "verify")["ok"]
