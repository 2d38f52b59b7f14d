"""Run a row of the table at one door, in a new copy of the furnished workspace, and make the
outcomes of the doors comparable."""

import difflib
import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeVar

import interlock
from interlock.client import Client
from interlock.doors.cli.grammar import COMMON, parse
from interlock.doors.cli.lookup import commands_for
from interlock.doors.mcp.tools import call_of, checked, mcp_words, offered_tools
from interlock.errors import Message, Remedy
from interlock.verbs.verb import Verb
from interlock.verbs.wording import Words, http_words, worded
from world.commandline import LIMIT_S, TIME, Place, until
from world.doors import Door, Workspace
from world.fork_server import Servers, ServersByWorkspace
from world.furnished import Furnished, filled
from world.row import OWNER, Caller, Kind, Meanwhile, Row, Step

T = TypeVar("T")


# The words that a family of doors has for remedies. The others name commands.
WORDS: dict[str, Words] = {"http": http_words, "mcp": mcp_words}


class Played(NamedTuple):
    """The answer of a door, and the new entries of the log with their bodies. `raw` is the answer
    as the door gave it. `worded` is the answer in the words of each family of doors."""

    family: str
    kind: Kind
    raw: Any
    answer: Any
    facts: Any
    worded: dict[str, Any]

    @property
    def code(self) -> Any:
        return self.answer.get("code")


class Stage:
    """A copy of the furnished workspace after a row's first steps, with a server or without."""

    def __init__(
        self, row: Row, furnished: Furnished, root: Path, servers: Servers, *, is_served: bool
    ) -> None:
        self._served = ServersByWorkspace(servers) if is_served else None
        place = furnished.place.copied(root, self._served)
        if row.damage is not None:
            place.query(Template(row.damage).substitute(furnished.names))
        self.workspace = Workspace(place, furnished.tokens, "")
        if self._served is not None:
            url = self._served.at(str(place.workspace), place.environ, str(place.cwd)).url
            owner = json.loads((place.workspace / "owner.json").read_text())["token"]
            self.workspace = Workspace(place, furnished.tokens | {"the owner": owner}, url)
        self.names = furnished.names | {"root": str(place.root)}
        for step in row.first:
            done = _taken(self.workspace, step, self.names)
            self.names |= {name: _part(done, path) for name, path in step.keeps.items()}
        self.before = place.entries()

    def call(self, row: Row, request: Callable[[Workspace, Caller, type[Verb], Any], T]) -> T:
        """Send the request of the row. Run the row's `meanwhile` step concurrently."""
        helper = _helping(self.workspace, row.meanwhile, self.names) if row.meanwhile else None
        fields = filled(dict(row.fields), self.names)
        result = request(self.workspace, row.caller, row.verb, fields)
        if helper is not None:
            helper.join(LIMIT_S)
        return result

    def close(self) -> None:
        if self._served is not None:
            self._served.close()


class Stages:
    """The workspaces in which a row runs at one door after the other. If a request wrote nothing,
    the next door uses the same workspace."""

    def __init__(self, row: Row, furnished: Furnished, root: Path, servers: Servers) -> None:
        self._row, self._furnished, self._root, self._servers = row, furnished, root, servers
        self._stack = ExitStack()
        self._count = 0
        self._left: dict[bool, Stage] = {}

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, door: Door) -> Played:
        """Run the row at a door, and return the comparable outcome."""
        minute = time.time() // 60
        played = self._played(door)
        if self._row.in_a_minute and minute != time.time() // 60:
            return self._played(door)
        return played

    def _played(self, door: Door) -> Played:
        stage = self._left.pop(door.is_served, None) or self._fresh(door)
        played = _played(self._row, door, self._furnished, stage)
        row = self._row
        changes_nothing = row.kind == "refused" or row.verb.declared.http.startswith("GET")
        if changes_nothing and not row.in_a_minute and not played.facts:
            self._left[door.is_served] = stage
        return played

    def _fresh(self, door: Door) -> Stage:
        self._count += 1
        root = self._root / str(self._count)
        stage = Stage(self._row, self._furnished, root, self._servers, is_served=door.is_served)
        self._stack.callback(stage.close)
        return stage


