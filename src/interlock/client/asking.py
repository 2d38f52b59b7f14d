"""One description of each verb, for both clients.

A verb is written once, as a method that says which act is asked for and what type its answer has.
On a `Client` it is a method that gives the answer, on an `AsyncClient` a coroutine; type checkers
and editors see it as such, with its own parameters.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

P = ParamSpec("P")
R = TypeVar("R")


class Asked(Generic[R]):
    """An act, and the type of its answer."""

    def __init__(self, act: Any) -> None:
        self.act = act


class Verb(Generic[P, R]):
    """Makes a method of a description: `@Verb` above it."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Asked[R]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, kind: type) -> "Verb[P, R]": ...

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
