"""Find the workspace, its stored credentials, and the sender of a command, for doors on the user's
own machine. This module contains no rule: the node decides what a credential allows."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from interlock.errors import EngineUnavailable, NoIdentity, UnknownSender, Usage
from interlock.local.link import Link, LocalLink, RemoteLink, shut_out
from interlock.verbs import Record
from interlock.verbs.addresses import address, filename, unicode
from interlock.verbs.credentials import Credentials

LOCAL = ".interlock"
IN_GIT = "interlock"
OWNER = "owner.json"


class Kept(Record):
    """A credential that is stored in a workspace."""

    sender: str
    token: str


def find(named: str | None, environ: Mapping[str, str], cwd: str) -> str:
    """Return the workspace's directory, or a server's URL: the named one, else a workspace of this
    directory or repository, else the user's own."""
    named = named or environ.get("INTERLOCK_WORKSPACE") or None
    if named is None:
        return nearest(cwd) or default(environ)
    if "://" in named:
        return named.rstrip("/")
    if "\0" in named or not unicode(named):
        raise Usage("The workspace must be the path of a directory, in valid UTF-8.")
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(named)))


def nearest(cwd: str) -> str | None:
    """Return a workspace that `init --here` created in this directory or above it. Raise
    EngineUnavailable for an unreadable directory that may contain one: in another workspace, the
    caller would miss all claims."""
    is_within = False
    for place in _upwards(cwd):
        # Ignore parent directories that we cannot traverse, and directories that another user has
        # closed. But the `.git` of the innermost repository must be readable.
        if os.access(place, os.X_OK):
            local = os.path.join(place, LOCAL)
            if not _is_closed_by_other(local) and _is_workspace(local):
                return local
            is_foreign = is_within and _is_closed_by_other(os.path.join(place, ".git"))
            in_git = None if is_foreign else _in_git(place)
            if in_git and _is_workspace(in_git):
                return in_git
        is_within = is_within or os.path.lexists(os.path.join(place, ".git"))
    return None


def here(cwd: str) -> str:
    """Return the directory in which `init --here` creates a workspace. In a repository, it is in
    the git common directory, which all worktrees share. Otherwise it is `.interlock`."""
    found = next(filter(None, map(_in_git, _upwards(cwd))), None)
    return found or os.path.join(os.path.abspath(cwd), LOCAL)


def _upwards(cwd: str) -> Iterator[str]:
    """Yield the directory, its parent, and so on."""
    place, below = os.path.abspath(cwd), None
    while place != below:
        yield place
        place, below = os.path.dirname(place), place


