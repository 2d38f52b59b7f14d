"""What is too large to stand in the log: its chunks first, then the act that names them.

The steps are acts, and whoever takes them hands back the answers; how they are carried is none of
their business.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, BinaryIO

from interlock.contracts.acts import AddEvidence, DropUpload, PutChunk, SendMessage
from interlock.contracts.checks import checked
from interlock.contracts.types import MAIN_MEMBER
from interlock.errors import Refusal
from interlock.log.encoding import digest

Answer = dict[str, Any]
Steps = Generator[Any, Answer, Answer]

CHUNK = 1 << 20
# What is longer goes as a blob: neither the log nor a request should carry it.
INLINE_BYTES = 1 << 20


def is_large(act: Any) -> bool:
    """Whether the act is a message whose main text is too large to stand in the log."""
    if not isinstance(act, SendMessage):
        return False
    text = act.payload.get(MAIN_MEMBER.get(act.type, ""))
    if not isinstance(text, str) or len(text) * 4 <= INLINE_BYTES:
        return False
    return len(text.encode("utf-8", "surrogatepass")) > INLINE_BYTES


def steps(act: SendMessage) -> Steps:
    """Yields the acts to be done, one after another, and returns the answer to the send. An upload
    whose message was refused is dropped."""
    checked(act)
    main = MAIN_MEMBER[act.type]
    body = act.payload[main].encode()
    chunks = (body[start : start + CHUNK] for start in range(0, len(body), CHUNK))
    upload = yield from _uploaded(chunks, len(body))
    rest = {name: value for name, value in act.payload.items() if name != main}
    whole = act._replace(payload=rest, upload=upload, sha256=digest(body), size=len(body))
    answer = yield from _or_dropped(whole, upload)
    # Said before under the same key: then nothing uses the upload.
    yield DropUpload(upload)
    return answer


def attached(act: AddEvidence, chunks: Iterable[bytes], size: int) -> Steps:
    """The steps of evidence that keeps so many bytes, in chunks of `CHUNK`."""
    checked(act)
    if size == 0:
        return (yield act)
    upload = yield from _uploaded(chunks, size)
    answer = yield from _or_dropped(act._replace(upload=upload), upload)
    if act.key is not None:
        # Kept before under the same key: then nothing uses the upload.
        yield DropUpload(upload)
    return answer


def in_chunks(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file, in chunks as uploads take them."""
    while data := file.read(CHUNK):
        yield data


def pieces(data: bytes) -> Iterator[bytes]:
    """Bytes that are at hand, in chunks as uploads take them."""
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def _uploaded(chunks: Iterable[bytes], size: int) -> Generator[Any, Answer, str]:
    upload: str | None = None
    for number, data in enumerate(chunks):
        put = yield PutChunk(data, size, number, upload)
        upload = put["upload"]
    assert upload is not None
    return upload


def _or_dropped(act: Any, upload: str) -> Steps:
    try:
        return (yield act)
    except Refusal:
        yield DropUpload(upload)
        raise


def taken(steps: Steps, do: Callable[[Any], Answer]) -> Answer:
    """Takes all the steps, one by one."""
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
        last: Answer = end.value
        return last
