"""Answers about the log itself: facts, proofs, copies."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.contracts.answers.parts import No


class Fact(TypedDict):
    """An entry of the log as it stands there; times in its `outcome` are milliseconds."""

    seq: int
    at: str
    kind: str
    sender: str
    session: NotRequired[str]
    token: NotRequired[str]
    epoch: NotRequired[int]
    outcome: dict[str, Any]
    hash: str
    body: NotRequired[str]


class Log(TypedDict):
    """One call looks through a part of the log: where there is a `next`, go on after it, however
    few facts came before."""

    facts: list[Fact]
    next: NotRequired[int]


class Verified(TypedDict):
    ok: Literal[True]
    entries: int
    root: str
    checkpoints: int


class Damaged(No):
    """`seq` is the first entry that is not what it was."""

    ok: Literal[False]
    code: Literal["LOG_DAMAGED"]
    seq: int
    entries: int


class Checkpoint(TypedDict):
    entries: int
    root: str
    checkpoint: str
    verifier: str


class _Proof(TypedDict):
    tree_size: int
    root: str
    path: list[str]
    checkpoint: str
    verifier: str


class Inclusion(_Proof):
    proof: Literal["inclusion"]
    seq: int
    header: str
    leaf_index: int


class ProvenEntry(TypedDict):
    seq: int
    header: str
    leaf_index: int
    path: list[str]


class Proofs(TypedDict):
    """Several entries, against one checkpoint."""

    proof: Literal["inclusions"]
    tree_size: int
    root: str
    entries: list[ProvenEntry]
    checkpoint: str
    verifier: str


class Growth(_Proof):
    proof: Literal["consistency"]
    old_size: int
    old_root: str


class Exported(TypedDict):
    file: str
    entries: int
    root: str


class BackedUp(TypedDict):
    file: str
    entries: int
    bytes: int


class Restored(TypedDict):
    restored: Literal[True]
    epoch: int
    entries: int
    abandoned: str


class Rebuilt(TypedDict):
    rebuilt: Literal[True]
    schema: str
    entries: int
    digest: str
    changed: bool
