"""A state machine sends the same requests to a node and to a plain model, and compares both.

Several senders and sessions use identity, mail and claims, through two nodes of one workspace that
are closed and reopened. The state machine controls the engine's clock, so leases expire and the
clock jumps by hours. After every request, the log has exactly the new facts that the model
predicts, at log time. At the end the log verifies, and folding it again gives the same state.

The model predicts neither the wording of notices nor the times of presence.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from interlock.errors import Refusal
from interlock.log.facts import Entry
from interlock.node import Node, audit, upkeep
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
    Join,
    KeepSession,
    MintToken,
    RevokeToken,
    RotateToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    FindAnswer,
    ListInbox,
    ReadMessage,
    Redact,
    SendMessage,
)
from interlock.rooms.workspace.verbs import (
    ChangeSetting,
    Pause,
    Resume,
    ShowLog,
    ShowStatus,
    Whoami,
)
from interlock.stores.sqlite import LogFile, SqliteEngine
from interlock.verbs.credentials import Credentials
from world.model import COVERS, Message, Model, Refused, Target

pytestmark = pytest.mark.every_engine

START = 2_000_000_000_000  # in the future of every test machine's clock
SECOND, HOUR = 1000, 3_600_000
OWNER = Credentials(owner=True)
LADDER = ("accepted", "shown", "read", "acked", "declined", "expired")

# otto-cli is a possible agent and a possible surface of otto. For otto-a-b, there are two ways.
NAMES = ("otto", "vera", "vera-cli", "otto-cli", "otto-a", "otto-a-b", "devs", "owner")
SURFACES = (None, "cli", "a", "b", "a-b")
RECIPIENTS = (
    *("@otto", "@otto-cli", "@otto-a-b", "@vera", "@vera-cli", "@mira", "@devs", "@verra"),
    *("AGENT:*", "AGENT:otto", "vera"),
)
ITEMS = ("B-1", "B-2", "B-3")
SESSIONS = ("s1", "s2", "s3")
SCOPES = ((), (), ("mail",), ("claim",), ("admin",))

On: TypeAlias = dict[str, Any]
targets = st.one_of(
    st.fixed_dictionaries({"item": st.sampled_from(ITEMS)}),
    st.fixed_dictionaries(
        {
            "paths": st.lists(st.sampled_from(sorted(COVERS)), min_size=1, max_size=2).map(tuple),
            "repo": st.sampled_from(("r1", "r1", "r2")),
        }
    ),
)
sessions = st.sampled_from((None, None, *SESSIONS))
claimed_senders = st.sampled_from(
    (None, None, None, None, None, None, "itself", "@itself", "@vera", "otto")
)
leases = st.sampled_from((1, 20, 60, 3600))
indices = st.integers(0, 30)
rarely = st.integers(0, 7).map(lambda drawn: drawn == 7)
Actor: TypeAlias = tuple[int, bool]  # see `token_of`
actors = st.tuples(indices, rarely)

Step: TypeAlias = tuple[str, dict[str, Any]]
STEPS: dict[str, list[st.SearchStrategy[Step]]] = {}
Method = TypeVar("Method", bound=Callable[..., None])


def step(room: str, weight: int = 1, **drawn: st.SearchStrategy[Any]) -> Callable[[Method], Method]:
    """Register a method as a step of the machine, with a weight among the steps of its room. There
    is one rule for each room. With one rule for each step, few runs would reach ask, answer and
    ack."""

    def register(method: Method) -> Method:
        for _ in range(weight):  # one_of counts a repeated strategy only once
            drawing = st.tuples(st.just(method.__name__), st.fixed_dictionaries(drawn))
            STEPS.setdefault(room, []).append(drawing)
        return method

    return register


class Clock:
    """The engine's clock. Only the state machine moves it."""

    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