def _played(row: Row, door: Door, furnished: Furnished, stage: Stage) -> Played:
    outcome = stage.call(row, door.call)
    place = stage.workspace.place
    comparable = Comparable(stage.workspace, furnished)
    answer = comparable.of(outcome.answer)
    facts = comparable.of(_facts(place, stage.before))
    in_words = {
        family: Comparable(stage.workspace, furnished).of(worded(outcome.answer, words))
        for family, words in WORDS.items()
    }
    return Played(door.family, outcome.kind, outcome.answer, answer, facts, in_words)


def _facts(place: Place, after: int) -> list[Any]:
    """Return the entries of the log after a position, read from the file."""
    query = "SELECT header, body FROM log LEFT JOIN bodies USING (seq) WHERE seq > {} ORDER BY seq"
    found = place.query(query.format(after))
    return [json.loads(header) | {"body": _text(body, place)} for header, body in found]


def _text(body: Any, place: Place) -> Any:
    if not body:
        return None
    said = json.loads(body)
    payload = said.get("payload", {})
    is_passing = "expires_at" in payload or str(place.root) in json.dumps(payload)
    return said | {"sha256": "<depends on time or path>"} if is_passing else said


def _client(workspace: Workspace, caller: Caller) -> Client:
    return interlock.connect(workspace.place.workspace, workspace.token(caller), caller.session)


def _taken(workspace: Workspace, step: Step, names: Mapping[str, Any]) -> Any:
    with _client(workspace, step.caller) as client:
        return client.call(_made(step, names))


def _made(step: Step, names: Mapping[str, Any]) -> Any:
    fields = filled(dict(step.fields), names)
    return step.verb(**{n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()})


def _helping(workspace: Workspace, meanwhile: Meanwhile, names: dict[str, Any]) -> threading.Thread:
    """Run a step while the door waits. Create both clients before the call of the door, because the
    call changes the environment."""
    when, step = meanwhile
    watcher, actor = _client(workspace, OWNER), _client(workspace, step.caller)
    watcher.status()

    def help() -> None:
        with watcher, actor:
            seen = until(lambda: when(watcher))
            actor.call(_made(step, names | {"seen": seen}))

    helper = threading.Thread(target=help)
    helper.start()
    return helper


def _part(answer: Any, path: str) -> Any:
    for name in path.split("."):
        answer = answer[int(name)] if name.isdigit() else answer[name]
    return answer


# --- the comparison of the doors


def check_outcomes(row: Row, furnished: Furnished, outcomes: Mapping[str, Played]) -> None:
    """Check that each door has the outcome of the row, and that all outcomes are equal."""
    for remedy in remedies(outcomes[next(iter(outcomes))].raw):
        check_remedy(remedy)
    for name, outcome in outcomes.items():
        assert (outcome.kind, outcome.code) == (row.kind, row.code), (name, outcome)
        missing = _missing(furnished.filled(row.has), outcome.answer)
        assert not missing, (name, missing, outcome)
    first, *others = outcomes
    assert others, "a comparison needs two doors"
    for name in others:
        played = outcomes[name]
        expected = outcomes[first]
        expected = expected._replace(answer=expected.worded.get(played.family, expected.answer))
        difference = "".join(difflib.unified_diff(_shown(row, expected), _shown(row, played), n=1))
        assert not difference, f"{first} and {name} differ:\n{difference}"


def _missing(part: Any, whole: Any, path: str = "answer") -> list[str]:
    """Return the differences between an answer and its required part. Answers have no nulls: a
    member with None in the part must be absent."""
    if isinstance(part, dict) and isinstance(whole, dict):
        members = part.items()
        return [m for n, inner in members for m in _missing(inner, whole.get(n), f"{path}.{n}")]
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        pairs = enumerate(zip(part, whole, strict=True))
        return [m for n, (one, other) in pairs for m in _missing(one, other, f"{path}[{n}]")]
    return [] if part == whole else [f"{path} is {whole!r}, not {part!r}"]


