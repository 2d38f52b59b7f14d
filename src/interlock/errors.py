"""Every refusal: a stable code, a fixed title, the statuses of the interfaces, and a message.

The class names the state of affairs, and its docstring is the default message. Every interface
returns a refusal as the same object (`as_dict`). The tree, with the exit status of each branch:

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
    │                     UnsafeFilesystem, OtherHost, AddressUnavailable
    └── Internal (70)

Refusals marked `recorded` matter to an auditor, so the node appends them to the log as facts. The
node stores no trace of the others.

A message names the remedy in the words of the caller's interface: a command, an HTTP request or an
MCP tool. A rule writes the remedy as a `Remedy`, and the door words it:

    raise NotHolder(
        f"You have not taken {task}. Take it:",
        Remedy(f"interlock task take {task}", TakeTask(task)),
    )
"""

from typing import Any, ClassVar

NOTHING_DONE = "Nothing was done"


class Remedy(str):
    """The command that helps the caller, with the same remedy for the other interfaces.

    As a string it is the command. `request` is the verb that the command calls: the HTTP API words
    it as a request, and MCP as a call of a tool. `http` and `mcp` have the words of these
    interfaces where they do not derive from a request."""

    __slots__ = ("http", "mcp", "request")

    def __new__(
        cls, command: str, request: Any = None, *, http: str | None = None, mcp: str | None = None
    ) -> "Remedy":
        remedy = super().__new__(cls, command)
        remedy.request, remedy.http, remedy.mcp = request, http, mcp
        return remedy

    request: Any
    http: str | None
    mcp: str | None


class Message(str):
    """A text that contains remedies. As a string it has the words of the command line; `parts` are
    its texts and remedies in their order."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]


def message(*parts: str) -> str:
    """Join texts and remedies with blanks."""
    text = " ".join(parts)
    if not any(isinstance(part, (Remedy, Message)) for part in parts):
        return text
    joined = Message(text)
    joined.parts = parts
    return joined


TO_RESUME = Remedy(
    "To resume it: interlock resume",
    http="To resume it: `POST /v1/resume`",
    mcp="Wait, or ask your user.",
)


class Refusal(Exception):
    """The request was refused."""

    code: ClassVar[str]
    title: ClassVar[str]
    exit: ClassVar[int]
    http: ClassVar[int]
    recorded: ClassVar[bool] = False
    # Follows the docstring in the default message.
    remedy: ClassVar[Remedy | None] = None

    def __init__(self, *parts: str, **members: Any) -> None:
        if not parts:
            default = " ".join((type(self).__doc__ or "").split())
            parts = (default, self.remedy) if self.remedy is not None else (default,)
        self.message = message(*parts)
        self.members = {name: value for name, value in members.items() if value is not None}
        super().__init__(self.message)

    @property
    def state(self) -> str:
        """The cause, without the note that nothing was done."""
        return self.message.partition(f" {NOTHING_DONE}")[0]

    def as_dict(self) -> dict[str, Any]:
        """The error object, which is the same on every interface."""
        return {"error": self.title, "code": self.code, "message": self.message} | self.members


class PlainNo(Refusal):
    """The answer is no."""

    exit = 1
    http = 409


class ClaimHeld(PlainNo):
    """Another holder has this claim. Do other work, or ask the holder."""

    code = "CLAIM_HELD"
    title = "Claim held"


class NoAnswer(PlainNo):
    """The question was not answered in time. A late answer arrives in the inbox, so do not ask
    again."""

    code = "NO_ANSWER"
    title = "No answer"


class GatesNotPassed(PlainNo):
    """The task does not meet all of its requirements. `missing` lists each one and what to do."""

    code = "GATES_NOT_PASSED"
    title = "Gates not passed"


class LogDamaged(PlainNo):
    """The log does not verify. Stop writing, keep the file, and restore a backup that verifies."""

    code = "LOG_DAMAGED"
    title = "Log damaged"
    remedy = Remedy("interlock restore FILE")


class BadInput(Refusal):
    """The request is malformed, or its target does not allow it."""

    exit = 2
    http = 400


class Usage(BadInput):
    """The command or request has an unknown form."""

    code = "USAGE"
    title = "Bad usage"


class InvalidRecipientShape(BadInput):
    """A recipient is @<identifier> for one agent, or AGENT:* for everyone."""

    code = "INVALID_RECIPIENT_SHAPE"
    title = "Invalid recipient shape"


class InvalidMessage(BadInput):
    """The payload does not match the JSON Schema of its message type."""

    code = "INVALID_MESSAGE"
    title = "Invalid message"


class UnknownType(BadInput):
    """Unknown message type. `valid_types` lists the types that can be sent."""

    code = "UNKNOWN_TYPE"
    title = "Unknown message type"


class UseVerb(BadInput):
    """Interlock writes messages of this type itself, when the operation of that name is called."""

    code = "USE_VERB"
    title = "Reserved message type"


class DigestMismatch(BadInput):
    """The uploaded bytes do not have the announced SHA-256. Upload them again."""

    code = "DIGEST_MISMATCH"
    title = "Digest mismatch"


class NotFound(BadInput):
    """Not found, or not visible to you."""

    code = "NOT_FOUND"
    title = "Not found"
    http = 404


class UnknownRecipient(BadInput):
    """The recipient is not registered, and this workspace delivers only to registered names."""

    code = "UNKNOWN_RECIPIENT"
    title = "Unknown recipient"
    http = 409


class NameTaken(BadInput):
    """This name is already registered. Choose another name."""

    code = "NAME_TAKEN"
    title = "Name taken"
    http = 409


class IdempotencyConflict(BadInput):
    """This idempotency key was used before with another body. Use a new key."""

    code = "IDEMPOTENCY_CONFLICT"
    title = "Idempotency conflict"
    http = 409


class TooManyHops(BadInput):
    """This chain of replies exceeds the workspace's hop limit. Two agents that answer each other in
    a loop cause this. Stop replying, or ask a person to start a new thread."""

    code = "TOO_MANY_HOPS"
    title = "Too many hops"
    http = 409


class TooLarge(BadInput):
    """The request is larger than the workspace allows."""

    code = "TOO_LARGE"
    title = "Too large"
    http = 413


class NotAWorkspace(BadInput):
    """The path exists and is not an Interlock workspace. Nothing was changed."""

    code = "NOT_A_WORKSPACE"
    title = "Not a workspace"


class GateHasNoHolder(BadInput):
    """No sender can hold this gate, so no task could pass it."""

    code = "GATE_HAS_NO_HOLDER"
    title = "Gate has no holder"


class AlreadyDone(BadInput):
    """The task has ended. The state of an ended task cannot change."""

    code = "ALREADY_DONE"
    title = "Already done"
    http = 409


class NotSubmitted(BadInput):
    """The reviewed commit is not the submitted commit."""

    code = "NOT_SUBMITTED"
    title = "Not submitted"
    http = 409


class NotAllowed(Refusal):
    """The caller's identity does not allow this request."""

    exit = 3
    http = 403


