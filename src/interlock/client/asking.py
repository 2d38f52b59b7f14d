"""`Method`, which makes one definition a method of both clients.

A definition returns the request, typed with its answer. On a `Client` the method returns the
answer. On an `AsyncClient` it is a coroutine. Type checkers and editors see the right type and the
parameters of the definition.
"""

import os
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

P = ParamSpec("P")
R = TypeVar("R")
Texts = str | Iterable[str]
Path = str | os.PathLike[str]


def texts(given: Texts) -> tuple[str, ...]:
    """Return the texts as a tuple. A single string is one text."""
    return (given,) if isinstance(given, str) else tuple(given)


def absolute(path: Path) -> str:
    return os.path.abspath(os.fspath(path))


class Asked(Generic[R]):
    """A request. The type parameter is the type of its answer."""

    def __init__(self, request: Any) -> None:
        self.request = request


class Method(Generic[P, R]):
    """A descriptor that makes a definition a method of both clients."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Asked[R]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, kind: type) -> "Method[P, R]": ...

    @overload
    def __get__(self, client: "Client", kind: type) -> Callable[P, R]: ...

    @overload
    def __get__(self, client: "AsyncClient", kind: type) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, client: Any, kind: type) -> Any:
        if client is None:
            return self
        describe = MethodType(self.describe, client)

        @wraps(describe)
        def method(*args: Any, **kwargs: Any) -> Any:
            return client.do(describe(*args, **kwargs))

        return method