def _shown(row: Row, played: Played) -> list[str]:
    answer = played.answer
    if row.own_words:
        answer = {name: answer[name] for name in ("error", "code")}
    elif "member" in answer:
        # Each door names its own flag, member or parameter: see tests/doors/test_member_names.py.
        answer = {name: answer[name] for name in answer if name not in ("member", "one_of")}
        answer["message"] = NAME_OF_MEMBER.sub("<member>", answer["message"])
    shown = {"answer": answer, "facts": played.facts}
    return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False).splitlines(keepends=True)


# --- the remedies


def remedies(value: Any) -> Iterator[Remedy]:
    """Yield the remedies in an answer of a client that opened the workspace's file."""
    if isinstance(value, Remedy):
        yield value
    elif isinstance(value, dict):
        yield from remedies([*value.values()])
    elif isinstance(value, Message | list | tuple):
        for part in value.parts if isinstance(value, Message) else value:
            yield from remedies(part)


def check_remedy(remedy: Remedy) -> None:
    """Check that the command exists, and that the tool accepts the arguments."""
    if remedy.request is None:
        return
    words = shlex.split(remedy)
    assert words[0] == "interlock", remedy
    parse(words[1:], commands_for(words[1:]), COMMON)
    if (called := call_of(remedy.request)) is not None:
        tool, arguments = called
        checked(offered_tools()[tool], json.loads(json.dumps(arguments)))


# --- the parts that must differ

UNKNOWN = re.compile(
    r"(?P<upload>\b\d{15}\.[a-z-]+\.[0-9a-f-]{36})"
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<secret>il[ki]_[a-z2-7]{40,})|(?P<token>(tok|inv)_[0-9a-f]{12})"
    r"|(?P<hash>\b[0-9a-f]{64}\b)"
    r"|(?P<workspace>\b[0-9a-f]{16}\b)"
)
# The name of a member, or a choice of names, at the beginning of a refusal.
NAME_OF_MEMBER = re.compile(
    r"^(Give [^.]* or [^.]*(?=\.)|--session or \w+|\w+ in --payload|[\w.-]+(\[\d+\])?(?= ))"
)
SECONDS = re.compile(r"\bin \d+ s\b")
# Members whose value depends on the door or on the time.
VARYING = {
    *("adapter", "bytes", "checkpoint", "confirmed_s_ago", "digest", "header"),
    *("last_seen", "lease", "left_s", "now", "nth", "retry_after_s", "seen_s_ago"),
}


class Comparable:
    """Removes the parts of answers that must differ. It replaces times, or makes them relative to
    the one before. It numbers new ids and secrets in their order, so that equal ones stay equal."""

    def __init__(self, workspace: Workspace, furnished: Furnished) -> None:
        self._root = str(workspace.place.root)
        self._known = {
            str(value) for value in (*furnished.names.values(), *furnished.tokens.values())
        }
        self._met: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            since = next((value[n] for n in ("acquired_at", "minted_at", "at") if n in value), None)
            return {name: self._member(name, inner, since) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.of(inner) for inner in value]
        if isinstance(value, str):
            text = TIME.sub("<time>", value.replace(self._root, "<root>"))
            return UNKNOWN.sub(self._name, SECONDS.sub("in <some> s", text))
        return value

    def _member(self, name: str, value: Any, since: Any) -> Any:
        if name == "sha256":
            return value
        if name in VARYING:
            return f"<{name}>"
        if name == "reach" and value == "offline":
            return "waits"  # the value while the furnished workspace was new
        if (name in ("at", "until") or name.endswith("_at")) and isinstance(value, int):
            return "<time>"
        if name == "expires_at" and since is not None:
            return f"<{_minutes(since, value)} minutes>"
        return self.of(value)

    def _name(self, found: re.Match[str]) -> str:
        if found[0] in self._known:
            return found[0]
        return self._met.setdefault(found[0], f"<{found.lastgroup} {len(self._met) + 1}>")


def _minutes(since: str, until: str) -> int:
    """Return minutes, rounded to ten. On a busy machine, the time between two calls varies."""
    took = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return 10 * round(took.total_seconds() / 600)