class NoIdentity(NotAllowed):
    """No identity given."""

    code = "NO_IDENTITY"
    title = "No identity"
    http = 401
    remedy = Remedy(
        "Give --from SENDER, or set INTERLOCK_TOKEN. To register a sender: interlock join NAME",
        http="Send the header `Authorization: Bearer TOKEN`.",
        mcp="Set the header `Authorization: Bearer TOKEN` in the client's MCP configuration. "
        "`interlock setup` in a shell writes the configuration.",
    )


class BadToken(NotAllowed):
    """This token is not valid for this workspace."""

    code = "BAD_TOKEN"
    title = "Bad token"
    http = 401
    remedy = Remedy(
        "Unset INTERLOCK_TOKEN, or set it to a token of this workspace. Without the variable, "
        "interlock token list shows the valid tokens to the owner.",
        http="Ask an admin of the workspace for a token.",
        mcp="Ask your user to check the token in the client's MCP configuration.",
    )


class TokenExpired(NotAllowed):
    """This token has expired."""

    code = "TOKEN_EXPIRED"
    title = "Token expired"
    http = 401
    remedy = Remedy(
        "The owner of the workspace or an admin can replace the token: interlock token rotate",
        http="The owner of the workspace or an admin can replace the token: "
        "`POST /v1/tokens/rotate`",
        mcp="Ask your user to replace it: `interlock token rotate` in a shell.",
    )


class WrongAudience(NotAllowed):
    """This token was issued for another address of the server."""

    code = "WRONG_AUDIENCE"
    title = "Wrong audience"
    http = 401
    recorded = True


