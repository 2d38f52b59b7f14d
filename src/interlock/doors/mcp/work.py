"""What the tools about work do: task, evidence and verdict."""

import os
from collections.abc import Callable

from interlock.doors.mcp.arguments import Arguments
from interlock.doors.mcp.plans import Here
from interlock.errors import Usage
from interlock.rooms.mail.uploads import attach, in_pieces
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CompleteTask,
    CreateTask,
    FailTask,
    GiveVerdict,
    ListTasks,
    ResolveBlocker,
    ShowTask,
    SubmitTask,
    TakeTask,
)
from interlock.verbs.answers import Answer
from interlock.verbs.flows import Flow, LocalRead

STORY = 40
BRIEF_BYTES = 40_000
FILE_BYTES = 32 << 20


def task(given: Arguments, here: Here) -> Flow[Answer]:
    action = given["action"]
    takes = _TAKES[action]
    for name in given:
        if name not in ("action", *takes):
            raise Usage(f"{action} takes no {name}.", member=name)
    if "id" in takes and "id" not in given and action != "create":
        raise Usage(f"Say which, in id, to {action.replace('_', ' ')} it.", member="id")
    return (yield from _ACTIONS[action](given, here))


def _list(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield ListTasks("live"))


def _show(given: Arguments, here: Here) -> Flow[Answer]:
    """With the end of its story; a long brief is cut, and says so."""
    found: Answer = yield ShowTask(given["id"])
    story = found["story"]
    answer = found | {"story": story[-STORY:]}
    if len(story) > STORY:
        answer |= {"part": True, "earlier": len(story) - STORY}
    brief = found["task"].get("brief", "").encode()
    if len(brief) > BRIEF_BYTES:
        shown = brief[:BRIEF_BYTES].decode(errors="ignore")
        rest = (
            f"{len(shown.encode())} of {len(brief)} bytes; whole: interlock task show {given['id']}"
        )
        answer["task"] = found["task"] | {"brief": shown, "brief_part": rest}
    return answer


def _create(given: Arguments, here: Here) -> Flow[Answer]:
    if "title" not in given:
        raise Usage("A task needs a title.", member="title")
    return (
        yield CreateTask(
            title=given["title"],
            id=given.get("id"),
            brief=given.get("brief"),
            criteria=tuple(given.get("criteria", ())),
            gates=tuple(given.get("gates", ())),
            depends_on=tuple(given.get("depends_on", ())),
        )
    )


def _take(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield TakeTask(given["id"], note=given.get("note")))


def _submit(given: Arguments, here: Here) -> Flow[Answer]:
    """The commit and its tree as the caller's own git knows them; over HTTP, as was said."""
    artifact = None
    if (place := here.directory) is not None:
        from interlock.evidence import artifact as artifact_of

        named = given.get("commit", "HEAD")
        artifact = yield LocalRead(lambda: artifact_of(named, place))
    if artifact is None and "commit" not in given:
        raise Usage(
            "It is not known where you stand. Give the commit's whole id, from git rev-parse HEAD.",
            member="commit",
        )
    commit, tree = artifact or (given["commit"], None)
    return (yield SubmitTask(given["id"], commit, tree, given.get("fence")))


def _complete(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield CompleteTask(given["id"], given.get("fence")))


def _fail(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield FailTask(given["id"], given.get("note"), given.get("fence")))


def _cancel(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield CancelTask(given["id"], given.get("note")))


def _resolve(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield ResolveBlocker(given["id"], given.get("note")))


_ACTIONS: dict[str, Callable[[Arguments, Here], Flow[Answer]]] = {
    "list": _list,
    "show": _show,
    "create": _create,
    "take": _take,
    "submit": _submit,
    "complete": _complete,
    "fail": _fail,
    "cancel": _cancel,
    "resolve_blocker": _resolve,
}
_TAKES: dict[str, tuple[str, ...]] = {
    "list": (),
    "show": ("id",),
    "create": ("id", "title", "brief", "criteria", "gates", "depends_on"),
    "take": ("id", "note"),
    "submit": ("id", "commit", "fence"),
    "complete": ("id", "fence"),
    "fail": ("id", "note", "fence"),
    "cancel": ("id", "note"),
    "resolve_blocker": ("id", "note"),
}


def evidence(given: Arguments, here: Here) -> Flow[Answer]:
    said = {name: given[name] for name in ("task_id", "criterion", "title") if name in given}
    kind, value = given["kind"], given["value"]
    if kind in ("note", "url"):
        member = "text" if kind == "note" else "url"
        return (yield AddEvidence({"kind": kind, member: value} | said))
    if here.directory is None:
        raise Usage(
            f"A {kind} is on your machine, and this server cannot see it. Use the command there: "
            f"interlock evidence add --task {given['task_id']} --{kind} FILE",
            member="value",
        )
    if "\0" in value:
        raise Usage("That is no file's name.", member="value")
    path = os.path.join(here.directory, value)
    place = here.directory
    read = yield LocalRead(lambda: _spooled(path) if kind == "spool" else _file(path, place))
    key, payload, data = read
    act = AddEvidence(payload | said, key=key)
    return (yield from attach(act, in_pieces(data), len(data)))


def _spooled(path: str) -> tuple[str, Answer, bytes]:
    from interlock.evidence import spool

    return spool.read(path)


def _file(path: str, directory: str) -> tuple[None, Answer, bytes]:
    """A file of the caller's repository, or of where it stands, and none beyond: the server must
    not read for an agent what the agent's own client would not let it read."""
    from interlock.evidence import standing
    from interlock.evidence.files import Attached

    here = standing(directory)
    root = os.path.realpath(here.root if here is not None else directory)
    real = os.path.realpath(path)
    if os.path.commonpath([root, real]) != root:
        raise Usage(
            "That file is not in the repository that you stand in. Copy it there, or attach it "
            "with the command interlock evidence add.",
            member="value",
        )
    with Attached(real, FILE_BYTES) as file, open(file.output, "rb") as copy:
        return None, file.payload, copy.read()


def verdict(given: Arguments, here: Here) -> Flow[Answer]:
    return (
        yield GiveVerdict(
            given["task_id"],
            given["gate"],
            given["verdict"],
            given["commit"],
            given.get("note"),
            tuple(given.get("fix", ())),
            tuple(given.get("evidence", ())),
        )
    )
