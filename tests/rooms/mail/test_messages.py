"""The models and the published schemas accept and refuse the same bodies of every message type."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from interlock import generate
from interlock.errors import InvalidMessage, UnknownType, UseVerb
from interlock.rooms.mail import schemas
from interlock.rooms.mail.message_types import (
    MAIN_MEMBER,
    SENDABLE,
    TYPES,
    WRITTEN_BY,
    plain,
    sendable,
    unknown,
)
from interlock.rooms.mail.payloads import MODELS, check
from world.paths import ROOT

COMMITTED = ROOT / "schemas" / "v1"
VALIDATORS = {type: Draft202012Validator(schemas.schema(type)) for type in TYPES}

ID = "0190a5b4-7c1e-7d3a-9f00-1234567890ab"
SHA = "0123456789abcdef" * 4
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TRAIN = "\N{STEAM LOCOMOTIVE}"  # outside the BMP: one character, two UTF-16 units, four bytes

NOT_STRINGS: list[Any] = [None, True, 0, 1.5, [], ["x"], {}, {"x": "x"}]
NOT_INTEGERS: list[Any] = [None, True, False, 1.5, "1", "", "one", [], [1], {}]
NOT_BOOLEANS: list[Any] = [None, 0, 1, "true", "", [], {}]
NOT_LISTS: list[Any] = [None, True, 1, "x", {}, {"0": "x"}]
NOT_OBJECTS: list[Any] = [None, True, 1, "x", [], [{}]]


class Shape:
    """Values that a member of this shape accepts, and values that it refuses."""

    def __init__(self, good: list[Any], bad: list[Any]) -> None:
        self.good, self.bad = good, bad


def text(most: int | None = None) -> Shape:
    good: list[Any] = ["x", " ", "\n", " x \r\n", "0", TRAIN, "ü\u0301\u202e\x00"]
    if most is None:
        return Shape([*good, TRAIN * 20_000], ["", *NOT_STRINGS])
    return Shape(
        [*good, "x" * most, TRAIN * most],
        ["", "x" * (most + 1), TRAIN * (most + 1), *NOT_STRINGS],
    )


def patterned(good: list[str], bad: list[str]) -> Shape:
    spoilt = [
        wrong
        for value in good
        for wrong in (
            value + "\n",
            "\n" + value,
            value + "\r",
            value + " ",
            " " + value,
        )
    ]
    return Shape([*good], [*bad, "", "\n", TRAIN, "\uff45", *spoilt, *NOT_STRINGS])


def integer(least: int, most: int) -> Shape:
    return Shape([least, most], [least - 1, most + 1, 10**30, -(10**30), *NOT_INTEGERS])


def one_of(*words: str) -> Shape:
    return Shape(
        [*words],
        ["", "other", *(w.upper() for w in words), *(w + "\n" for w in words), *NOT_STRINGS],
    )


def several(entry: Shape, most: int, *, unique: bool, distinct: list[str]) -> Shape:
    assert len(distinct) == most + 1
    twice = [distinct[0], distinct[1], distinct[0]]
    good = [[], distinct[:1], distinct[:most], *([value] for value in entry.good)]
    bad = [distinct, [distinct[0], None], *NOT_LISTS, *([value] for value in entry.bad)]
    return Shape(good if unique else [*good, twice], [*bad, twice] if unique else bad)


def numbered(form: str, most: int) -> list[str]:
    return [form.format(number) for number in range(most + 1)]


BIG = 2**63 - 1
LINE = text(280)
PATH = text(4096)
REMARK = text(2000)
FIX = several(text(4096), 20, unique=False, distinct=numbered("git fsck {}", 20))
NAME = patterned(
    ["a", "otto", "neo-gpt", "a-", "z9", "a" * 64],
    ["A", "Otto", "9a", "-a", "a_b", "a.b", "@otto", "é", "otto cli", "a" * 65],
)
TASK_ID = patterned(
    ["B-0444", "a", "0", "A_b.c-d", "x" * 64],
    ["-a", ".a", "_a", "a b", "a/b", "a:b", "é", "x" * 65],
)
MESSAGE_ID = patterned(
    [ID, "00000000-0000-0000-0000-000000000000"],
    [ID.upper(), ID[:-1], ID + "0", ID.replace("-", ""), "{" + ID + "}", "urn:uuid:" + ID, "#12"],
)
DIGEST = patterned([SHA], [SHA.upper(), SHA[:-1], SHA + "0", "g" * 64, "sha256:" + SHA])
OBJECT_ID = patterned([COMMIT, SHA], [COMMIT.upper(), COMMIT[:-1], SHA + "0", "HEAD", "g" * 40])
EVIDENCE = several(
    MESSAGE_ID, 100, unique=True, distinct=numbered("0190a5b4-7c1e-7d3a-9f00-{:012x}", 100)
)
ARTIFACT = Shape(
    [{"commit": value, "tree": value} for value in OBJECT_ID.good],
    [
        *NOT_OBJECTS,
        {},
        {"commit": COMMIT},
        {"tree": COMMIT},
        {"commit": COMMIT, "tree": COMMIT, "branch": "main"},
        *({"commit": COMMIT, "tree": value} for value in OBJECT_ID.bad),
        *({"commit": value, "tree": COMMIT} for value in OBJECT_ID.bad),
    ],
)
SIZE = integer(0, BIG)
TESTS = Shape(
    [{}, {"passed": 1, "failed": 2, "skipped": 3, "errors": 4}],
    [
        *NOT_OBJECTS,
        {"total": 1},
        *({"passed": value} for value in SIZE.bad),
    ],
)
OUTPUT = Shape(
    [{"sha256": SHA, "size": value} for value in SIZE.good],
    [
        *NOT_OBJECTS,
        {},
        {"sha256": SHA},
        {"size": 1},
        {"sha256": SHA, "size": 1, "text": "x"},
        *({"sha256": SHA, "size": value} for value in SIZE.bad),
        *({"sha256": value, "size": 1} for value in DIGEST.bad),
    ],
)
TESTS = Shape(
    [{}, *({"passed": value} for value in SIZE.good), {"failed": 1, "skipped": 2, "errors": 3}],
    [
        *NOT_OBJECTS,
        {"passed": 1, "xfailed": 1},
        *({"failed": value} for value in SIZE.bad),
        *({"skipped": value} for value in SIZE.bad),
        *({"errors": value} for value in SIZE.bad),
        *({"passed": value} for value in SIZE.bad),
    ],
)
ARGV = Shape(
    [
        ["pytest", "-q"],
        ["grep", ""],
        ["x"] * 4096,
        [TRAIN * 131_072],
        "pytest -q",
        TRAIN * 20_000,
    ],
    [[], "", [1], ["x", None], ["x"] * 4097, ["x" * 131_073], [["x"]], None, True, 1, {}],
)
TIME = patterned(
    [
        "2026-01-02T03:04:05.678Z",
        "2024-02-29T23:59:59.999Z",
        "0000-12-31T00:00:00.000Z",
        "9999-11-30T00:00:00.000Z",
    ],
    [
        "2026-01-02",
        "2026-01-02T03:04Z",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.67Z",
        "2026-01-02T03:04:05.6789Z",
        "2026-01-02T03:04:05,678Z",
        "2026-01-02t03:04:05.678z",
        "2026-01-02 03:04:05.678Z",
        "2026-01-02T03:04:05.678",
        "2026-01-02T03:04:05.678+00:00",
        "2026-13-02T03:04:05.678Z",
        "2026-00-02T03:04:05.678Z",
        "2026-02-30T03:04:05.678Z",
        "2026-04-31T03:04:05.678Z",
        "2026-01-32T03:04:05.678Z",
        "2026-01-02T24:00:00.000Z",
        "2026-01-02T23:60:00.000Z",
        "2026-01-02T23:59:60.000Z",
        "٢٠٢٦-01-02T03:04:05.678Z",
        "1767323045678",
    ],
)
URL = patterned(
    ["https://example.org/", "http://a", "https://x.org/" + "a" * 2034],
    [
        "example.org",
        "http://",
        "HTTP://example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "https://a b",
        "https://é.org",
        "https://x.org/" + "a" * 2035,
    ],
)
PROOF = {"task_id": TASK_ID, "criterion": integer(1, 100), "title": LINE, "masked": SIZE}

# A second definition of each contract, independent of the models: its members, and in REQUIRED
# those that must be present. Each kind of evidence has its own contract.
MEMBERS: dict[str, dict[str, Shape]] = {
    "send": {"text": text(), "content_type": one_of("text/plain", "text/markdown")},
    "ask": {
        "question": text(),
        "options": several(LINE, 20, unique=True, distinct=numbered("option {}", 20)),
        "timeout_s": integer(1, 86_400),
    },
    "answer": {"text": text(), "ask": MESSAGE_ID},
    "announce": {
        "text": text(),
        "client": LINE,
        "model": LINE,
        "cwd": PATH,
        "host": LINE,
        "pid": integer(1, 2**32 - 1),
    },
    "wake": {"text": text(), "about": MESSAGE_ID},
    "command": {"command": text(), "why": REMARK, "cwd": PATH, "expects": REMARK},
    "blocker": {
        "what": text(),
        "severity": one_of("stop", "warn"),
        "fix": FIX,
        "task_id": TASK_ID,
    },
    "evidence:run": PROOF
    | {
        "kind": one_of("run"),
        "command": ARGV,
        "cwd": PATH,
        "exit_code": integer(-(2**31), 2**32 - 1),
        "duration_ms": SIZE,
        "commit": OBJECT_ID,
        "tree": OBJECT_ID,
        "dirty": Shape([True, False], NOT_BOOLEANS),
        "output": OUTPUT,
        "interrupted": Shape([True, False], NOT_BOOLEANS),
        "ended_by": one_of("time limit", "signal"),
        "produced": SIZE,
        "tests": TESTS,
        "spooled": Shape([True, False], NOT_BOOLEANS),
    },
    "evidence:file": PROOF | {"kind": one_of("file"), "name": PATH, "sha256": DIGEST, "size": SIZE},
    "evidence:url": PROOF | {"kind": one_of("url"), "url": URL},
    "evidence:note": PROOF | {"kind": one_of("note"), "text": text()},
    "gate_verdict": {
        "task_id": TASK_ID,
        "gate": NAME,
        "verdict": one_of("pass", "fail"),
        "artifact": ARTIFACT,
        "evidence": EVIDENCE,
        "note": text(10_000),
        "fix": FIX,
        "rules": DIGEST,
    },
    "task_created": {
        "task_id": TASK_ID,
        "title": LINE,
        "brief": text(),
        "criteria": several(REMARK, 100, unique=False, distinct=numbered("criterion {}", 100)),
        "gates": several(NAME, 20, unique=True, distinct=numbered("gate-{}", 20)),
        "priority": one_of("low", "normal", "high", "critical"),
        "assignee": patterned(
            ["@otto-cli", "@a", "@A_b", "@" + "a" * 128],
            ["otto", "@", "AGENT:*", "@@a", "@a.b", "@é", "@" + "a" * 129],
        ),
        "labels": several(
            patterned(
                ["bug", "area/mail", "p:1", "3.11", "a" * 64],
                ["Bug", "ÄRGER", "a b", "-a", "a" * 65],
            ),
            20,
            unique=True,
            distinct=numbered("label-{}", 20),
        ),
        "depends_on": several(TASK_ID, 100, unique=True, distinct=numbered("B-{}", 100)),
    },
    "task_claimed": {"task_id": TASK_ID, "fence": integer(1, BIG), "expires_at": TIME},
    "task_completed": {
        "task_id": TASK_ID,
        "status": one_of("done", "failed", "cancelled"),
        "artifact": ARTIFACT,
        "evidence": EVIDENCE,
    },
    "agent_joined": {
        "agent": NAME,
        "surface": NAME,
        "kind": one_of("agent", "human", "system"),
        "client": LINE,
    },
}
REQUIRED: dict[str, set[str]] = {
    "send": {"text"},
    "ask": {"question"},
    "answer": {"text", "ask"},
    "announce": set(),
    "wake": {"text"},
    "command": {"command", "why"},
    "blocker": {"what", "severity"},
    "evidence:run": {"kind", "command", "cwd", "exit_code", "duration_ms", "output"},
    "evidence:file": {"kind", "name", "sha256", "size"},
    "evidence:url": {"kind", "url"},
    "evidence:note": {"kind", "text"},
    "gate_verdict": {"task_id", "gate", "verdict", "artifact"},
    "task_created": {"task_id", "title"},
    "task_claimed": {"task_id", "fence", "expires_at"},
    "task_completed": {"task_id", "status"},
    "agent_joined": {"agent", "kind"},
}
EACH_MEMBER = [(contract, member) for contract in MEMBERS for member in MEMBERS[contract]]


def full(contract: str) -> dict[str, Any]:
    return {member: copy.deepcopy(shape.good[0]) for member, shape in MEMBERS[contract].items()}


def least(contract: str) -> dict[str, Any]:
    return {name: value for name, value in full(contract).items() if name in REQUIRED[contract]}


def fits(contract: str, body: object) -> bool:
    """Return whether `check` accepts the body. Assert that the schema agrees."""
    type = contract.partition(":")[0]
    by_schema = VALIDATORS[type].is_valid(body)
    before = copy.deepcopy(body)
    try:
        by_model = check(type, body) is body
    except InvalidMessage as refusal:
        orjson.dumps(refusal.as_dict())
        by_model = False
    assert body == before
    assert by_model == by_schema, (type, str(body)[:300])
    return by_model


def test_the_table_has_every_type_and_every_member_of_it() -> None:
    assert {contract.partition(":")[0] for contract in MEMBERS} == set(TYPES) == set(MODELS)
    for contract, members in MEMBERS.items():
        type, _, kind = contract.partition(":")
        published = schemas.schema(type)
        if kind:
            published = published["$defs"][f"{kind.title()}Evidence"]
        assert set(published["properties"]) == set(members)
        assert set(published.get("required", [])) == REQUIRED[contract]


@pytest.mark.parametrize(("contract", "member"), EACH_MEMBER)
def test_a_member_accepts_good_values_and_refuses_bad_ones(contract: str, member: str) -> None:
    for body in (least(contract), full(contract)):
        for value in MEMBERS[contract][member].good:
            assert fits(contract, body | {member: value}), str(value)[:100]
        for value in MEMBERS[contract][member].bad:
            assert not fits(contract, body | {member: value}), str(value)[:100]


@pytest.mark.parametrize(("contract", "member"), EACH_MEMBER)
def test_only_an_optional_member_may_be_absent_and_no_member_may_be_null(
    contract: str, member: str
) -> None:
    body = full(contract)
    del body[member]
    assert fits(contract, body) == (member not in REQUIRED[contract])
    assert not fits(contract, body | {member: None})


@pytest.mark.parametrize("contract", MEMBERS)
def test_an_unknown_member_is_refused(contract: str) -> None:
    others = {name for members in MEMBERS.values() for name in members}
    for name in {"extra", "", "from", "Text", "text ", "__class__"} | others:
        if name not in MEMBERS[contract]:
            assert not fits(contract, least(contract) | {name: "x"}), name


@pytest.mark.parametrize("contract", MEMBERS)
@pytest.mark.parametrize("payload", [None, True, 1, 1.5, "", "text", [], [{}], [["text", "x"]]])
def test_a_payload_that_is_not_an_object_is_refused(contract: str, payload: object) -> None:
    assert not fits(contract, payload)


def test_an_announcement_may_be_empty() -> None:
    assert fits("announce", {})


@pytest.mark.parametrize("kind", [None, "", "Run", "other", 1, True, [], ["run"], {}])
def test_evidence_of_an_unknown_kind_is_refused(kind: object) -> None:
    assert not fits("evidence", full("evidence:note") | {"kind": kind})


def test_the_kinds_of_evidence_do_not_mix() -> None:
    for ours in ("run", "file", "url", "note"):
        for theirs in {"run", "file", "url", "note"} - {ours}:
            assert not fits("evidence", full(f"evidence:{theirs}") | {"kind": ours})


def test_a_whole_number_written_with_a_fraction_is_refused() -> None:
    # The one known difference between models and schemas. For JSON Schema, 1.0 equals 1, though its
    # specification says that integers SHOULD NOT be written so. Accepting 1.0 would put a float
    # into the log, and canonical bytes have no floats.
    for number in ("1.0", "1e0"):
        body = orjson.loads(f'{{"question": "x", "timeout_s": {number}}}')
        assert VALIDATORS["ask"].is_valid(body)
        with pytest.raises(InvalidMessage, match="timeout_s must be a whole number"):
            check("ask", body)


ODD_VALUES = [value for m in MEMBERS.values() for s in m.values() for value in s.good + s.bad]
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
# Without whole floats, on which models and schemas differ: see the test above.
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(-9, 9).filter(lambda f: f % 1 != 0), WORDS
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def bend(value: object, how: str) -> object:
    """Change a value a little."""
    match value:
        case str():
            return {"longer": value + "\n", "other": value.swapcase(), "less": value[:-1]}[how]
        case bool():
            return int(value)
        case int():
            return {"longer": value + 1, "other": str(value), "less": value - 1}[how]
        case list():
            return {"longer": value + value[:1], "other": value[::-1], "less": value[:-1]}[how]
        case dict():
            return {name: bend(inner, how) for name, inner in value.items()}
    return value


@st.composite
def near_misses(draw: st.DrawFn) -> tuple[str, Any]:
    contract = draw(st.sampled_from(sorted(MEMBERS)))
    body = draw(st.sampled_from([full(contract), least(contract)]))
    names = st.sampled_from(sorted(MEMBERS[contract])) | WORDS
    for _ in range(draw(st.integers(0, 3))):
        name = draw(names)
        match draw(st.sampled_from(["set", "odd", "bend", "drop"])):
            case "set":
                body[name] = draw(ANYTHING)
            case "odd":
                body[name] = draw(st.sampled_from(ODD_VALUES))
            case "bend" if name in body:
                body[name] = bend(body[name], draw(st.sampled_from(["longer", "other", "less"])))
            case _:
                body.pop(name, None)
    return contract, body


@settings(max_examples=400, database=None)
@given(near_misses())
def test_models_and_schemas_agree_on_bodies_that_are_almost_good(case: tuple[str, Any]) -> None:
    contract, body = case
    fits(contract, body)


@settings(max_examples=100, database=None)
@given(st.sampled_from(TYPES), ANYTHING)
def test_models_and_schemas_agree_on_any_json(type: str, body: object) -> None:
    fits(type, body)


def deep(levels: int = 20_000) -> list[Any]:
    nest: list[Any] = []
    for _ in range(levels):
        nest = [nest]
    return nest


@pytest.mark.parametrize("type", TYPES)
def test_check_raises_only_a_short_invalid_message_for_strange_payloads(type: str) -> None:
    huge = "x" * 100_000
    strange: list[Any] = [
        *({name: value} for name in ("kind", "text", "pid", "fence") for value in (deep(), huge)),
        {"pid": 10**5000, "fence": -(10**5000), "timeout_s": 10**5000},
        {1: 2, None: 3, (4, 5): 6, b"text": 7, 1.5: 8},
        {"\ud800": 1, "text": "\ud800", "kind": "\ud800"},
        {huge: 1, "\x00\x1b[31m" * 1000: 2},
        {f"extra {number}": huge for number in range(1000)},
        {"kind": "run", "command": [deep()] * 1000, "output": deep()},
        {"kind": b"run", "text": b"x", "fix": ("x",), "labels": {"x"}, "artifact": object()},
        deep(),
        huge,
        b"{}",
        {"text"},
        10**5000,
        float("nan"),
    ]
    for payload in strange:
        if isinstance(payload, dict) and payload.get("text") == huge and "text" in payload:
            payload = payload | {"extra": 1}  # a huge text alone is a good message
        with pytest.raises(InvalidMessage) as refused:
            check(type, payload)
        assert len(orjson.dumps(refused.value.as_dict())) < 8_000
        assert len(refused.value.message) < 1_000


@pytest.mark.parametrize(
    ("type", "payload", "message", "members"),
    [
        (
            "blocker",
            {"what": "x", "severity": "urgent", "fix": ["ls", ""]},
            "severity must be 'stop' or 'warn', not 'urgent'; fix[1] must not be empty. "
            "To see the schema: interlock schema blocker",
            ["severity", "fix[1]"],
        ),
        (
            "send",
            {"txt": "x", "text": "x"},
            "txt is not a member of send, which has text, content_type. "
            "To see the schema: interlock schema send",
            ["txt"],
        ),
        (
            "ask",
            {"question": "x", "timeout_s": "60"},
            "timeout_s must be a whole number, written without quotes, fraction or exponent, "
            "not '60'. To see the schema: interlock schema ask",
            ["timeout_s"],
        ),
        (
            "wake",
            {"text": "x", "about": None},
            "about must be a string, not null; leave out an optional member instead. "
            "To see the schema: interlock schema wake",
            ["about"],
        ),
        (
            "answer",
            {"text": "x", "ask": "12"},
            "ask must be a message id: a lower-case UUID; it was '12'. "
            "To see the schema: interlock schema answer",
            ["ask"],
        ),
        (
            "evidence",
            {"kind": "url", "url": "https://x", "colour": 1},
            "colour is not a member of evidence of kind url, which has task_id, criterion, title, "
            "masked, kind, url. To see the schema: interlock schema evidence",
            ["colour"],
        ),
        (
            "evidence",
            full("evidence:run") | {"command": 1, "output": {"sha256": SHA, "size": 1, "x": 1}},
            "command must be a string or a list of strings, not 1; output.x is not a known member. "
            "To see the schema: interlock schema evidence",
            ["command", "output.x"],
        ),
        (
            "evidence",
            {},
            "kind must be 'run', 'file', 'url' or 'note'. "
            "To see the schema: interlock schema evidence",
            ["kind"],
        ),
        (
            "task_created",
            {"task_id": "B-1", "title": "x" * 281, "labels": ["a", "a"]},
            "title must have at most 280 characters; it had 281; labels must not contain the same "
            "entry twice. To see the schema: interlock schema task_created",
            ["title", "labels"],
        ),
        (
            "command",
            {"command": 1, "why": 2, "cwd": 3, "expects": 4},
            "command must be a string, not 1; why must be a string, not 2; cwd must be a string, "
            "not 3 (and 1 more). To see the schema: interlock schema command",
            ["command", "why", "cwd", "expects"],
        ),
        (
            "send",
            ["x"],
            "payload must be an object, not a list. To see the schema: interlock schema send",
            ["payload"],
        ),
    ],
)
def test_a_refusal_names_the_wrong_member_and_what_it_must_be(
    type: str, payload: object, message: str, members: list[str]
) -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(type, payload)
    error = refused.value.as_dict()
    assert error["message"] == message
    assert error["type"] == type
    assert [problem["member"] for problem in error["problems"]] == members


def test_an_unknown_type_is_refused_with_the_valid_types() -> None:
    with pytest.raises(UnknownType) as refused:
        check("blocked", {})
    error = refused.value.as_dict()
    assert error["valid_types"] == list(TYPES)
    assert error["did_you_mean"] == ["blocker"]
    assert "did_you_mean" not in unknown("gossip").as_dict()
    assert len(unknown("x" * 1_000_000).message) < 500


def test_types_that_only_commands_write_cannot_be_sent() -> None:
    assert set(MAIN_MEMBER) == SENDABLE
    assert SENDABLE.isdisjoint(WRITTEN_BY)
    for type in SENDABLE:
        sendable(type)
    for type, command in WRITTEN_BY.items():
        with pytest.raises(UseVerb) as refused:
            sendable(type)
        assert refused.value.as_dict()["use"] == command
    with pytest.raises(UnknownType) as unknown_type:
        sendable("sent")
    assert unknown_type.value.members["did_you_mean"] == ["send"]
    assert set(unknown_type.value.members["valid_types"]) == SENDABLE


def test_the_main_member_of_each_type_accepts_a_long_text() -> None:
    for type, member in MAIN_MEMBER.items():
        assert fits(type, full(type) | {member: "x" * 1_000_000})


@settings(max_examples=200, database=None)
@given(near_misses())
def test_a_plain_payload_is_valid(case: tuple[str, Any]) -> None:
    type, body = case[0].partition(":")[0], case[1]
    if plain(type, body):
        assert fits(type, body)


def test_a_payload_with_only_its_main_text_is_plain() -> None:
    for type in ("send", "ask", "announce", "wake"):
        assert plain(type, {MAIN_MEMBER[type]: "x"})
        for wrong in ("", None, 1, "\udcff"):
            assert not plain(type, {MAIN_MEMBER[type]: wrong})
    assert not plain("command", {"command": "ls"})
    assert not plain("send", "x")


def test_the_message_types_do_not_import_pydantic() -> None:
    code = (
        "import sys, interlock.rooms.mail.message_types; sys.exit('pydantic_core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_committed_schemas_are_current() -> None:
    assert COMMITTED == generate.SCHEMAS
    assert generate.stale(generate.schema_files()) == []


def test_every_schema_is_valid_and_uses_no_formats() -> None:
    for type in TYPES:
        Draft202012Validator.check_schema(schemas.schema(type))
        assert schemas.schema(type)["$id"] == f"interlock/v1/{type}.json"
        assert b'"format"' not in orjson.dumps(schemas.schema(type))
    with pytest.raises(UnknownType):
        schemas.schema("gossip")


def test_stale_names_missing_changed_and_extra_schemas_and_write_fixes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "schemas" / "v1"
    monkeypatch.setattr(generate, "SCHEMAS", folder)
    assert len(generate.stale(generate.schema_files())) == len(TYPES)
    assert generate.main(["--write"]) == 0
    assert generate.stale(generate.schema_files()) == []
    (folder / "send.json").unlink()
    (folder / "ask.json").write_text("{}")
    (folder / "gossip.json").write_text("{}")
    assert generate.main(["--check"]) == 1
    assert "Stale: ask.json, gossip.json, send.json." in capsys.readouterr().err
    assert generate.main(["--write"]) == 0
    assert generate.main(["--check"]) == 0
