"""Plays a row of the table of acts at one door, in a fresh copy of one town, and puts what the door
answered into a form that is the same at every door."""

import hashlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

import interlock
from interlock.client import Client
from interlock.errors import TokenExpired
from interlock.rooms import catalogue
from interlock.rooms.identity.token_format import hashed, token_id
from world.commandline import LIMIT_S, TIME, Place, until
from world.doors import NOT_OFFERED, OWNER, Door, Kind, Scene, Who
from world.fork_server import Servers, ServersByWorkspace
from world.signed_in_people import let_in

OTTO, VERA, DORA = Who("otto-cli"), Who("vera"), Who("dora")
NOVA, LENA, MIRA = Who("nova"), Who("lena"), Who("mira")
LATE, STRANGER, TYPO = Who("late"), Who("stranger"), Who("typo")
BROWSER, CONNECTION = Who("vera's browser"), Who("vera's connection")

NOTHING: Mapping[str, Any] = MappingProxyType({})
LOOKS = {verb for verb in catalogue.verbs() if verb.declared.http.startswith("GET")}

# A file where everybody stands, and a run that has written the same.
PROOF, PROVED = "proof.txt", b"2 passed\n"
KEPT = {"sha256": hashlib.sha256(PROVED).hexdigest(), "size": len(PROVED)}
RAN: Mapping[str, Any] = MappingProxyType(
    {
        "kind": "run",
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 5,
        "commit": "$commit",
        "tree": "$tree",
        "dirty": False,
        "output": KEPT,
    }
)


class Step(NamedTuple):
    """Something that is done before, whatever the door. `keeps` gives names to parts of its answer,
    by their path; later members name them with a dollar."""

    who: Who
    act: type
    members: Mapping[str, Any] = NOTHING
    keeps: Mapping[str, str] = NOTHING


class Meanwhile(NamedTuple):
    """Something that is done while the door waits, as soon as `when` sees that it does. What it
    sees is `$seen`."""

    when: Callable[[Client], Any]
    step: Step


class Row(NamedTuple):
    """An act, its members, who asks for it, and what comes of it.

    `has` is a part of what is said; the whole is compared between the doors. `but` lists doors that
    have no words for it, and why. In `own_words` a door says itself how to do better. What must
    happen `in_a_minute` of the clock is played again where one ended in between."""

    name: str
    act: type
    who: Who
    members: Mapping[str, Any] = NOTHING
    kind: Kind = "done"
    code: str | None = None
    has: Mapping[str, Any] = NOTHING
    first: tuple[Step, ...] = ()
    meanwhile: Meanwhile | None = None
    damage: str | None = None
    but: Mapping[str, str] = NOTHING
    own_words: bool = False
    in_a_minute: bool = False

    def doors(self, every: tuple[Door, ...]) -> list[Door]:
        return [door for door in every if self.is_offered(door)]

    def is_offered(self, door: Door) -> bool:
        left_out = {*self.but}
        return self.act not in NOT_OFFERED[door.family] and not left_out & {door.family, door.name}


