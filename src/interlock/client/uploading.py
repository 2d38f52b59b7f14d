"""Taking the steps of a large send, over a link and over a way."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from interlock.contracts.uploads import Answer, Steps
from interlock.errors import Refusal


def taken(steps: Steps, do: Callable[[Any], Answer]) -> Answer:
    try:
        step = next(steps)
        while True:
            try:
                answer = do(step)
            except Refusal as refusal:
                step = steps.throw(refusal)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return cast(Answer, end.value)


async def taken_asynchronously(steps: Steps, do: Callable[[Any], Awaitable[Answer]]) -> Answer:
    try:
        step = next(steps)
        while True:
            try:
                answer = await do(step)
            except Refusal as refusal:
                step = steps.throw(refusal)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return cast(Answer, end.value)
