"""Every refusal: a stable code, a fixed title, how the doors say it, and what to do.

The class is the state that was met; its docstring is the default message. A refusal is the
same object on every door (`as_dict`). The tree, with the exit status of each branch:

    Refusal
    ├── PlainNo (1)       ClaimHeld, NoAnswer, GatesNotPassed, LogDamaged
    ├── BadInput (2)      Usage, InvalidRecipientShape, InvalidMessage, UnknownType, UseVerb,
    │                     DigestMismatch, NotFound, UnknownRecipient, NameTaken,
    │                     IdempotencyConflict, TooManyHops, TooLarge, NotAWorkspace,
    │                     GateHasNoHolder, AlreadyDone, NotSubmitted
    ├── NotAllowed (3)    NoIdentity, BadToken, TokenExpired, UnknownSender, IdentityMismatch,
    │                     MissingScope, OwnWork, NotHolder, StaleFence, ForeignOrigin,
    │                     WrongAudience
    ├── NotAvailable (4)  RateLimited, Paused, EngineUnavailable, LogForked, NewerVersion,
    │                     UnsafeFilesystem, OtherHost
    └── Internal (70)

Refusals marked `recorded` matter to an auditor and become facts; the others leave no trace.
"""

from typing import Any, ClassVar

NOTHING_DONE = "Nothing was done"


class Refusal(Exception):
    """The request was refused."""

    code: ClassVar[str]
    title: ClassVar[str]
    exit: ClassVar[int]
    http: ClassVar[int]
    recorded: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **members: Any) -> None:
        self.message = message or " ".join((type(self).__doc__ or "").split())
        self.members = {name: value for name, value in members.items() if value is not None}
        super().__init__(self.message)

    @property
    def state(self) -> str:
        """What is the matter, without the promise to whoever just asked for something."""
        return self.message.partition(f" {NOTHING_DONE}")[0]

    def as_dict(self) -> dict[str, Any]:
        """The one error object of every door."""
        return {"error": self.title, "code": self.code, "message": self.message} | self.members


class PlainNo(Refusal):
    """The answer is no."""

    exit = 1
    http = 409


class ClaimHeld(PlainNo):
    """Another holder has it. Do other work, ask the holder, or wait with --wait."""

    code = "CLAIM_HELD"
    title = "Claim held"


class NoAnswer(PlainNo):
    """Nobody answered in time. A late answer arrives in the inbox; do not ask again."""

    code = "NO_ANSWER"
    title = "No answer"


class GatesNotPassed(PlainNo):
    """Something is missing before this is done: see `missing`, with what to do about each."""

    code = "GATES_NOT_PASSED"
    title = "Gates not passed"


class LogDamaged(PlainNo):
    """The log does not verify. Stop writing, keep the file, and restore a backup that does."""

    code = "LOG_DAMAGED"
    title = "Log damaged"


class BadInput(Refusal):
    """The request is not well formed, or asks for what cannot be."""

    exit = 2
    http = 400


class Usage(BadInput):
    """The command or request is not of a form that Interlock knows."""

    code = "USAGE"
    title = "Bad usage"


class InvalidRecipientShape(BadInput):
    """A recipient is @<identifier> for one agent, or AGENT:* for everyone."""

    code = "INVALID_RECIPIENT_SHAPE"
    title = "Invalid recipient shape"


class InvalidMessage(BadInput):
    """The message does not fit the contract of its type. See interlock schema TYPE."""

    code = "INVALID_MESSAGE"
    title = "Invalid message"


class UnknownType(BadInput):
    """There is no such message type. interlock schema lists them."""

    code = "UNKNOWN_TYPE"
    title = "Unknown message type"


class UseVerb(BadInput):
    """Messages of this type are written by their own verb and cannot be sent by hand."""

    code = "USE_VERB"
    title = "Use the verb"


class DigestMismatch(BadInput):
    """The bytes do not have the digest that was promised. Upload them again."""

    code = "DIGEST_MISMATCH"
    title = "Digest mismatch"


class NotFound(BadInput):
    """There is nothing of that name that you may see."""

    code = "NOT_FOUND"
    title = "Not found"
    http = 404


class UnknownRecipient(BadInput):
    """Nobody of that name has joined, and this workspace delivers to known names only."""

    code = "UNKNOWN_RECIPIENT"
    title = "Unknown recipient"
    http = 409


class NameTaken(BadInput):
    """That name is in use already."""

    code = "NAME_TAKEN"
    title = "Name taken"
    http = 409


class IdempotencyConflict(BadInput):
    """This key was used before with another body. Use a new key for a new act."""

    code = "IDEMPOTENCY_CONFLICT"
    title = "Idempotency conflict"
    http = 409


class TooManyHops(BadInput):
    """This chain of replies is longer than the workspace allows; agents answering each other in
    a loop look like this. Stop, or let a person start a new thread."""

    code = "TOO_MANY_HOPS"
    title = "Too many hops"
    http = 409


class TooLarge(BadInput):
    """It is larger than this workspace allows."""

    code = "TOO_LARGE"
    title = "Too large"
    http = 413