class Workspace(RuleBasedStateMachine):
    """A node and its model. `tell` sends a request to both."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="interlock-machine-")
        self.clock = Clock()
        self.node = Node(tempfile.mkdtemp(dir=self.root), clock=self.clock)
        self.other = self.second_node(self.node)
        self.model = Model()
        self.minted = 0
        self.steps_of_pause = 0
        self.sent_with_key: list[tuple[Credentials, SendMessage]] = []
        self.last_at = 0
        self.last_fence = 0
        self.reached: dict[tuple[str, int], str] = {}

    def second_node(self, node: Node) -> Node:
        """Open a second node on the same log. On a shared engine, it has a file of its own."""
        if node.shared is None:
            return Node(node.directory, clock=self.clock)
        where = node.shared.where
        with open(os.path.join(node.directory, "keys", "checkpoint.key"), "rb") as file:
            key = file.read()
        engine = f"{where.url}?workspace={where.workspace}"
        return Node(tempfile.mkdtemp(dir=self.root), clock=self.clock, engine=engine, key=key)

    # --- requests to both, and the comparison

    def settle(self) -> None:
        """Let the node and the model record expiries, and compare their counts."""
        told = self.node.call(OWNER, ShowStatus())
        model, now = self.model, ms(told["now"])
        model.pass_time(now)
        self.compare_facts()
        assert told["paused"] == model.paused
        assert told["senders"] == len(model.senders)
        assert told["messages"] == len(model.messages)
        assert told["refusals"] == len(model.refusals)
        assert told["claims"] == sum(claim.expires_at > now for claim in model.claims)
        assert told["waiting"] == sum(waiter.lease > now for waiter in model.waiting)

    def tell(self, credentials: Credentials, act: Any) -> dict[str, Any] | None:
        """Send the request to both. Return the node's answer, or None if both refuse it."""
        self.settle()
        expected = self.predict(credentials, act)
        found = self.ask(credentials, act)
        self.compare_facts()
        assert isinstance(found, str) == isinstance(expected, str), f"{found}, not {expected}"
        assert matches(expected, found), f"{found}, but the model predicts {expected}"
        return found if isinstance(found, dict) else None

    def predict(self, credentials: Credentials, act: Any) -> dict[str, Any] | str:
        """Return the model's answer, or the code of its refusal."""
        try:
            return self.model.call(credentials, act)
        except Refused as refused:
            return refused.code

    def ask(self, credentials: Credentials, act: Any) -> dict[str, Any] | str:
        try:
            return self.node.call_once(credentials, act)
        except Refusal as refusal:
            return refusal.code

    def compare_facts(self) -> None:
        """Check that the log has only the predicted new facts. Time and fences never fall."""
        expected = self.model.facts
        before = self.model.seq - len(expected)
        facts = audit.show(self.node, ShowLog(after=before, limit=1000))["facts"]
        assert [fact["kind"] for fact in facts] == [kind for kind, _ in expected]
        for fact, (kind, said) in zip(facts, expected, strict=True):
            assert matches(said, fact["outcome"]), f"{fact}, but the model predicts {said}"
            assert self.last_at <= ms(fact["at"]) == self.model.now
            self.last_at = ms(fact["at"])
            if kind == "claim_granted":
                assert fact["outcome"]["fence"] > self.last_fence
                self.last_fence = fact["outcome"]["fence"]
            if kind == "message_sent":
                self.model.messages[fact["seq"]].id = fact["outcome"]["id"]
        self.model.facts = []

    def token_of(self, actor: Actor) -> str:
        """Return a valid token of a registered sender, or rarely any token that was minted."""
        which, any_token = actor
        if any_token:
            return numbered(1 + which % self.minted)
        sender = list(self.model.senders)[which % len(self.model.senders)]
        return self.good_token(sender) or numbered(1 + which % self.minted)

    def good_token(self, sender: str) -> str | None:
        """Return a valid token of this sender with all scopes of an agent, or None."""
        for token in map(numbered, range(1, self.minted + 1)):
            known = self.model.tokens.get(id_of(token))
            if known is None or known.sender != sender or known.revoked:
                continue
            lasts = known.expires_at is None or known.expires_at > self.model.now
            if lasts and known.scopes >= {"mail", "claim", "work"}:
                return token
        return None

    def by(self, actor: Actor | None, session: str | None = None, says: str | None = None) -> Any:
        """Return the credentials of an actor or the owner. `says` is the sender that it claims."""
        if actor is None:
            return OWNER
        token = self.token_of(actor)
        known = self.model.tokens.get(id_of(token))
        if says is not None and known is not None:
            says = says.replace("itself", known.sender)
        return Credentials(token=token, session=session, claimed=says)

    def new_token(self) -> str:
        self.minted += 1
        return numbered(self.minted)

    # --- identity

    @initialize()
    def join_some_senders(self) -> None:
        for name, surface, kind, scopes in (
            ("otto", None, "agent", ()),
            ("otto", "cli", "agent", ()),
            ("vera", None, "agent", ()),
            ("mira", None, "human", ("admin",)),
        ):
            hash = token_format.hashed(self.new_token())
            self.tell(OWNER, Join(name, surface, cast(Any, kind), scopes=scopes, token_hash=hash))
        self.tell(OWNER, CreateGroup("devs", ("otto-cli", "vera")))

    @step(
        "identity",
        2,
        by=st.none() | actors,
        name=st.sampled_from(NAMES),
        surface=st.sampled_from(SURFACES),
        kind=st.sampled_from((None, None, "agent", "human")),
        scopes=st.sampled_from(SCOPES),
    )
    def join(
        self,
        by: Actor | None,
        name: str,
        surface: str | None,
        kind: Any,
        scopes: tuple[str, ...],
    ) -> None:
        act = Join(name, surface, kind, scopes=scopes)
        by_whom = self.by(by)
        self.tell(by_whom, act._replace(token_hash=token_format.hashed(self.new_token())))

    @step(
        "identity",
        by=st.none() | actors,
        sender=st.sampled_from(("otto", "otto-cli", "vera", "mira", "otto-a-b", "verra")),
        scopes=st.sampled_from(SCOPES),
        ttl_s=st.sampled_from((None, 30, 3600, 6 * 3600)),
    )
    def mint(
        self, by: Actor | None, sender: str, scopes: tuple[str, ...], ttl_s: int | None
    ) -> None:
        act = MintToken(sender, None, scopes, ttl_s)
        by_whom = self.by(by)
        self.tell(by_whom, act._replace(token_hash=token_format.hashed(self.new_token())))

    @step(
        "identity",
        by=st.none() | actors,
        of=actors,
        how=st.sampled_from(("rotate", "rotate", "revoke", "revoke all")),
    )
    def retire(self, by: Actor | None, of: Actor, how: str) -> None:
        token = self.token_of(of)
        sender = self.model.tokens[id_of(token)].sender if id_of(token) in self.model.tokens else ""
        if how == "revoke all":
            self.tell(self.by(by), RevokeToken(sender=sender or "unknown"))
        elif how == "revoke":
            self.tell(self.by(by), RevokeToken(id=id_of(token)))
        else:
            self.rotate(token, self.by(by))

    def rotate(self, token: str, by: Credentials) -> None:
        """Rotate a token. The model predicts of the new expiry only that it is in the future."""
        self.settle()
        old = self.model.tokens.get(id_of(token))
        if old is not None and old.expires_at is not None and old.expires_at <= self.model.now:
            return
        hash = token_format.hashed(self.new_token())
        answer = self.tell(by, RotateToken(id=id_of(token), token_hash=hash))
        if old is None or answer is None:
            return
        ends = ms(answer["expires_at"]) if "expires_at" in answer else None
        assert (ends is None) == (old.expires_at is None)
        assert ends is None or ends > self.model.now
        assert set(answer["scopes"]) == old.scopes
        self.model.tokens[answer["id"]].expires_at = ends

    @step(
        "identity",
        2,
        by=actors,
        says=claimed_senders,
        verb=st.sampled_from((StartSession, EndSession, KeepSession)),
        session=st.sampled_from(SESSIONS),
    )
    def use_session(self, by: Actor, says: str | None, verb: Any, session: str) -> None:
        self.tell(self.by(by, session, says), verb(session))

    # --- mail

    @step(
        "mail",
        4,
        by=actors,
        session=sessions,
        says=claimed_senders,
        to=st.sampled_from(RECIPIENTS),
        type=st.sampled_from(("send", "ask")),
        text=st.sampled_from(("ready", "Grüße, 日本 🚦", "x" * 3000)),
        act_key=st.sampled_from((None, None, "k1", "k2")),
        ttl_s=st.sampled_from((None, None, 45, 3600)),
        reply_to=st.none() | indices,
    )
    def send(
        self,
        by: Actor,
        session: str | None,
        says: str | None,
        to: str,
        type: str,
        text: str,
        act_key: str | None,
        ttl_s: int | None,
        reply_to: int | None,
    ) -> None:
        payload = {"question" if type == "ask" else "text": text}
        about = self.model.messages and reply_to is not None and self.latest(reply_to).id
        act = SendMessage(to, payload, type, reply_to=about or None, key=act_key, ttl_s=ttl_s)
        credentials = self.by(by, session, says)
        if self.tell(credentials, act) and act_key is not None:
            self.sent_with_key.append((credentials, act))

    @step("mail", which=indices, otherwise=rarely)
    def send_again(self, which: int, otherwise: bool) -> None:
        """Send a request again with the same key, as after a lost answer, or change it."""
        if not self.sent_with_key:
            return
        by, act = self.sent_with_key[which % len(self.sent_with_key)]
        self.tell(by, act._replace(priority="high") if otherwise else act)

    @step(
        "mail",
        6,
        which=indices,
        surface=indices,
        stranger=st.none() | st.none() | st.none() | actors,
        how=st.sampled_from(("list", "read", "ack", "decline", "answer", "answer again", "redact")),
    )
    def handle(self, which: int, surface: int, stranger: Actor | None, how: str) -> None:
        """Handle a message as one of its recipients, or as another sender."""
        if not self.model.messages:
            return
        message = self.latest(which)
        recipients = [
            sender
            for sender, agent in self.model.senders.items()
            if {sender, agent} & set(message.deliveries)
        ]
        token = self.good_token(recipients[surface % len(recipients)]) if recipients else None
        if stranger is not None:
            token = self.token_of(stranger)
        if token is not None:
            handling = {
                "list": ListInbox(),
                "read": ReadMessage(message.id),
                "ack": AckMessages((message.id,), note="done"),
                "decline": AckMessages((message.id, self.latest(which + 1).id), decline=True),
                "answer": AnswerAsk(message.id, "yes"),
                "answer again": AnswerAsk(message.id, "yes", key="again"),
                "redact": Redact(message.id, "a secret"),
            }
            self.tell(Credentials(token=token), handling[how])

    @step("mail", which=indices)
    def check_sent_mail(self, which: int) -> None:
        """Read a sent message and its answer as its sender."""
        if not self.model.messages:
            return
        message = self.latest(which)
        if token := self.good_token(message.sender):
            self.tell(Credentials(token=token), FindAnswer(message.id))
            self.tell(Credentials(token=token), ReadMessage(message.id))

    @step(
        "mail",
        by=actors,
        says=claimed_senders,
        which=st.sampled_from(("open", "open", "all")),
        limit=st.sampled_from((1, 3, 100)),
    )
    def list_mail(self, by: Actor, says: str | None, which: Any, limit: int) -> None:
        self.tell(self.by(by, None, says), ListInbox(which, limit))
        self.tell(self.by(by), Whoami())

    def latest(self, which: int) -> Message:
        return list(self.model.messages.values())[-1 - which % len(self.model.messages)]

    # --- claims

    @step(
        "claims",
        2,
        by=actors,
        session=sessions,
        says=claimed_senders,
        on=targets,
        ttl_s=leases,
        wait_s=st.sampled_from((None, None, 5, 600)),
    )
    def acquire(
        self,
        by: Actor,
        session: str | None,
        says: str | None,
        on: On,
        ttl_s: int,
        wait_s: int | None,
    ) -> None:
        act = AcquireClaim(**on, ttl_s=ttl_s, wait_s=wait_s)
        self.tell(self.by(by, session, says), act)

    @step(
        "claims",
        by=actors,
        session=sessions,
        on=targets,
        fence=st.none() | st.integers(1, 20),
        verb=st.sampled_from((RenewClaim, ReleaseClaim)),
    )
    def renew_or_release(
        self, by: Actor, session: str | None, on: On, fence: int | None, verb: Any
    ) -> None:
        """Renew or release a claim as any actor, with or without a fence. Check the holder."""
        self.tell(self.by(by, session), verb(**on, fence=fence))
        self.tell(OWNER, CheckClaim(**on))

    @step(
        "claims",
        3,
        which=indices,
        how=st.sampled_from(("acquire", "renew", "release", "keep")),
        ttl_s=leases,
    )
    def use_own_claim(self, which: int, how: str, ttl_s: int) -> None:
        """Acquire, renew or release a claim again as its holder, or keep its session."""
        if not self.model.claims:
            return
        claim = self.model.claims[which % len(self.model.claims)]
        sender, session = claim.holder
        if token := self.good_token(sender):
            on = on_what(claim.target)
            requests = {
                "acquire": AcquireClaim(**on, ttl_s=ttl_s),
                "renew": RenewClaim(**on, ttl_s=ttl_s, fence=claim.fence),
                "release": ReleaseClaim(**on, fence=claim.fence),
                "keep": KeepSession(session or "s1"),
            }
            self.tell(Credentials(token=token, session=session), requests[how])

    @step(
        "claims",
        3,
        which=indices,
        by=actors,
        session=sessions,
        how=st.sampled_from(("wait", "wait", "wait a little", "stop waiting", "take over")),
    )
    def compete_for_claim(self, which: int, by: Actor, session: str | None, how: str) -> None:
        if not self.model.claims:
            return
        claim = self.model.claims[which % len(self.model.claims)]
        on = on_what(claim.target)
        credentials = self.by(by, session)
        if how == "take over":
            self.take_over(credentials, claim.target, on)
        elif how == "stop waiting":
            self.tell(credentials, StopWaiting(**on))
        else:
            wait_s = 5 if how == "wait a little" else 600
            self.tell(credentials, AcquireClaim(**on, wait_s=wait_s))

    def take_over(self, by: Credentials, target: Target, on: On) -> None:
        """Take a claim over. Skip cases whose outcome the model does not predict: claims of paths
        while callers wait in a queue, and paths that meet several claims."""
        if target.paths and (self.model.waiting or len(self.model.meeting(target)) > 1):
            return
        self.tell(by, StopWaiting(**on))
        self.tell(by, TakeOverClaim("the build is red", **on))
        if mira := self.good_token("mira"):
            by = Credentials(token=mira)
            self.tell(by, StopWaiting(**on))
            self.tell(by, TakeOverClaim("a person says so", **on))

    # --- the workspace and its clock

    @step(
        "workspace",
        2,
        by=st.none() | actors,
        how=st.sampled_from(("strict", "open", "pause", "group")),
        name=st.sampled_from(("devs", "ops", "vera")),
        members=st.lists(st.sampled_from(("otto-cli", "vera-cli", "mira")), min_size=1),
        steps=st.integers(1, 4),
    )
    def manage(self, by: Actor | None, how: str, name: str, members: list[str], steps: int) -> None:
        """Change the rule for recipients or a group, or pause the workspace for a few steps."""
        managing = {
            "strict": ChangeSetting("recipients", "strict"),
            "open": ChangeSetting("recipients", "open"),
            "pause": Pause("an inspection"),
            "group": CreateGroup(name, tuple(members)),
        }
        self.steps_of_pause = steps
        self.tell(self.by(by), managing[how])

    @step("clock", 3, seconds=st.sampled_from((0.001, 0.007, 1, 8, 25, 61, 1800, 3660)))
    def tick(self, seconds: float) -> None:
        """Advance the clock. While it is behind the log, log time advances at half speed."""
        before, by = self.log_time(), int(seconds * SECOND)
        self.clock.ms += by
        now = self.log_time()
        if self.clock.ms < self.last_at:
            assert by // 2 <= now - before <= by // 2 + 1
        else:
            assert now >= self.clock.ms
        self.settle()

    @step("clock", hours=st.sampled_from((-5, -2, -1, 1, 2, 5)))
    def jump(self, hours: int) -> None:
        """Set the clock. The next turn notices it, even if it writes nothing."""
        self.clock.ms += hours * HOUR
        assert self.log_time() >= self.last_at
        self.settle()
        current = "strict" if self.model.strict else "open"
        self.tell(OWNER, ChangeSetting("recipients", current))

    def log_time(self) -> int:
        with self.node.file.reading() as db:
            return self.node.engine.now(self.node.engine.head(db))

    @step("workspace", opens_again=st.booleans())
    def use_other_node(self, opens_again: bool) -> None:
        self.node, self.other = self.other, self.node
        if opens_again:
            self.node.close()
            self.node = Node(self.node.directory, clock=self.clock)
        catch_up(self.node)

    # --- one rule for each room

    @rule(step=st.one_of(STEPS["identity"]))
    def identity_step(self, step: Step) -> None:
        self.take([step])

    @rule(steps=st.lists(st.one_of(STEPS["mail"]), min_size=2, max_size=6))
    def mail_steps(self, steps: list[Step]) -> None:
        self.take(steps)

    @rule(steps=st.lists(st.one_of(STEPS["claims"]), min_size=2, max_size=6))
    def claim_steps(self, steps: list[Step]) -> None:
        self.take(steps)

    @rule(step=st.one_of(STEPS["workspace"]))
    def workspace_step(self, step: Step) -> None:
        self.take([step])

    @rule(step=st.one_of(STEPS["clock"]))
    def clock_step(self, step: Step) -> None:
        self.take([step])

    def take(self, steps: list[Step]) -> None:
        for name, drawn in steps:
            getattr(self, name)(**drawn)
            self.check_that_no_claim_has_two_holders()

    # --- invariants

    @invariant()
    def end_pause(self) -> None:
        self.steps_of_pause -= 1
        if self.model.paused and self.steps_of_pause < 0:
            self.tell(OWNER, Resume())

    def check_that_no_claim_has_two_holders(self) -> None:
        listed = self.tell(OWNER, ListClaims())
        found = listed["claims"] if listed else []
        items = [claim["item"] for claim in found if "item" in claim]
        assert len(items) == len(set(items))
        for one in found:
            for other in found:
                if "paths" in one and "paths" in other and one["repo"] == other["repo"]:
                    own = (one["holder"], one.get("session"))
                    if own != (other["holder"], other.get("session")):
                        assert not covered(one["paths"]) & covered(other["paths"])

    @invariant()
    def check_mail_states(self) -> None:
        """Compare the states of mail with the model. Listing an inbox would change them."""
        with self.node.file.reading() as db:
            boxes = db.execute("SELECT recipient, open, unread FROM mail_boxes").fetchall()
            rows: list[Any] = db.execute(
                "SELECT recipient, seq, state, taken_by FROM mail_deliveries"
            ).fetchall()
        for name, open_, unread in boxes:
            assert (open_, unread) == self.model.counts(str(name)), name
        expected = {
            (name, message.seq): (delivery.state, delivery.taken_by)
            for message in self.model.messages.values()
            for name, delivery in message.deliveries.items()
        }
        assert {(row[0], row[1]): (row[2], row[3]) for row in rows} == expected
        for name, seq, state, _ in rows:
            before = self.reached.get((name, seq), "accepted")
            assert LADDER.index(state) >= LADDER.index(before)
            self.reached[name, seq] = state

    def teardown(self) -> None:
        try:
            self.settle()
            self.check_log_and_state()
        finally:
            self.node.close()
            self.other.close()
            shutil.rmtree(self.root)

    def check_log_and_state(self) -> None:
        verified = audit.verify(self.node)
        assert verified["ok"], verified
        assert verified["entries"] == self.model.seq
        digest = upkeep.state_digest(self.node)
        catch_up(self.other)
        assert upkeep.state_digest(self.other) == digest
        assert digest_of_second_node(self.node) == digest
        rebuilt = upkeep.rebuild(self.node, OWNER)
        assert (rebuilt["changed"], rebuilt["digest"]) == (False, digest)


