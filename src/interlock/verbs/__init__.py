"""Verbs: the operations of Interlock, each declared once next to the rule that decides it.

`verb` has the class that declarations inherit from, and `types` the types of their fields. `http`
has the encoding of requests, and `flows` the verbs that take several requests. Every command
imports this module, so it defines only the classes that every command needs.
"""

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Self

    from interlock.verbs.verb import Verb

# Every verb whose module is imported. `help` reads the list, and imports no verb.
DECLARED: "list[type[Verb]]" = []


class LazyModule:
    """A module that is imported when one of its names is first used. Every command imports the
    declarations of a room, but needs its rules only without a server."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module: ModuleType = __import__(self._name, fromlist=["*"])
        return getattr(module, name)


@dataclass_transform(frozen_default=True)
class Record:
    """An immutable value whose annotations are its fields.

    Commands use it instead of `NamedTuple` and data classes, because its definition takes a tenth
    of their time. It is not a tuple: read its fields by name."""

    _fields: ClassVar[tuple[str, ...]]
    _names: ClassVar[frozenset[str]]
    _field_defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        annotations = cls.__annotations__  # its own: a class without any has an empty dictionary
        cls._fields = tuple(annotations)
        setattr(cls, "__match_args__", cls._fields)  # noqa: B010 - mypy knows no assignment to it
        cls._names = frozenset(annotations)
        members = vars(cls)
        cls._field_defaults = {field: members[field] for field in annotations if field in members}

    def __init__(self, *values: Any, **named: Any) -> None:
        in_order = dict(zip(self._fields, values, strict=False))
        members = self._field_defaults | in_order | named
        is_twice = len(values) > len(self._fields) or not named.keys().isdisjoint(in_order)
        if is_twice or members.keys() != self._names:
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}.")
        vars(self).update(members)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable, so {name} cannot be set.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *self._asdict().values()))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({given})"

    def _asdict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changes: Any) -> "Self":
        if not changes.keys() <= self._names:
            raise TypeError(f"{type(self).__name__} has {', '.join(self._fields)}.")
        other = object.__new__(type(self))
        vars(other).update(vars(self), **changes)
        return other