def hide_from_git(directory: str) -> None:
    """Write a `.gitignore`. A workspace contains tokens and keys, which git must not track if a
    repository is created around it."""
    with open(os.path.join(directory, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")


def _is_workspace(directory: str) -> bool:
    """Return whether the directory has a log, or a file that names its shared engine."""
    return any(_is_there(os.path.join(directory, name)) for name in ("log.db", "engine.json"))


def _is_closed_by_other(path: str) -> bool:
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return False
    return owner != os.geteuid() and not os.access(path, os.X_OK) and os.path.isdir(path)


def _in_git(place: str) -> str | None:
    """Return `interlock` in the git common directory, if `place` is the root of a work tree."""
    dot_git = os.path.join(place, ".git")
    if os.path.isdir(dot_git):
        return os.path.join(dot_git, IN_GIT)
    pointer = _first_line(dot_git)
    if pointer is None or not pointer.startswith("gitdir: "):
        return None
    git_dir = os.path.join(place, pointer.removeprefix("gitdir: "))
    # The git directory of a linked worktree points to the common directory. Any other git directory
    # is the common directory.
    common = os.path.join(git_dir, _first_line(os.path.join(git_dir, "commondir")) or ".")
    return os.path.normpath(os.path.join(common, IN_GIT)) if _is_there(common) else None


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\n")
    except PermissionError:
        raise _unreadable(path) from None
    except (OSError, UnicodeDecodeError):
        return None


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except PermissionError:
        raise _unreadable(path) from None
    except OSError:
        return False
    return True


def _unreadable(path: str) -> EngineUnavailable:
    place = os.path.dirname(path)
    return shut_out(place, f"Cannot read {place}, which may contain a workspace.")


def link(place: str, environ: Mapping[str, str]) -> Link:
    """Return the link to the workspace at a directory or a URL."""
    if "://" not in place:
        return LocalLink(place)
    name = "".join(c if c.isalnum() else "_" for c in place.partition("://")[2])
    return RemoteLink(place, os.path.join(data(environ), "servers", name[:200]))


def default(environ: Mapping[str, str]) -> str:
    """Return the user's own workspace, which is for all repositories."""
    return os.path.join(data(environ), "default")


def data(environ: Mapping[str, str]) -> str:
    """Return the directory of Interlock's files for a user."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        data = os.path.join(home, "Library", "Application Support")
    else:
        data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(data, "interlock")


def owner_token(directory: str) -> str | None:
    """Return the token of the workspace's owner, or None before a server has created it."""
    try:
        with open(os.path.join(directory, OWNER), encoding="utf-8") as file:
            return str(json.load(file)["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def dashboard(url: str, directory: str) -> str:
    """Return the URL that signs in as the owner. Browsers do not send the part after #."""
    return f"{url}/#token={owner_token(directory)}"


class CredentialStore:
    """The tokens in a workspace: one file for each sender, readable only by its owner."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "credentials")

    def senders(self) -> list[str]:
        return [kept.sender for _, kept in self.files() if kept]

    def files(self) -> list[tuple[str, Kept | None]]:
        """Return the path of every credential's file, with the credential; None for an unreadable
        one."""
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(".json"))
        except OSError:
            return []
        return [(os.path.join(self._directory, name), self._read(name)) for name in names]

    def get(self, sender: str) -> Kept | None:
        return self._read(filename(sender) + ".json")

    @contextmanager
    def slot(self) -> Iterator[Callable[[str, str], str]]:
        """Yield a function that stores the token of a sender atomically, with mode 0600, and
        returns the file's path. If the directory is not writable, raise EngineUnavailable at once,
        before the node mints a token that would be lost."""
        draft = os.path.join(self._directory, f".{os.urandom(8).hex()}")
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as trouble:
            raise EngineUnavailable(
                f"Cannot store a token in {self._directory}: {trouble.strerror}."
            ) from None

        def keep(sender: str, token: str) -> str:
            path = os.path.join(self._directory, filename(sender) + ".json")
            with open(draft, "w", encoding="utf-8") as file:
                json.dump({"sender": sender, "token": token}, file)
            os.replace(draft, path)
            return path

        try:
            yield keep
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    def _read(self, name: str) -> Kept | None:
        try:
            with open(os.path.join(self._directory, name), encoding="utf-8") as file:
                stored = json.load(file)
            kept = Kept(stored["sender"], stored["token"])
            is_valid = isinstance(kept.sender, str) and isinstance(kept.token, str)
            return kept if is_valid else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def who_acts(
    link: Link,
    environ: Mapping[str, str],
    *,
    named: str | None,
    session: str | None,
    owner_may: bool,
) -> Credentials:
    """Return the credentials of the caller: the first of these that exists.

    1. the token in the environment
    2. the sender of the surrounding client or session
    3. `--from`
    4. the owner, if `owner_may`
    5. the only stored credential

    Raise UnknownSender or NoIdentity."""
    store = CredentialStore(link.home)
    session = session or environ.get("INTERLOCK_SESSION") or None
    if token := environ.get("INTERLOCK_TOKEN"):
        return Credentials(token=token, session=session, claimed=named)
    from interlock.local.windows import surrounding

    running = environ.get("INTERLOCK_SESSION")
    window = surrounding(link.home) if not running else None
    if window is not None and (found := store.get(window.sender)):
        return Credentials(token=found.token, session=session or window.session, claimed=named)
    if running and link.is_local:
        from interlock.rooms.identity.verbs import FindSession

        answer = link.call(Credentials(owner=True), FindSession(running))
        if "sender" in answer:
            token = kept(link, answer["sender"]).token
            return Credentials(token=token, session=session, claimed=named)
    if named is not None:
        return Credentials(token=kept(link, named).token, session=session)
    if owner_may and link.is_local and not running:
        return Credentials(session=session, owner=True)
    senders = store.senders()
    if len(senders) == 1:
        return Credentials(token=kept(link, senders[0]).token, session=session)
    _refuse_closed(link)
    link.open()  # raises NotAWorkspace, which is the more useful refusal
    if senders:
        stored = ", ".join(map(address, senders))
        why = f"No sender selected. Select one: --from SENDER. The stored senders are {stored}."
    elif link.is_local:
        why = "No sender has joined this workspace yet. Register one: interlock join NAME"
    else:
        why = (
            f"{link.place} requires a token. Set INTERLOCK_TOKEN. To register a sender and print "
            "its token, run on the server's machine: interlock join NAME --json"
        )
    raise NoIdentity(why, senders=[address(name) for name in senders])


def as_configured(
    link: Link, environ: Mapping[str, str], *, named: str | None, session: str | None
) -> Credentials:
    """Return the credentials for a client whose configuration names the sender. The configuration
    overrides the surrounding window, because another client may have started this one."""
    if named is None or is_inside(environ):
        return who_acts(link, environ, named=named, session=session, owner_may=False)
    return Credentials(token=kept(link, named).token, session=session)


def is_inside(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names the sender, as in a shell of `interlock run`."""
    return bool(environ.get("INTERLOCK_TOKEN") or environ.get("INTERLOCK_SESSION"))


def kept(link: Link, sender: str) -> Kept:
    """Return the stored credential of a sender. Raise UnknownSender."""
    sender = sender.removeprefix("@")
    store = CredentialStore(link.home)
    if found := store.get(sender):
        return found
    _refuse_closed(link)
    senders = store.senders()
    raise UnknownSender(
        f"No credential for {sender[:80]!r} is stored in this workspace. "
        + (f"The stored senders are {', '.join(map(address, senders))}. " if senders else "")
        + "To register a new sender: interlock join NAME [--surface S]",
        senders=[address(name) for name in senders],
    )


def _refuse_closed(link: Link) -> None:
    """Raise EngineUnavailable if the directory of credentials is unreadable, or if there is no
    workspace and we cannot create one. In both cases `interlock join` would not help."""
    for place in (link.home, os.path.join(link.home, "credentials")):
        if os.path.isdir(place) and not os.access(place, os.R_OK | os.X_OK):
            raise shut_out(link.home, f"Cannot read {place}.")
    if link.is_local:
        directory = os.path.abspath(link.place)
        above = next(filter(os.path.exists, _upwards(directory)))
        if above != directory and not os.access(above, os.W_OK | os.X_OK):
            raise shut_out(directory, f"Cannot find or create a workspace in {directory}.")
