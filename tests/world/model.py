"""A model of a workspace with plain lists and dictionaries. It predicts answers and facts.

The model gets the log's time and a request, and returns the answer and the new facts of the log. It
shares no code with the rules. It cannot predict ids, so it learns them from the facts. The state
machine that drives the model skips requests for which the rules allow several answers.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.identity.token_format import hashed, token_id
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
from interlock.rooms.workspace.verbs import ChangeSetting, Pause, Resume, Whoami
from interlock.verbs.credentials import Credentials

Answer: TypeAlias = dict[str, Any]
Holder: TypeAlias = tuple[str, str | None]  # sender and session

BASIC = {"mail", "claim", "work"}
RESERVED = {"owner", "interlock"}
UNREAD = {"accepted", "shown"}
CLOSED = {"acked", "declined", "expired"}
RECORDED = {"IDENTITY_MISMATCH", "MISSING_SCOPE", "STALE_FENCE"}
REFUSALS_A_MINUTE = 20
HANDED_OVER_MS = 30_000

# The files that each glob covers, in a repository with only these files.
COVERS = {
    "src": {"src", "src/a.py", "src/b.py", "src/x/c.py"},
    "src/**": {"src", "src/a.py", "src/b.py", "src/x/c.py"},
    "src/*.py": {"src/a.py", "src/b.py"},
    "src/a.py": {"src/a.py"},
    "**/*.py": {"src/a.py", "src/b.py", "src/x/c.py"},
    "doc/*.md": {"doc/a.md", "doc/b.md"},
    "doc/a*.md": {"doc/a.md"},
}

NEEDS = {
    Join: "admin",
    CreateGroup: "admin",
    MintToken: "admin",
    RotateToken: "admin",
    RevokeToken: "admin",
    ChangeSetting: "admin",
    Pause: "admin",
    Resume: "admin",
    SendMessage: "mail",
    AnswerAsk: "mail",
    FindAnswer: "mail",
    ListInbox: "mail",
    ReadMessage: "mail",
    AckMessages: "mail",
    AcquireClaim: "claim",
    RenewClaim: "claim",
    ReleaseClaim: "claim",
    TakeOverClaim: "claim",
    StopWaiting: "claim",
}
READ_ONLY = {
    FindAnswer,
    ListInbox,
    ReadMessage,
    KeepSession,
    Whoami,
    CheckClaim,
    ListClaims,
}
WHILE_PAUSED = {Pause, Resume, RevokeToken}
FOR_THE_OWNER = {
    *(Join, CreateGroup, MintToken, RotateToken, RevokeToken),
    *(ChangeSetting, Pause, Resume, CheckClaim, ListClaims),
}


class Refused(Exception):
    """The model refuses the request with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Caller:
    sender: str
    agent: str
    kind: str
    scopes: frozenset[str]
    session: str | None = None

    @property
    def holder(self) -> Holder:
        return self.sender, self.session

    @property
    def boxes(self) -> set[str]:
        return {self.sender, self.agent}


OWNER = Caller("owner", "owner", "human", frozenset({"admin"}))


@dataclass
class Token:
    sender: str
    scopes: frozenset[str]
    expires_at: int | None
    revoked: bool = False


@dataclass
class Delivery:
    state: str = "accepted"
    taken_by: str | None = None


@dataclass
class Message:
    seq: int
    sender: str
    to: str
    type: str
    text: str
    deliveries: dict[str, Delivery]
    expires_at: int | None = None
    id: str = ""
    redacted: bool = False
    answer: int | None = None


@dataclass
class Target:
    """One item, or globs of one repository."""

    item: str | None
    repo: str | None
    paths: frozenset[str]

    def meets(self, other: "Target") -> bool:
        if self.item is not None or other.item is not None:
            return self.item == other.item
        return self.repo == other.repo and bool(self.files & other.files)

    @property
    def files(self) -> set[str]:
        return set().union(*(COVERS[path] for path in self.paths))


