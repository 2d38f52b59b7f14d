"""The stations of an act: validated, authenticated, authorized, decided.

Each has a type of its own that only the one before leads to, so that skipping one does not
type-check. Validation needs no state and comes before the turn; the others stand at the head.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.contracts.acts import Credentials
from interlock.contracts.checks import checked, session
from interlock.contracts.tokens import hashed
from interlock.errors import EngineUnavailable, MissingScope, NoIdentity, Refusal
from interlock.node.batch import Batch
from interlock.node.verbs import VERBS, Verb
from interlock.rooms.identity.sessions import refuse_foreign
from interlock.rooms.identity.tokens import authenticate, refuse_elsewhere, refuse_mismatch
from interlock.rooms.transaction import NOBODY_CALLER, OWNER_CALLER, Answer, Caller, Transaction
from interlock.rooms.workspace.refusals import record_refusal
from interlock.rooms.workspace.rules import is_paused, refuse_paused


class Validated(NamedTuple):
    """An act whose shape is right, whoever asks."""

    verb: Verb
    act: Any


class Authenticated(NamedTuple):
    """A valid act, and who asks, at this position of the log."""

    validated: Validated
    caller: Caller


class Authorized(NamedTuple):
    """An act that the caller may do, at this position of the log."""

    verb: Verb
    act: Any
    caller: Caller


def validate(credentials: Credentials, act: Any) -> Validated:
    """Whether the request has the shape that its verb asks for."""
    if credentials.session is not None:
        session(credentials.session)
    return Validated(VERBS[type(act)], checked(act))


def identify(tx: Transaction, credentials: Credentials, validated: Validated) -> Authenticated:
    """Who acts, from the token alone; a sender that was named must not contradict it."""
    verb = validated.verb
    if verb.anyone:
        tx.caller = caller = NOBODY_CALLER
    elif credentials.token is not None:
        shown = credentials.session
        caller = authenticate(tx.state, tx.now, hashed(credentials.token), shown)
        tx.caller = caller
        refuse_elsewhere(caller, credentials.audience)
        refuse_mismatch(caller, credentials.claimed)
        refuse_foreign(tx, caller)
    elif credentials.owner and (verb.owner or verb.open):
        caller = OWNER_CALLER
        refuse_mismatch(caller, credentials.claimed)
    else:
        raise NoIdentity
    return Authenticated(validated, caller)


def authorize(tx: Transaction, authenticated: Authenticated) -> Authorized:
    """Whether the token's scopes allow the act."""
    (verb, act), caller = authenticated
    if verb.scope is not None and verb.scope not in caller.scopes:
        raise MissingScope(
            f"{verb.name} needs the scope {verb.scope}, and @{caller.sender}'s token has "
            f"{', '.join(sorted(caller.scopes)) or 'none'}.",
            scope=verb.scope,
        )
    if not (verb.looks or verb.when_paused):
        refuse_paused(tx.state)
    return Authorized(verb, act, caller)


def decide(tx: Transaction, authorized: Authorized) -> Answer:
    tx.caller = authorized.caller
    return authorized.verb.decide(tx, authorized.act)


class WriteRequest:
    """An act on its way through the turn; remembers who was refused, and why."""

    def __init__(
        self,
        credentials: Credentials,
        validated: Validated,
        fingerprint: Callable[[bytes], str],
        not_after: float | None = None,
    ) -> None:
        """What is decided `not_after` a moment of the monotonic clock is refused after it: whoever
        asked has gone."""
        self._credentials = credentials
        self._validated = validated
        self._fingerprint = fingerprint
        self._not_after = not_after
        self.transaction: Transaction | None = None
        self.refusal: Refusal | None = None

    @property
    def act(self) -> Any:
        return self._validated.act

    @property
    def peer(self) -> str | None:
        return self._credentials.peer

    def __call__(self, turn: Batch) -> Answer:
        if self._not_after is not None and time.monotonic() > self._not_after:
            raise EngineUnavailable("Nobody waits for this any more, and nothing was done.")
        self.transaction = tx = turn.transaction(OWNER_CALLER)
        authenticated = identify(tx, self._credentials, self._validated)
        return decide(tx, authorize(tx, authenticated))

    def record_refusal(self, turn: Batch) -> None:
        """Records a refusal that matters, with a keyed digest of the request and never its body:
        whoever has only the log cannot even confirm a guess of it."""
        if self.transaction is None or self.refusal is None or is_paused(turn.db):
            return
        said = f"{self._validated.verb.name} {self._validated.act!r}".encode()
        digest = self._fingerprint(said)
        record_refusal(turn.transaction(self.transaction.caller), self.refusal.code, digest)
