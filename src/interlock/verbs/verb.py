"""The class that every verb inherits from.

A subclass declares one operation: its typed fields, who may call it, its HTTP route, its command
line, its MCP tool, and the rule that decides it. The doors, the client, OpenAPI, help and
completion derive from the declaration:

    class ReleaseClaim(
        Verb,
        http="POST /v1/claims/release",
        cli="claim release (ITEM | --item I | --path GLOB...) [--fence N]",
        method="release",
        scope="claim",
    ):
        \"""Release a claim that you hold.\"""

        item: Item | None = None
        paths: Globs = ()
        fence: Fence | None = None

        def decide(self, tx: Transaction) -> Released: ...

The docstring's first line is the summary that all doors show. The paragraphs after it are the notes
of the command's help page. The return type of `decide` is the answer.

Every command defines the verbs of a room, so a definition must be cheap: annotations stay strings
(`from __future__ import annotations`), and `fields_of` resolves them on first use.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from interlock.errors import Usage
from interlock.verbs import DECLARED, Record
from interlock.verbs.types import Shape, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

FieldGroups = tuple[tuple[str, ...], ...]


class Tool:
    """The MCP tool of a verb. `doors.mcp` derives its schema and its call, and has the tools that
    combine several verbs. Texts are short: each client reads them into its model's context.

    usage         "ack ids [decline] [note]": the name of the tool, then its parameters, those in
                  brackets optional; the name alone stands for all fields
    description   by default the summary of the verb
    help          the meaning of a parameter, if the field's own help is too long
    answer        the members of the answer that the schema lists; by default all
    idempotent    a second call with the same arguments changes nothing
    """

    def __init__(
        self,
        usage: str,
        description: str = "",
        *,
        help: Mapping[str, str] | None = None,
        answer: str = "",
        idempotent: bool = False,
    ) -> None:
        self.name, _, self.parameters = usage.partition(" ")
        self.description, self.help = description, help or {}
        self.answer, self.idempotent = answer, idempotent


class Declaration:
    """The declaration of a verb, apart from its fields and its rule.

    name          in refusals; by default the words of the command line
    http          "POST /v1/claims/{id}/renew": fields in braces are in the path, the others in the
                  query of a GET or the JSON body of a POST
    http_also     further routes, for callers who write requests by hand
    cli           "claim acquire (ITEM | --item I) [--ttl D]", see `doors.cli.derived`;
                  empty without a command
    examples      of the help page, each with an optional comment after " # "
    mcp           the MCP tool, if the verb alone is one
    method        of the Python client, with its positional fields where they are not the
                  required ones: "take_over item"; empty without one
    help          the meaning of a field, if its type does not have it
    exactly_one   groups of fields: a request gives exactly one of each group
    at_most_one   groups of fields: a request gives at most one of each group
    scope         the scope that the token needs
    read_only     decided outside the write transaction, unless the rule has to append a fact
    owner         allowed to the owner of an embedded workspace, who has no token
    open          allowed on an embedded workspace without any identity
    when_paused   allowed while the workspace is paused
    anyone        allowed without a token: the request contains a secret that the rule checks
    local         names files of the server's machine: allowed only through the local socket
    maintenance   about the log itself: the node runs it, and no rule decides it
    unbounded     reads the whole log, and so has no time limit
    bind          words of `cli` and `mcp` whose field has another name: {"ID": "message"}
    """

    name: str = ""
    http: str = ""
    http_also: tuple[str, ...] = ()
    cli: str = ""
    examples: tuple[str, ...] = ()
    mcp: Tool | None = None
    method: str = ""
    help: Mapping[str, str] = {}
    exactly_one: FieldGroups = ()
    at_most_one: FieldGroups = ()
    scope: str | None = None
    read_only: bool = False
    owner: bool = False
    open: bool = False
    when_paused: bool = False
    anyone: bool = False
    local: bool = False
    maintenance: bool = False
    unbounded: bool = False
    bind: Mapping[str, str] = {}

    def __init__(self, **declared: Any) -> None:
        # A NamedTuple would cost every command a millisecond.
        if unknown := declared.keys() - type(self).__annotations__.keys():
            raise TypeError(f"A declaration has no member {', '.join(sorted(unknown))}.")
        vars(self).update(declared)


class Verb(Record):
    """One operation. An instance is a request for it."""

    if TYPE_CHECKING:
        declared: ClassVar[Declaration]
        _resolved: ClassVar[dict[str, Field] | None]

    def __init_subclass__(cls, *, name: str = "", cli: str = "", **declared: Any) -> None:
        super().__init_subclass__()
        name = name or " ".join(
            takewhile(lambda word: word[0].isalpha() and word.islower(), cli.split())
        )
        cls.declared = Declaration(name=name, cli=cli, **declared)
        cls._resolved = None
        DECLARED.append(cls)

    def decide(self, tx: Any) -> Any:
        """Decide the request against the state, append facts, and return the answer."""
        raise NotImplementedError

    def checked(self) -> Self:
        """Check the conditions that the types of the fields do not express. Return the request in
        canonical form."""
        return self

    def needs_sender(self) -> bool:
        """Whether a sender should make the request, even if the owner could make it too."""
        declared = self.declared
        by_owner = declared.owner or declared.open or declared.anyone or declared.maintenance
        return not by_owner or getattr(self, "mine", False)


V = TypeVar("V", bound=Verb)


class Field:
    """A field of a verb. An optional field may be None, which means that it was not given."""

    __slots__ = ("default", "help", "name", "optional", "required", "shape")

    def __init__(
        self, name: str, shape: Shape, optional: bool, required: bool, default: Any, help: str
    ) -> None:
        self.name, self.shape, self.help = name, shape, help
        self.optional, self.required, self.default = optional, required, default


def fields_of(verb: type[Verb]) -> dict[str, Field]:
    """The fields of a verb in their order, with their types resolved."""
    if verb._resolved is None:
        names = vars(__import__(verb.__module__, fromlist=["*"]))
        found = {}
        for name in verb._fields:
            shape, optional = shape_of(verb.__annotations__[name], names)
            help = verb.declared.help.get(name, shape.help)
            defaults = verb._field_defaults
            found[name] = Field(
                name, shape, optional, name not in defaults, defaults.get(name), help
            )
        verb._resolved = found
    return verb._resolved


def check_fields(request: Verb) -> None:
    """Check the type of each field. Raises Usage, or InvalidMessage for a member of a message."""
    given = vars(request)
    for field in fields_of(type(request)).values():
        value = given[field.name]
        if value is not None or not field.optional:
            field.shape.check(field.name, value)


def validated(request: V) -> V:
    """Check a request without any state, and return it in canonical form. Raises Usage,
    InvalidMessage or TooLarge."""
    given = vars(request)
    lists = {name: tuple(value) for name, value in given.items() if type(value) is list}
    if lists:
        request = request._replace(**lists)
        given = vars(request)
    check_fields(request)
    declared = request.declared
    for names in (*declared.exactly_one, *declared.at_most_one):
        chosen = [name for name in names if not any(given[name] is no for no in (None, False, ()))]
        if len(chosen) > 1 or (not chosen and names in declared.exactly_one):
            from interlock.verbs.wording import one_of, only_one_of

            if chosen:
                raise Usage(only_one_of(chosen), member=chosen[1], one_of=chosen)
            raise Usage(one_of(names), member=names[0], one_of=list(names))
    return request.checked()


def summary(verb: type[Verb]) -> str:
    """The first line of the docstring, without its full stop."""
    return (verb.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def notes(verb: type[Verb]) -> str:
    """The paragraphs after the summary, each on one line."""
    _, _, rest = (verb.__doc__ or "").strip().partition("\n")
    return "\n\n".join(" ".join(part.split()) for part in rest.strip().split("\n\n"))