class ForeignOrigin(NotAllowed):
    """The request comes from a web page of another origin. The server refused it unread."""

    code = "FOREIGN_ORIGIN"
    title = "Foreign origin"


class UnknownSender(NotAllowed):
    """This machine has no credential for that sender."""

    code = "UNKNOWN_SENDER"
    title = "Unknown sender"


class IdentityMismatch(NotAllowed):
    """The token belongs to another sender than the request names. The token decides the sender, so
    omit the name."""

    code = "IDENTITY_MISMATCH"
    title = "Identity mismatch"
    recorded = True


class MissingScope(NotAllowed):
    """The token lacks the scope that this request needs."""

    code = "MISSING_SCOPE"
    title = "Missing scope"
    recorded = True


class OwnWork(NotAllowed):
    """An agent cannot give a verdict on its own work, on any of its surfaces. Ask another holder of
    the gate."""

    code = "OWN_WORK"
    title = "Own work"
    recorded = True


class NotHolder(NotAllowed):
    """You do not hold this claim. Nothing was changed."""

    code = "NOT_HOLDER"
    title = "Not the holder"
    http = 409


class StaleFence(NotAllowed):
    """Your fence is out of date, because you lost the claim. Stop the work, and acquire the claim
    again."""

    code = "STALE_FENCE"
    title = "Stale fence"
    http = 409
    recorded = True


class NotAvailable(Refusal):
    """Interlock cannot serve the request now."""

    exit = 4
    http = 503


class RateLimited(NotAvailable):
    """The sender exceeded its limit of messages per minute. Wait before you send again. Two agents
    that answer each other in a loop cause this."""

    code = "RATE_LIMITED"
    title = "Rate limited"
    http = 429


class Paused(NotAvailable):
    """The workspace is paused. It accepts no writes until the owner or an admin resumes it."""

    code = "PAUSED"
    title = "Paused"
    remedy = TO_RESUME


class EngineUnavailable(NotAvailable):
    """Interlock cannot reach the log."""

    code = "ENGINE_UNAVAILABLE"
    title = "Engine unavailable"


class LogForked(NotAvailable):
    """This node's log and the engine's log differ. The node accepts no writes until an operator
    runs interlock repair."""

    code = "LOG_FORKED"
    title = "Log forked"


class NewerVersion(NotAvailable):
    """A newer version of Interlock wrote this workspace. Upgrade this installation."""

    code = "NEWER_VERSION"
    title = "Newer version"


class UnsafeFilesystem(NotAvailable):
    """The workspace is on a network filesystem, where SQLite's locks are not reliable."""

    code = "UNSAFE_FILESYSTEM"
    title = "Unsafe filesystem"


class OtherHost(NotAvailable):
    """Another machine used this workspace last, and may still use it."""

    code = "OTHER_HOST"
    title = "Used on another host"


class AddressUnavailable(NotAvailable):
    """The server cannot listen on its address. Another program may use the port."""

    code = "ADDRESS_UNAVAILABLE"
    title = "Address unavailable"


class Internal(Refusal):
    """Interlock has a defect."""

    code = "INTERNAL"
    title = "Internal error"
    exit = 70
    http = 500


def by_code(code: str) -> type[Refusal]:
    """Return the class of a code. Raises KeyError."""
    return _BY_CODE[code]


def codes() -> list[str]:
    """Every code."""
    return list(_BY_CODE)


def _leaves(kind: type[Refusal]) -> list[type[Refusal]]:
    return [leaf for sub in kind.__subclasses__() for leaf in [sub, *_leaves(sub)]]


_BY_CODE = {kind.code: kind for kind in _leaves(Refusal) if "code" in vars(kind)}


def unknown_outcome() -> EngineUnavailable:
    """Return the refusal of a request that started and did not report its result."""
    return EngineUnavailable(
        "The outcome is unknown: the request started, and no answer came in time.",
        SAME_KEY,
        outcome="unknown",
    )


SAME_KEY = Remedy(
    "If you gave a --key, retry with the same --key: Interlock executes the request at most once. "
    "Otherwise check the state before you retry: interlock whoami",
    http="If you gave an `Idempotency-Key`, retry with the same key: Interlock executes the "
    "request at most once. Otherwise check the state before you retry.",
    mcp="If you gave a `key`, retry with the same `key`: Interlock executes the request at most "
    "once. Otherwise check the state with `whoami` before you retry.",
)
