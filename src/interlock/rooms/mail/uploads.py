"""Flows that upload a large body in chunks, and then make the request that names the upload."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from interlock.errors import Refusal
from interlock.log.encoding import digest
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.rooms.mail.sending import CHUNK_BYTES
from interlock.rooms.mail.verbs import DropUpload, PutChunk, SendMessage
from interlock.verbs.verb import validated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlock.rooms.work.verbs import AddEvidence
    from interlock.verbs.flows import Flow


def send(request: SendMessage) -> Flow[Any]:
    """Upload the main text, then send the message. If the message is refused, drop the upload."""
    validated(request)
    main = MAIN_MEMBER[request.type]
    body = request.payload[main].encode()
    upload = yield from _upload(in_pieces(body), len(body))
    rest = {name: value for name, value in request.payload.items() if name != main}
    whole = request._replace(payload=rest, upload=upload, sha256=digest(body), size=len(body))
    answer = yield from _or_drop(whole, upload)
    # If the key was used before, the message has its first upload, and this one is not needed.
    yield DropUpload(upload)
    return answer


def attach(request: AddEvidence, chunks: Iterable[bytes], size: int) -> Flow[Any]:
    """Upload the bytes of evidence in chunks of `CHUNK_BYTES`, then add the evidence."""
    validated(request)
    if size == 0:
        return (yield request)
    upload = yield from _upload(chunks, size)
    answer = yield from _or_drop(request._replace(upload=upload), upload)
    if request.key is not None:
        yield DropUpload(upload)
    return answer


def in_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Read the rest of a file in chunks."""
    while data := file.read(CHUNK_BYTES):
        yield data


def in_pieces(data: bytes) -> Iterator[bytes]:
    """Split bytes into chunks."""
    return (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))


def _upload(chunks: Iterable[bytes], size: int) -> Flow[str]:
    upload: str | None = None
    for number, data in enumerate(chunks):
        put = yield PutChunk(data, size, number, upload)
        upload = put["upload"]
    assert upload is not None
    return upload


def _or_drop(request: Any, upload: str) -> Flow[Any]:
    try:
        return (yield request)
    except Refusal:
        yield DropUpload(upload)
        raise