class Town:
    """Who and what is there when a row begins: an agent's surface otto-cli, the agent nova, the
    person vera, the admin dora, lena who may not mail and mira who may only mail. Vera has signed
    in and let a client act as her, and rita is invited. Everybody stands in a repository.

    Dora holds the gate athena and asks for work: T-1 waits for somebody and T-2 for T-1, nova works
    on T-3 and is stuck, T-4 is submitted by nova, and T-5 is not wanted any more."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root)
        self.tokens = {"stranger": "of-somebody-else", "typo": "ilk_mistyped"}
        self.names: dict[str, Any] = {"backup": str(root / "made.db")}
        with interlock.connect(self.place.workspace) as owner:
            self._populate(owner)
            self._invite(owner)
            self._furnish(owner)
            self._commit()
            self._give_work(owner)
            self.names["checkpoint"] = owner.checkpoint()["checkpoint"]
            owner.backup(self.names["backup"])
            # No list may show the invitation at one door and not at the next.
            until(lambda: "tina" not in json.dumps(owner.connections()))
        until(lambda: self._is_refused("late"))

    def _populate(self, owner: Client) -> None:
        for name, given in (
            ("otto", {"surface": "cli"}),
            ("vera", {"kind": "human"}),
            ("dora", {"kind": "human", "scopes": ["admin"]}),
            ("nova", {}),
            ("lena", {"scopes": ["claim", "work"]}),
            ("mira", {"scopes": ["mail"]}),
        ):
            joined = owner.join(name, **given)
            self.tokens[joined["sender"]] = joined["token"]
            self.names[f"{name}_token"] = joined["token_id"]
        self.names["its_token"] = self.tokens["vera"]
        self.tokens["late"] = owner.mint_token("nova", ttl_s=1)["token"]

    def _invite(self, owner: Client) -> None:
        browser, connection = let_in(self.place.workspace, "vera", "robo")
        self.tokens |= {"vera's browser": browser, "vera's connection": connection.token}
        self.names |= {"connection": connection.id, "signed_in": token_id(hashed(browser))}
        rita = owner.invite("rita", surface="laptop", own=["rex"])
        self.names |= {"invitation": rita["invitation"], "invited": rita["id"]}
        self.names["late_invitation"] = owner.invite("tina", ttl_s=1)["invitation"]

    def _furnish(self, owner: Client) -> None:
        place = self.place.workspace
        owner.create_group("team", ["@otto-cli", "@vera"])
        with interlock.connect(place, self.tokens["otto-cli"]) as otto:
            mail = otto.send("@vera", "hello vera", subject="first")["message"]
            ask = otto.send("@vera", "ready?", type="ask")["message"]
            held = otto.acquire("B-1", branch="b", note="n")
            assert held["acquired"]
            self.names |= {"fence": held["claim"]["fence"], "claim": held["claim"]["id"]}
        with interlock.connect(place, self.tokens["vera"]) as vera:
            letter = vera.send("@otto-cli", "hello otto", priority="high")["message"]
            vera.acquire(paths=["src/**"], repo="example.com/r")
        self.names |= {"mail": mail["id"], "mail_seq": mail["seq"], "ask": ask["id"]}
        self.names |= {"letter": letter["id"], "letter_seq": letter["seq"]}

    def _commit(self) -> None:
        (self.place.cwd / PROOF).write_bytes(PROVED)
        self._git("init", "--quiet", "--template=")
        self._git("add", PROOF)
        who = ("-c", "user.name=Otto", "-c", "user.email=otto@example.com")
        self._git(*who, "commit", "--quiet", "--message", "Sort the list")
        self.names["commit"] = self._git("rev-parse", "HEAD")
        self.names["tree"] = self._git("rev-parse", "HEAD^{tree}")

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.place.cwd,
            env=self.place.environ,
            stdout=subprocess.PIPE,
            check=True,
        )
        return done.stdout.decode().strip()

    def _give_work(self, owner: Client) -> None:
        place = self.place.workspace
        owner.create_gate("athena", ["@dora"])
        with interlock.connect(place, self.tokens["dora"]) as dora:
            criteria = ["make test passes", "it reads well"]
            dora.create_task("Sort the list", criteria=criteria, gates=["athena"], brief="By name.")
            dora.create_task("Show it", depends_on=["T-1"])
            for title in ("Say it", "Count it"):
                dora.create_task(title, criteria=criteria[:1], gates=["athena"])
            dora.create_task("Print it")
            dora.cancel("T-5", note="nobody prints")
        with interlock.connect(place, self.tokens["nova"]) as nova:
            said = {"kind": "note", "text": "it works", "task_id": "T-3", "criterion": 1}
            taken = nova.take("T-3")
            assert taken["taken"]
            self.names["work_fence"] = taken["claim"]["fence"]
            self.names["said"] = nova.add_evidence(said)["evidence"]["id"]
            stuck = nova.raise_blocker("there is no list", task="T-3")
            self.names["blocker"] = stuck["blocker"]["id"]
            nova.take("T-4")
            upload = nova.put_chunk(PROVED, len(PROVED))["upload"]
            ran = self.filled(RAN) | {"task_id": "T-4", "criterion": 1}
            self.names["ran"] = nova.add_evidence(ran, upload=upload)["evidence"]["id"]
            nova.submit("T-4", self.names["commit"], tree=self.names["tree"])

    def filled(self, value: Mapping[str, Any]) -> Any:
        return _filled(dict(value), self.names)

    def _is_refused(self, sender: str) -> bool:
        with interlock.connect(self.place.workspace, self.tokens[sender]) as client:
            try:
                client.whoami()
            except TokenExpired:
                return True
        return False


class Played(NamedTuple):
    """What a door answered, and what the log holds since: the facts, and what bodies they have."""

    kind: Kind
    said: Any
    facts: Any

    @property
    def code(self) -> Any:
        return self.said.get("code")


class Stage:
    """A copy of the town, with a server or without, in which the row's first steps are taken."""

    def __init__(
        self, row: Row, town: Town, root: Path, servers: Servers, *, is_served: bool
    ) -> None:
        self._served = ServersByWorkspace(servers) if is_served else None
        place = town.place.copied(root, self._served)
        if row.damage is not None:
            place.query(Template(row.damage).substitute(town.names))
        self.scene = Scene(place, town.tokens, "")
        if self._served is not None:
            url = self._served.at(str(place.workspace), place.environ, str(place.cwd)).url
            owner = json.loads((place.workspace / "owner.json").read_text())["token"]
            self.scene = Scene(place, town.tokens | {"the owner": owner}, url)
        self.names = town.names | {"root": str(place.root)}
        for step in row.first:
            done = _taken(self.scene, step, self.names)
            self.names |= {name: _part(done, path) for name, path in step.keeps.items()}
        self.before = place.entries()

    def close(self) -> None:
        if self._served is not None:
            self._served.close()