class NotAWorkspace(BadInput):
    """What is there is not an Interlock workspace, and it was left alone."""

    code = "NOT_A_WORKSPACE"
    title = "Not a workspace"


class GateHasNoHolder(BadInput):
    """Nobody can hold that gate, so it would never be passed. See interlock gate list."""

    code = "GATE_HAS_NO_HOLDER"
    title = "Gate has no holder"


class AlreadyDone(BadInput):
    """The task has come to its end, and stays as it ended."""

    code = "ALREADY_DONE"
    title = "Already done"
    http = 409


class NotSubmitted(BadInput):
    """What was looked at is not what is submitted. See interlock task show."""

    code = "NOT_SUBMITTED"
    title = "Not submitted"
    http = 409


class NotAllowed(Refusal):
    """Who you are does not allow it."""

    exit = 3
    http = 403


class NoIdentity(NotAllowed):
    """Nobody is said to act. Give --from SENDER, or set INTERLOCK_TOKEN; interlock join NAME
    makes a sender."""

    code = "NO_IDENTITY"
    title = "No identity"
    http = 401


class BadToken(NotAllowed):
    """That token opens nothing here. interlock token list shows those that do."""

    code = "BAD_TOKEN"
    title = "Bad token"
    http = 401


class TokenExpired(NotAllowed):
    """That token has expired. Its owner can mint another: interlock token rotate."""

    code = "TOKEN_EXPIRED"
    title = "Token expired"
    http = 401


class WrongAudience(NotAllowed):
    """That token is for another place than the one where it was shown."""

    code = "WRONG_AUDIENCE"
    title = "Wrong audience"
    http = 401
    recorded = True


class ForeignOrigin(NotAllowed):
    """The request comes from a page of another site, and was refused unread."""

    code = "FOREIGN_ORIGIN"
    title = "Foreign origin"


class UnknownSender(NotAllowed):
    """No credential for that sender is kept here."""

    code = "UNKNOWN_SENDER"
    title = "Unknown sender"


class IdentityMismatch(NotAllowed):
    """The token decides who sends, and it is another sender's. Leave the sender out."""

    code = "IDENTITY_MISMATCH"
    title = "Identity mismatch"
    recorded = True


class MissingScope(NotAllowed):
    """The token lacks the scope that this act needs."""

    code = "MISSING_SCOPE"
    title = "Missing scope"
    recorded = True


class OwnWork(NotAllowed):
    """Nobody judges their own work, on any of their surfaces. Another holder must."""

    code = "OWN_WORK"
    title = "Own work"
    recorded = True


class NotHolder(NotAllowed):
    """You do not hold that claim, so it was left as it is."""

    code = "NOT_HOLDER"
    title = "Not the holder"
    http = 409


class StaleFence(NotAllowed):
    """The fence you presented is no longer the claim's: you lost it. Stop, and acquire again."""

    code = "STALE_FENCE"
    title = "Stale fence"
    http = 409
    recorded = True


class NotAvailable(Refusal):
    """Not now."""

    exit = 4
    http = 503


class RateLimited(NotAvailable):
    """Too many sends in a minute. Wait, then go on; two agents answering each other in a loop
    look like this."""

    code = "RATE_LIMITED"
    title = "Rate limited"
    http = 429


class Paused(NotAvailable):
    """The workspace is paused: nothing may be written until interlock resume."""

    code = "PAUSED"
    title = "Paused"


class EngineUnavailable(NotAvailable):
    """The log cannot be reached."""

    code = "ENGINE_UNAVAILABLE"
    title = "Engine unavailable"


class LogForked(NotAvailable):
    """This node's log and the engine's are not the same any more. Nothing is written until
    interlock repair has settled it."""

    code = "LOG_FORKED"
    title = "The log forks"


class NewerVersion(NotAvailable):
    """This workspace was written by a newer Interlock. Upgrade this one."""

    code = "NEWER_VERSION"
    title = "Newer version"


class UnsafeFilesystem(NotAvailable):
    """The workspace lies on a network filesystem, where SQLite's locks cannot be trusted."""

    code = "UNSAFE_FILESYSTEM"
    title = "Unsafe filesystem"


class OtherHost(NotAvailable):
    """The workspace was last used on another machine, which may still be using it."""

    code = "OTHER_HOST"
    title = "Used on another host"


class Internal(Refusal):
    """A defect in Interlock."""

    code = "INTERNAL"
    title = "Internal error"
    exit = 70
    http = 500


def by_code(code: str) -> type[Refusal]:
    """The class behind a code, for doors that have an error object and need its status."""
    return _BY_CODE[code]


def _leaves(kind: type[Refusal]) -> list[type[Refusal]]:
    return [leaf for sub in kind.__subclasses__() for leaf in [sub, *_leaves(sub)]]


_BY_CODE = {kind.code: kind for kind in _leaves(Refusal) if "code" in vars(kind)}


def unknown_outcome() -> EngineUnavailable:
    """For a request that began and whose end is not known."""
    return EngineUnavailable(
        "The outcome is unknown: the act began, and no answer came in time. Try again with the "
        "same --key, which does it at most once.",
        outcome="unknown",
    )