def catch_up(node: Node) -> None:
    """Catch up, as a node does for a caller that sends the `seq` of an earlier answer."""
    if node.shared is not None:
        node.catch_up()


def digest_of_second_node(node: Node) -> str:
    """Return the state digest of a node that folds only a copy of the log."""
    with tempfile.TemporaryDirectory(prefix="interlock-second-") as directory:
        file = LogFile(directory)
        engine = SqliteEngine(file)
        with node.file.reading() as db, engine.turn():
            for seq, header in node.engine.follow(db, 0):
                salt, body = node.engine.body(db, seq) or (None, None)
                engine.append(Entry(seq, header, salt, body))
            engine.advance(node.engine.head(db))
        file.close()
        with Node(directory) as second:
            return upkeep.state_digest(second)


def numbered(number: int) -> str:
    return token_format.compose(number.to_bytes(token_format.SECRET_BYTES, "big"))


def id_of(token: str) -> str:
    return token_format.token_id(token_format.hashed(token))


def on_what(target: Target) -> On:
    if target.item is not None:
        return {"item": target.item}
    return {"paths": tuple(sorted(target.paths)), "repo": target.repo}


def covered(paths: list[str]) -> set[str]:
    return set().union(*(COVERS[path] for path in paths))


def ms(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def matches(expected: Any, found: Any) -> bool:
    """Whether the answer has all expected members. A member with None must be absent. Claims of one
    instant may be in any order."""
    if isinstance(expected, dict):
        return all(
            name not in found if value is None else name in found and matches(value, found[name])
            for name, value in expected.items()
        )
    if isinstance(expected, list):
        if expected and isinstance(expected[0], str):
            return sorted(expected) == sorted(found)
        if expected and isinstance(expected[0], dict):
            found = sorted(found, key=lambda row: int(row.get("fence", 0)))
        return len(expected) == len(found) and all(map(matches, expected, found))
    if isinstance(expected, int) and isinstance(found, str):
        return expected == ms(found)
    return bool(expected == found)


def run(examples: int) -> None:
    run_state_machine_as_test(
        Workspace,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_node_matches_the_model_while_the_clock_jumps() -> None:
    run(examples=25)


@pytest.mark.long
def test_node_matches_the_model_in_many_runs() -> None:
    run(examples=100)