class Stages:
    """Where a row is played at one door after the other. What is only looked at, or refused, and
    has left nothing in the log, is there for the next door as it was."""

    def __init__(self, row: Row, town: Town, root: Path, servers: Servers) -> None:
        self._row, self._town, self._root, self._servers = row, town, root, servers
        self._stack = ExitStack()
        self._count = 0
        self._left: dict[bool, Stage] = {}

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, door: Door) -> Played:
        """The row at a door, made comparable."""
        minute = time.time() // 60
        played = self._played(door)
        if self._row.in_a_minute and minute != time.time() // 60:
            return self._played(door)
        return played

    def _played(self, door: Door) -> Played:
        stage = self._left.pop(door.is_served, None) or self._fresh(door)
        played = _played(self._row, door, self._town, stage)
        row = self._row
        changes_nothing = row.kind == "refused" or row.act in LOOKS
        if changes_nothing and not row.in_a_minute and not played.facts:
            self._left[door.is_served] = stage
        return played

    def _fresh(self, door: Door) -> Stage:
        self._count += 1
        root = self._root / str(self._count)
        stage = Stage(self._row, self._town, root, self._servers, is_served=door.is_served)
        self._stack.callback(stage.close)
        return stage


def _played(row: Row, door: Door, town: Town, stage: Stage) -> Played:
    scene, names = stage.scene, stage.names
    helper = _helping(scene, row.meanwhile, names) if row.meanwhile else None
    outcome = door.do(scene, row.who, row.act, _filled(dict(row.members), names))
    if helper is not None:
        helper.join(LIMIT_S)
    comparable = Comparable(scene, town)
    said = comparable.of(outcome.said)
    return Played(outcome.kind, said, comparable.of(_facts(scene.place, stage.before)))


def _facts(place: Place, after: int) -> list[Any]:
    """What the log holds after a position, asked of the file itself."""
    query = "SELECT header, body FROM log LEFT JOIN bodies USING (seq) WHERE seq > {} ORDER BY seq"
    found = place.query(query.format(after))
    return [json.loads(header) | {"body": _text(body, place)} for header, body in found]


def _text(body: Any, place: Place) -> Any:
    if not body:
        return None
    said = json.loads(body)
    payload = said.get("payload", {})
    is_passing = "expires_at" in payload or str(place.root) in json.dumps(payload)
    return said | {"sha256": "<of a time or a place>"} if is_passing else said


def _client(scene: Scene, who: Who) -> Client:
    return interlock.connect(scene.place.workspace, scene.token(who), who.session)


def _taken(scene: Scene, step: Step, names: Mapping[str, Any]) -> Any:
    with _client(scene, step.who) as client:
        return client.call(_made(step, names))


def _made(step: Step, names: Mapping[str, Any]) -> Any:
    members = _filled(dict(step.members), names)
    return step.act(**{n: tuple(v) if isinstance(v, list) else v for n, v in members.items()})


def _helping(scene: Scene, meanwhile: Meanwhile, names: dict[str, Any]) -> threading.Thread:
    """Who helps is known before the door is asked, since that changes the environment."""
    when, step = meanwhile
    watcher, actor = _client(scene, OWNER), _client(scene, step.who)
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


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    """The value with what was given a name before."""
    if isinstance(value, dict):
        return {name: _filled(inner, names) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, names) for inner in value]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    name, slash, rest = value[1:].partition("/")
    return names[name] if not slash else f"{names[name]}/{rest}"


# --- what must differ

UNKNOWN = re.compile(
    r"(?P<upload>\b\d{15}\.[a-z-]+\.[0-9a-f-]{36})"
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<secret>il[ki]_[a-z2-7]{40,})|(?P<token>(tok|inv)_[0-9a-f]{12})"
    r"|(?P<hash>\b[0-9a-f]{64}\b)"
    r"|(?P<workspace>\b[0-9a-f]{16}\b)"
)
SECONDS = re.compile(r"\bin \d+ s\b")
# Members whose value is the door's own, or depends on the moment.
PASSING = {
    *("adapter", "bytes", "checkpoint", "confirmed_s_ago", "digest", "header"),
    *("last_seen", "lease", "left_s", "now", "nth", "retry_after_s", "seen_s_ago"),
}


class Comparable:
    """Answers without what must differ: times are left out, or counted from the one before; names
    that were made by the way are numbered as they come, so that the same stays the same."""

    def __init__(self, scene: Scene, town: Town) -> None:
        self._root = str(scene.place.root)
        self._known = {str(value) for value in (*town.names.values(), *town.tokens.values())}
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
        if name in PASSING:
            return f"<{name}>"
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
    """To ten of them: on a busy machine what is done between two calls may take one or two."""
    took = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return 10 * round(took.total_seconds() / 600)
