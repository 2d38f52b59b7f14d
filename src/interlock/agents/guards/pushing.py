"""What a push would change, and the guards on it."""

import re
from typing import NamedTuple

from interlock.agents.guards import git
from interlock.errors import Usage
from interlock.local import project
from interlock.local.project import Guard
from interlock.local.repository import normalised


class Push(NamedTuple):
    """One ref that a push would change. An id of zeros means that there is no such ref: nothing
    to send (a deletion), or nothing there yet."""

    local_ref: str
    local_oid: str
    remote_ref: str
    remote_oid: str

    @property
    def deletes(self) -> bool:
        return _is_nothing(self.local_oid)

    @property
    def creates(self) -> bool:
        return _is_nothing(self.remote_oid)


def pushes(stdin_text: str) -> list[Push]:
    """What git tells a pre-push hook on its standard input: a line for every ref. Raises Usage on
    anything else, so that no ref goes by unseen."""
    return [_push(line) for line in stdin_text.split("\n") if line]


def _push(line: str) -> Push:
    # The local side is what somebody typed, and may have spaces in it.
    parts = line.rsplit(" ", 3)
    if len(parts) != 4 or not all(re.fullmatch("[0-9a-f]{40,64}", parts[at]) for at in (1, 3)):
        raise Usage(
            f"{line[:200]!r} is not what git tells a pre-push hook: LOCAL-REF LOCAL-ID REMOTE-REF "
            "REMOTE-ID. The hook calls this by itself when you run git push."
        )
    return Push(*parts)


def covering(root: str, remote: str, url: str, push: Push) -> tuple[Guard, ...]:
    """The guards that this push of one ref meets. A remote whose URL is pushed to is meant even
    where the push names the URL, or another remote with the same one."""
    names = _names(root, remote, url)
    return tuple(
        guard
        for guard in guards_in_force(root, push.remote_oid, push.local_oid)
        if any(guard.covers(name, url, push.remote_ref) for name in names)
    )


def known_there(root: str, remote: str, url: str, push: Push) -> list[str]:
    """What git may leave out of a push: what is on the remote, as far as is known here; where it
    has no name, what is on any."""
    remotes = (git.line(root, "remote") or "").split("\n")
    names = sorted(_names(root, remote, url).intersection(remotes))
    known = [f"--remotes={name}" for name in names] or ["--remotes"]
    is_here = git.ask(root, "cat-file", "-e", f"{push.remote_oid}^{{commit}}") is not None
    return [*known, push.remote_oid] if is_here and not push.creates else known


def guards_in_force(root: str, *oids: str) -> tuple[Guard, ...]:
    """The guards of the working tree, and those of each of these commits that is known here.

    With the commit that the remote has now, a push cannot drop its own guard; with the one that
    is pushed, it does not matter which branch is checked out. Raises Usage where one of them has
    rules that cannot be read."""
    guards = list(project.load(root).guards)
    for oid in oids:
        guards += _guards_at(root, oid)
    return tuple(dict.fromkeys(guards))


def _guards_at(root: str, oid: str) -> tuple[Guard, ...]:
    if _is_nothing(oid) or git.ask(root, "cat-file", "-e", f"{oid}^{{commit}}") is None:
        return ()
    where = f"{project.FILE} of {oid[:12]}"
    entry = git.ask(root, "ls-tree", "-z", "--full-tree", oid, "--", project.FILE)
    if entry == b"":
        return ()
    data = git.ask(root, "cat-file", "blob", f"{oid}:{project.FILE}") if entry else None
    if data is None:
        raise Usage(f"{where} cannot be read.", file=project.FILE)
    return project.decode(data, where).guards


def _names(root: str, remote: str, url: str) -> set[str]:
    """What the remote is called here: as the push calls it, and by every other name it has."""
    names = {remote}
    for name in (git.line(root, "remote") or "").split("\n"):
        urls = git.line(root, "remote", "get-url", "--push", "--all", name) if name else None
        urls = (urls or "") + "\n" + (git.line(root, "remote", "get-url", name) or "")
        if any(normalised(each) == normalised(url) for each in urls.split("\n") if each):
            names.add(name)
    return names


def _is_nothing(oid: str) -> bool:
    return not oid.strip("0")