@dataclass
class Claim:
    holder: Holder
    target: Target
    fence: int
    ttl: int
    expires_at: int

    @property
    def essence(self) -> Answer:
        """The members that the view of the claim must have."""
        said: Answer = {"holder": "@" + self.holder[0], "session": self.holder[1]}
        said |= {"item": self.target.item, "repo": self.target.repo, "fence": self.fence}
        paths = sorted(self.target.paths) or None
        return said | {"paths": paths, "expires_at": self.expires_at}


@dataclass
class Waiter:
    holder: Holder
    target: Target
    lease: int


@dataclass
class Model:
    """See the module. `facts` are those of the last call: the kind and the expected members."""

    now: int = 0
    seq: int = 1
    facts: list[tuple[str, Answer]] = field(default_factory=list)
    paused: bool = False
    strict: bool = False
    agents: dict[str, str] = field(default_factory=dict)
    senders: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    sessions: dict[str, tuple[str, bool]] = field(default_factory=dict)
    refusals: list[tuple[str, int]] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[Any, int]] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    waiting: list[Waiter] = field(default_factory=list)
    fence: int = 0

    # --- the path of a request

    def pass_time(self, now: int) -> None:
        """Set the time, and record the expiries that the node records, unless it is paused."""
        self.now, self.facts = now, []
        if not self.paused:
            self._expire_mail()
            self._expire_claims()

    def call(self, credentials: Credentials, act: Any) -> Answer:
        """Return the answer, or raise `Refused`. Call `pass_time` before."""
        self.facts = []
        caller: Caller | None = None
        try:
            caller = self._authenticate(credentials, act)
            self._refuse_forged(caller, credentials.claimed)
            self._authorize(caller, act)
            return VERBS[type(act)](self, caller, act)
        except Refused as refused:
            assert not self.facts, "a refused request has recorded a fact"
            if caller is not None and refused.code in RECORDED and not self.paused:
                self._record_refusal(caller, refused.code)
            raise

    def _authenticate(self, credentials: Credentials, act: Any) -> Caller:
        if credentials.token is None:
            if credentials.owner and type(act) in FOR_THE_OWNER:
                return OWNER
            raise Refused("NO_IDENTITY")
        token = self.tokens.get(token_id(hashed(credentials.token)))
        if token is None or token.revoked:
            raise Refused("BAD_TOKEN")
        if token.expires_at is not None and token.expires_at <= self.now:
            raise Refused("TOKEN_EXPIRED")
        agent = self.senders[token.sender]
        kind = self.agents[agent]
        return Caller(token.sender, agent, kind, token.scopes, credentials.session)

    def _refuse_forged(self, caller: Caller, claimed: str | None) -> None:
        if caller is not OWNER and claimed is not None and claimed.lstrip("@") != caller.sender:
            raise Refused("IDENTITY_MISMATCH")
        if self.sessions.get(caller.session or "", (caller.sender, True))[0] != caller.sender:
            raise Refused("IDENTITY_MISMATCH")

    def _refuse_ended(self, caller: Caller) -> None:
        if not self.sessions.get(caller.session or "", (caller.sender, True))[1]:
            raise Refused("NOT_HOLDER")

    def _authorize(self, caller: Caller, act: Any) -> None:
        needed = NEEDS.get(type(act))
        if needed is not None and needed not in caller.scopes:
            raise Refused("MISSING_SCOPE")
        if self.paused and type(act) not in READ_ONLY | WHILE_PAUSED:
            raise Refused("PAUSED")

    def _record_refusal(self, caller: Caller, code: str) -> None:
        recent = [
            at for who, at in self.refusals if who == caller.sender and at > self.now - 60_000
        ]
        if len(recent) < REFUSALS_A_MINUTE:
            self.refusals.append((caller.sender, self.now))
            self._record("request_refused", code=code)

    def _record(self, fact: str, **said: Any) -> int:
        self.seq += 1
        self.facts.append((fact, said))
        return self.seq

    # --- the workspace

    def pause(self, caller: Caller, act: Pause) -> Answer:
        self._record("workspace_paused")
        self.paused = True
        return {"paused": True}

    def resume(self, caller: Caller, act: Resume) -> Answer:
        if self.paused:
            self._record("workspace_resumed")
        self.paused = False
        return {"paused": False}

    def change_setting(self, caller: Caller, act: ChangeSetting) -> Answer:
        assert act.name == "recipients"
        if self.strict != (act.value == "strict"):
            self._record("setting_changed", name=act.name, value=act.value)
            self.strict = act.value == "strict"
        return {"name": act.name, "value": act.value}

    # --- identity

    def join(self, caller: Caller, act: Join) -> Answer:
        sender = act.name if act.surface is None else f"{act.name}-{act.surface}"
        known = act.name in self.agents
        if (
            sender in self.senders
            or {act.name, sender} & (RESERVED | set(self.groups))
            or (not known and act.name in self.senders)
            or (act.surface is not None and sender in self.agents)
            or (known and act.kind not in (None, self.agents[act.name]))
        ):
            raise Refused("NAME_TAKEN")
        kind = self.agents.setdefault(act.name, act.kind or "agent")
        self.senders[sender] = act.name
        self._record("agent_joined", sender=sender, agent=act.name, kind=kind)
        self._mint(sender, act.token_hash, act.scopes, None)
        return {"sender": sender, "agent": act.name, "address": "@" + sender, "kind": kind}

    def _mint(
        self, sender: str, token_hash: str, asked: Iterable[str], expires_at: int | None
    ) -> None:
        scopes = frozenset(asked)
        scopes |= scopes & BASIC or BASIC
        self.tokens[token_id(token_hash)] = Token(sender, scopes, expires_at)
        self._record("token_minted", sender=sender, id=token_id(token_hash))

    def mint(self, caller: Caller, act: MintToken) -> Answer:
        if act.sender not in self.senders:
            raise Refused("UNKNOWN_SENDER")
        ends = self.now + act.ttl_s * 1000 if act.ttl_s is not None else None
        self._mint(act.sender, act.token_hash, act.scopes, ends)
        return {"sender": act.sender, "id": token_id(act.token_hash)}

    def _chosen(self, act: Any) -> list[str]:
        found = [
            id
            for id, token in self.tokens.items()
            if not token.revoked and (act.id == id or act.sender == token.sender)
        ]
        if not found:
            raise Refused("NOT_FOUND")
        return found

    def revoke(self, caller: Caller, act: RevokeToken) -> Answer:
        found = self._chosen(act)
        for id in found:
            self.tokens[id].revoked = True
            self._record("token_revoked", id=id)
        return {"revoked": found}

    def rotate(self, caller: Caller, act: RotateToken) -> Answer:
        found = self._chosen(act)
        old = self.tokens[found[-1]]
        self._mint(old.sender, act.token_hash, old.scopes, old.expires_at)
        for id in found:
            self.tokens[id].revoked = True
            self._record("token_revoked", id=id)
        return {"id": token_id(act.token_hash), "sender": old.sender, "replaced": found}

    def create_group(self, caller: Caller, act: CreateGroup) -> Answer:
        names = {*self.senders, *self.agents}
        if act.name in names | RESERVED:
            raise Refused("NAME_TAKEN")
        members = sorted(set(act.members))
        if not set(members) <= names:
            raise Refused("NOT_FOUND")
        self.groups[act.name] = members
        self._record("group_set", name=act.name, members=members)
        return {"name": act.name, "members": ["@" + member for member in members]}

    def start_session(self, caller: Caller, act: StartSession) -> Answer:
        known = self.sessions.get(act.id)
        if known is not None and known != (caller.sender, True):
            raise Refused("NAME_TAKEN")
        if known is None:
            self._record("session_started", session=act.id)
            self.sessions[act.id] = (caller.sender, True)
        return {"session": act.id, "sender": caller.sender}

    def end_session(self, caller: Caller, act: EndSession) -> Answer:
        if self.sessions.get(act.id) == (caller.sender, True):
            self._record("session_ended", session=act.id)
            self.sessions[act.id] = (caller.sender, False)
        holder = caller.sender, act.id
        given_up = [claim for claim in self.claims if claim.holder == holder]
        for claim in given_up:
            self._end(claim, "claim_released")
        self._leave(holder)
        self._serve()
        return {"ended": act.id, "released": [claim.essence for claim in given_up]}

    def keep_session(self, caller: Caller, act: KeepSession) -> Answer:
        for claim in self._live():
            low = claim.expires_at - self.now < claim.ttl // 2
            if claim.holder == (caller.sender, act.id) and low and not self.paused:
                self._extend(claim, claim.ttl)
        return {}

    def whoami(self, caller: Caller, act: Whoami) -> Answer:
        holder = caller.sender, caller.session
        held = [claim.essence for claim in self._live() if claim.holder == holder]
        who = {"sender": caller.sender, "agent": caller.agent, "scopes": sorted(caller.scopes)}
        return who | self._counts(caller.boxes) | {"claims": held}

    # --- mail

    def counts(self, box: str) -> tuple[int, int]:
        """Return the numbers of open and unread messages of one mailbox."""
        states = [m.deliveries[box].state for m in self.messages.values() if box in m.deliveries]
        return sum(s not in CLOSED for s in states), sum(s in UNREAD for s in states)

    def _counts(self, boxes: set[str]) -> Answer:
        counts = [self.counts(box) for box in boxes]
        return {"open": sum(c[0] for c in counts), "unread": sum(c[1] for c in counts)}

    def send(self, caller: Caller, act: SendMessage) -> Answer:
        before = self._done_before(caller, act)
        if before is not None:
            return self._accepted(before)
        recipients = self._recipients(caller, act.to)
        if act.reply_to is not None:
            self._locate(caller, act.reply_to)
        message = self._deliver(caller.sender, act, recipients)
        if act.key is not None:
            self.keys[caller.sender, act.key] = (act, message.seq)
        return self._accepted(message)

    def _done_before(self, caller: Caller, act: SendMessage) -> Message | None:
        if act.key is None or (caller.sender, act.key) not in self.keys:
            return None
        first, seq = self.keys[caller.sender, act.key]
        if first != act or self.messages[seq].redacted:
            raise Refused("IDEMPOTENCY_CONFLICT")
        return self.messages[seq]

    def _recipients(self, caller: Caller, to: str) -> list[str]:
        if to == "AGENT:*":
            return sorted(set(self.agents) - {caller.agent})
        if not re.fullmatch(r"@[A-Za-z0-9_-]{1,128}", to):
            raise Refused("INVALID_RECIPIENT_SHAPE")
        name = to[1:]
        if self._known(name):
            return [name]
        if name in self.groups:
            return [m for m in self.groups[name] if self._agent_of(m) != caller.agent]
        if self.strict:
            raise Refused("UNKNOWN_RECIPIENT")
        return [name]

    def _known(self, name: str) -> bool:
        return name in self.senders or name in self.agents

    def _agent_of(self, sender: str) -> str:
        return self.senders.get(sender, sender)

    def _deliver(self, sender: str, act: SendMessage, recipients: list[str]) -> Message:
        ends = self.now + act.ttl_s * 1000 if act.ttl_s is not None else None
        text = act.payload.get("text") or act.payload["question"]
        boxes = {name: Delivery() for name in recipients}
        seq = self._record("message_sent", to=act.to, type=act.type, deliveries=recipients)
        self.messages[seq] = Message(seq, sender, act.to, act.type, text, boxes, ends)
        return self.messages[seq]

    def _notify(self, recipient: str, text: str) -> None:
        note = SendMessage("@" + recipient, {"text": text}, "send")
        self._deliver("interlock", note, [recipient])

    def _accepted(self, message: Message) -> Answer:
        return {
            "accepted": True,
            "message": self._envelope(message),
            "deliveries": [
                {"recipient": "@" + name, "known": self._known(name), "state": delivery.state}
                for name, delivery in message.deliveries.items()
            ],
            "notices": [
                {"code": "UNKNOWN_RECIPIENT"}
                for name in message.deliveries
                if not self._known(name)
            ],
        }

    def _envelope(self, message: Message) -> Answer:
        said = {"seq": message.seq, "type": message.type, "to": message.to}
        return said | {"source": f"agent:{message.sender}", "from": "@" + message.sender}

    def _locate(self, caller: Caller, id: str, *, of_all: bool = False) -> Message:
        for message in self.messages.values():
            seen = of_all or self._mine(caller, message) or self._sent_by(caller, message)
            if message.id == id and seen:
                return message
        raise Refused("NOT_FOUND")

    def _mine(self, caller: Caller, message: Message) -> dict[str, Delivery]:
        found = message.deliveries
        return {name: found[name] for name in sorted(caller.boxes) if name in found}

    def _sent_by(self, caller: Caller, message: Message) -> bool:
        return self._agent_of(message.sender) == caller.agent

    def _move(self, items: Iterable[tuple[Message, str]], state: str, by: str | None) -> None:
        moved = list(items)
        self._record("mail_moved", state=state, items=[[m.seq, name] for m, name in moved])
        for message, name in moved:
            delivery = message.deliveries[name]
            delivery.state = state
            if by is not None and state != "shown" and delivery.taken_by is None:
                delivery.taken_by = by

    def inbox(self, caller: Caller, act: ListInbox) -> Answer:
        rows = [
            (message, name, delivery)
            for message in self.messages.values()
            for name, delivery in self._mine(caller, message).items()
            if act.which == "all" or delivery.state not in CLOSED
        ]
        shown, rest = rows[: act.limit], rows[act.limit :]
        fresh = [(message, name) for message, name, d in shown if d.state == "accepted"]
        if fresh and not self.paused:
            self._move(fresh, "shown", caller.sender)
        messages = [
            self._envelope(message) | {"taken_by": self._taken_by(caller, delivery)}
            for message, _, delivery in shown
        ]
        following = shown[-1][0].seq if rest else None
        return {"messages": messages, "next": following} | self._counts(caller.boxes)

    def _taken_by(self, caller: Caller, delivery: Delivery) -> str | None:
        taken = delivery.taken_by
        return "@" + taken if taken not in (None, caller.sender) else None

    def read(self, caller: Caller, act: ReadMessage) -> Answer:
        message = self._locate(caller, act.message)
        mine = self._mine(caller, message)
        for name, delivery in mine.items():
            if delivery.state in UNREAD and not self.paused:
                self._move([(message, name)], "read", caller.sender)
        taken = [delivery for delivery in mine.values() if delivery.taken_by is not None]
        said = self._envelope(message)
        said["taken_by"] = self._taken_by(caller, taken[0]) if taken else None
        if message.sender != "interlock":
            main = "question" if message.type == "ask" else "text"
            said["payload"] = None if message.redacted else {main: message.text}
        return said

    def ack(self, caller: Caller, act: AckMessages) -> Answer:
        found = [self._locate(caller, id) for id in act.messages]
        if not all(self._mine(caller, message) for message in found):
            raise Refused("NOT_FOUND")
        open_ones = {
            (message.seq, name): (message, name)
            for message in found
            for name, delivery in self._mine(caller, message).items()
            if delivery.state not in CLOSED
        }
        state = "declined" if act.decline else "acked"
        if open_ones:
            self._move(open_ones.values(), state, caller.sender)
        return {state: list(act.messages)} if len(open_ones) == len(found) else {}

    def answer(self, caller: Caller, act: AnswerAsk) -> Answer:
        ask = self._locate(caller, act.message)
        if ask.type != "ask":
            raise Refused("INVALID_MESSAGE")
        payload = {"text": act.text, "ask": ask.id}
        sent = SendMessage("@" + ask.sender, payload, "answer", key=act.key)
        before = self._done_before(caller, sent)
        if before is not None:
            return self._accepted(before)
        mine = self._mine(caller, ask)
        if not mine:
            raise Refused("INVALID_MESSAGE")
        message = self._deliver(caller.sender, sent, [ask.sender])
        if act.key is not None:
            self.keys[caller.sender, act.key] = (sent, message.seq)
        answer = self._accepted(message)
        ask.answer = ask.answer or message.seq
        handled = [(ask, name) for name, d in mine.items() if d.state not in CLOSED]
        if handled:
            self._move(handled, "acked", caller.sender)
        return answer

    def find_answer(self, caller: Caller, act: FindAnswer) -> Answer:
        ask = self._locate(caller, act.message)
        if ask.answer is None:
            return {"answered": False}
        return {"answered": True, "answer": self._envelope(self.messages[ask.answer])}

    def redact(self, caller: Caller, act: Redact) -> Answer:
        message = self._locate(caller, act.message, of_all="admin" in caller.scopes)
        if "admin" not in caller.scopes and not self._sent_by(caller, message):
            raise Refused("MISSING_SCOPE")
        if not message.redacted:
            self._record("body_redacted", target=message.seq)
        message.redacted = True
        return {"redacted": True, "seq": message.seq}

    def _expire_mail(self) -> None:
        due = [
            (message.expires_at, message.seq, name)
            for message in self.messages.values()
            for name, delivery in message.deliveries.items()
            if delivery.state in UNREAD
            if message.expires_at is not None and message.expires_at <= self.now
        ]
        if not due:
            return
        items = [(self.messages[seq], name) for _, seq, name in sorted(due)]
        self._move(items, "expired", None)
        for message, _ in items:
            self._notify(message.sender, "expired")

    # --- claims

    def _live(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.expires_at > self.now]

    def meeting(self, target: Target) -> list[Claim]:
        return [claim for claim in self._live() if claim.target.meets(target)]

    def _split(self, holder: Holder, target: Target) -> tuple[Claim | None, list[Claim]]:
        found = self.meeting(target)
        mine = [claim for claim in found if claim.holder == holder and claim.target == target]
        return mine[0] if mine else None, [claim for claim in found if claim.holder != holder]

    def acquire(self, caller: Caller, act: AcquireClaim) -> Answer:
        self._refuse_ended(caller)
        target = target_of(act)
        mine, others = self._split(caller.holder, target)
        if mine is not None:
            self._extend(mine, act.ttl_s * 1000)
            return {"acquired": True, "claim": mine.essence}
        ahead = self._ahead(caller.holder, target)
        if others or ahead:
            if act.wait_s is not None:
                self._wait(caller.holder, target, act.wait_s)
            held_by = [claim.essence for claim in others]
            queued = len(ahead) or None
            no = {"acquired": False, "code": "CLAIM_HELD", "error": "Claim held"}
            return no | {"held_by": held_by, "queued": queued}
        self._leave(caller.holder, target)
        return {"acquired": True, "claim": self._grant(caller.holder, target, act.ttl_s * 1000)}

    def _grant(self, holder: Holder, target: Target, ttl: int) -> Answer:
        self.fence += 1
        claim = Claim(holder, target, self.fence, ttl, self.now + ttl)
        self.claims.append(claim)
        self._record("claim_granted", sender=holder[0], fence=self.fence, ttl=ttl)
        return claim.essence

    def _extend(self, claim: Claim, ttl: int) -> None:
        claim.ttl, claim.expires_at = ttl, max(claim.expires_at, self.now + ttl)
        self._record("claim_extended", expires_at=claim.expires_at)

    def _end(self, claim: Claim, kind: str) -> None:
        self.claims.remove(claim)
        self._record(kind)

    def renew(self, caller: Caller, act: RenewClaim) -> Answer:
        claim = self._own(caller, target_of(act), act.fence)
        self._extend(claim, act.ttl_s * 1000)
        return {"renewed": True, "claim": claim.essence}

    def _own(self, caller: Caller, target: Target, fence: int | None) -> Claim:
        mine, _ = self._split(caller.holder, target)
        if fence is not None and (mine is None or mine.fence != fence):
            raise Refused("STALE_FENCE")
        if mine is None:
            raise Refused("NOT_HOLDER")
        return mine

    def release(self, caller: Caller, act: ReleaseClaim) -> Answer:
        target = target_of(act)
        if self._split(caller.holder, target) == (None, []) and act.fence is None:
            return {"released": False}
        self._end(self._own(caller, target, act.fence), "claim_released")
        self._serve()
        return {"released": True}

    def take_over(self, caller: Caller, act: TakeOverClaim) -> Answer:
        if caller.kind != "human" and "admin" not in caller.scopes:
            raise Refused("MISSING_SCOPE")
        self._refuse_ended(caller)
        target = target_of(act)
        mine, others = self._split(caller.holder, target)
        if mine is None and not others:
            raise Refused("NOT_FOUND")
        if mine is not None:
            self._end(mine, "claim_released")
        for claim in others:
            self._end(claim, "claim_released")
            self._notify(claim.holder[0], "taken over")
        taken_from = ["@" + claim.holder[0] for claim in others]
        claim_now = self._grant(caller.holder, target, act.ttl_s * 1000)
        return {"acquired": True, "claim": claim_now, "taken_from": taken_from}

    def check_claim(self, caller: Caller, act: CheckClaim) -> Answer:
        found = [claim.essence for claim in self.meeting(target_of(act))]
        return {"claimed": bool(found), "claims": found}

    def list_claims(self, caller: Caller, act: ListClaims) -> Answer:
        return {"claims": [claim.essence for claim in self._live()]}

    def _ahead(self, holder: Holder, target: Target) -> list[Waiter]:
        queue = [w for w in self.waiting if w.lease > self.now and w.target.meets(target)]
        mine = [w for w in queue if w.holder == holder and w.target == target]
        before = queue[: queue.index(mine[0])] if mine else queue
        return [waiter for waiter in before if waiter.holder != holder]

    def _wait(self, holder: Holder, target: Target, wait_s: int) -> None:
        lease = self.now + min(HANDED_OVER_MS, wait_s * 1000 + 1000)
        for waiter in self.waiting:
            if (waiter.holder, waiter.target) == (holder, target) and waiter.lease > self.now:
                low = waiter.lease - self.now < HANDED_OVER_MS // 2
                if low and lease - self.now > HANDED_OVER_MS // 2:
                    waiter.lease = lease
                    self._record("claim_wait_extended", lease=lease)
                return
        self.waiting.append(Waiter(holder, target, lease))
        self._record("claim_awaited", sender=holder[0], lease=lease)

    def _leave(self, holder: Holder, target: Target | None = None) -> None:
        for waiter in list(self.waiting):
            if waiter.holder == holder and target in (None, waiter.target):
                self._stop(waiter)

    def _stop(self, waiter: Waiter) -> None:
        self.waiting.remove(waiter)
        self._record("claim_wait_ended")

    def stop_waiting(self, caller: Caller, act: StopWaiting) -> Answer:
        self._leave(caller.holder, target_of(act))
        self._serve()
        return {"waiting": False}

    def _expire_claims(self) -> None:
        ended = [claim for claim in self.claims if claim.expires_at <= self.now]
        for claim in ended:
            self._end(claim, "claim_expired")
        if ended:
            self._serve()

    def _serve(self) -> None:
        """Grant free targets in the order of the queue. No waiter overtakes an earlier one."""
        blocked: list[Waiter] = []
        for waiter in list(self.waiting):
            if waiter.lease <= self.now:
                self._stop(waiter)
                continue
            waited = [w for w in blocked if w.target.meets(waiter.target)]
            held = self.meeting(waiter.target)
            holders = {each.holder for each in held} | {each.holder for each in waited}
            if holders - {waiter.holder}:
                blocked.append(waiter)
                continue
            self._stop(waiter)
            self._grant(waiter.holder, waiter.target, HANDED_OVER_MS)


def target_of(act: Any) -> Target:
    return Target(act.item, act.repo, frozenset(act.paths))


VERBS: dict[type, Callable[[Model, Caller, Any], Answer]] = {
    Pause: Model.pause,
    Resume: Model.resume,
    ChangeSetting: Model.change_setting,
    Join: Model.join,
    MintToken: Model.mint,
    RevokeToken: Model.revoke,
    RotateToken: Model.rotate,
    CreateGroup: Model.create_group,
    StartSession: Model.start_session,
    EndSession: Model.end_session,
    KeepSession: Model.keep_session,
    Whoami: Model.whoami,
    SendMessage: Model.send,
    ListInbox: Model.inbox,
    ReadMessage: Model.read,
    AckMessages: Model.ack,
    AnswerAsk: Model.answer,
    FindAnswer: Model.find_answer,
    Redact: Model.redact,
    AcquireClaim: Model.acquire,
    RenewClaim: Model.renew,
    ReleaseClaim: Model.release,
    TakeOverClaim: Model.take_over,
    StopWaiting: Model.stop_waiting,
    CheckClaim: Model.check_claim,
    ListClaims: Model.list_claims,
}
