"""The path of every request, from a door to the disk.

    submit ─ validate ─┬─ Read ── authenticate → authorize → decide
                       └─ Write ─ queue → transaction ─ authenticate → authorize → decide
                                                          → append → fold → COMMIT → answer

Only `validate` makes a `Validated` request, and only `decide` calls its rule. Therefore no path
skips a stage.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from interlock.errors import EngineUnavailable, MissingScope, NoIdentity, NotAvailable, Refusal
from interlock.node.batch import Batch
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.tokens import (
    OWNER_NEEDS_SENDER,
    authenticate,
    refuse_elsewhere,
    refuse_foreign_session,
    refuse_mismatch,
    to_mint,
)
from interlock.rooms.transaction import (
    ANONYMOUS_CALLER,
    OWNER_CALLER,
    Caller,
    Transaction,
    is_paused,
    record_refusal,
    refuse_paused,
)
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import Flow
from interlock.verbs.types import SESSION_ID
from interlock.verbs.verb import Verb, validated

# A hook stops waiting after eight seconds. The node must not count mail as shown that the hook did
# not receive.
ATTEND_TIMEOUT_S = 6.0


class Validated(NamedTuple):
    """A request of the right shape, from any caller. Only `validate` makes one."""

    request: Verb
    credentials: Credentials


class Read(NamedTuple):
    """Decide a request in a read transaction. The result is None if the request must append a fact.
    A `stale` read answers a caller while the engine is unavailable."""

    valid: Validated
    stale: bool = False


class Write(NamedTuple):
    """Decide a request in the write transaction. The result is durable."""

    write: "WriteRequest"


class Maintenance(NamedTuple):
    """Run a verb about the log itself, without a rule of a room: see `node.upkeep`."""

    valid: Validated


def submit(
    credentials: Credentials, request: Verb, fingerprint: Callable[[bytes], str]
) -> Flow[Answer]:
    """The path of every request: from commands without a server, from the event loop, and on a node
    of a shared engine. Returns the answer, or raises Refusal.

    `Node.call` runs this flow in a thread, and `LiveNode.call` on the event loop. A verb that waits
    is a flow of requests (`node.flows`), and each of them takes this path. A refused request leaves
    no fact, except for a refusal that matters to an auditor."""
    # The check of the shape needs no state, so a malformed request costs no transaction.
    valid = validate(credentials, request)
    if request.declared.maintenance:
        return (yield Maintenance(valid))
    # Most reads append nothing. The node decides them concurrently with writes.
    read_only = request.declared.read_only
    if read_only and (answer := (yield Read(valid))) is not None:
        return answer
    # The write queue commits this write together with other writes, and answers after COMMIT.
    write = WriteRequest(valid, fingerprint)
    try:
        return (yield Write(write))
    except NotAvailable:
        # The engine accepts no writes. Answer a read from the local state, without a receipt.
        stale = (yield Read(valid, stale=True)) if read_only else None
        if stale is None:
            raise
        return stale


def validate(credentials: Credentials, request: Verb) -> Validated:
    """Check the shape of a request. Raises Usage, InvalidMessage or TooLarge."""
    if credentials.session is not None:
        SESSION_ID.check("session", credentials.session)
    return Validated(validated(request), credentials)


def decide(tx: Transaction, valid: Validated) -> Answer:
    """Authenticate, authorize and decide a request at one position of the log. The rule appends
    facts, and the batch folds each of them at once."""
    request, credentials = valid
    declared = request.declared
    # Authenticate. Only the token decides the caller. A sender that the request names must match.
    if declared.anyone:
        tx.caller = ANONYMOUS_CALLER
    elif credentials.token is not None:
        token_hash = hashed(credentials.token)
        tx.caller = authenticate(tx.state, tx.now, token_hash, credentials.session)
        refuse_elsewhere(tx.caller, credentials.audience)
        refuse_mismatch(tx.caller, credentials.claimed)
        refuse_foreign_session(tx, tx.caller)
    elif credentials.owner and (declared.owner or declared.open):
        refuse_mismatch(OWNER_CALLER, credentials.claimed)
        tx.caller = OWNER_CALLER
    elif credentials.owner:
        raise NoIdentity("No identity given.", OWNER_NEEDS_SENDER)
    else:
        raise NoIdentity

    # Authorize: the token needs the scope, and the workspace must not be paused.
    caller = tx.caller
    if declared.scope is not None and declared.scope not in caller.scopes:
        scopes = sorted(caller.scopes)
        raise MissingScope(
            f"This request needs the scope {declared.scope}. The token of @{caller.sender} has "
            f"{', '.join(scopes) or 'no scopes'}. An admin or the owner can mint another token:",
            to_mint(caller.sender, (*scopes, declared.scope)),
            scope=declared.scope,
        )
    if not (declared.read_only or declared.when_paused):
        refuse_paused(tx.state)

    return request.decide(tx)


class WriteRequest:
    """A request in the write transaction. If its batch starts again, it is decided again."""

    def __init__(self, valid: Validated, fingerprint: Callable[[bytes], str]) -> None:
        self.valid = valid
        self._fingerprint = fingerprint
        self.caller: Caller | None = None
        self._deadline: float | None = None
        if isinstance(request := valid.request, Attend):
            self._deadline = time.monotonic() + ATTEND_TIMEOUT_S
            if request.until_ms is not None:
                # The caller's own time limit counts too, because this process may have been
                # suspended before this line.
                self._deadline = min(self._deadline, request.until_ms / 1000)

    def __call__(self, batch: Batch) -> Answer:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise EngineUnavailable("The caller timed out. Nothing was done.")
        self.caller = None
        tx = batch.transaction(OWNER_CALLER)
        try:
            return decide(tx, self.valid)
        finally:
            self.caller = tx.caller

    def record(self, refusal: Refusal, batch: Batch) -> None:
        """Record a refusal that matters to an auditor, with a keyed digest of the request. Without
        the key, a reader of the log cannot use the digest to confirm a guess of the request."""
        if self.caller is None or is_paused(batch.db):
            return
        request = self.valid.request
        digest = self._fingerprint(f"{request.declared.name} {request!r}".encode())
        record_refusal(batch.transaction(self.caller), refusal.code, digest)
