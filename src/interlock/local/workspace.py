"""The place of a workspace, the credentials kept in it, and the sender that acts: for doors on the
user's own machine. Nothing here is a rule; the node decides what a credential allows."""

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
    """A credential kept in a workspace."""

    sender: str
    token: str


def find(named: str | None, environ: Mapping[str, str], cwd: str) -> str:
    """The workspace's directory, or a server's URL: the one named, else one made for this place,
    else the user's."""
    named = named or environ.get("INTERLOCK_WORKSPACE") or None
    if named is None:
        return nearest(cwd) or default(environ)
    if "://" in named:
        return named.rstrip("/")
    if "\0" in named or not unicode(named):
        raise Usage("A workspace is the path of a directory, in UTF-8.")
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(named)))


def nearest(cwd: str) -> str | None:
    """A workspace made by `init --here`, in this directory or above it. Raises EngineUnavailable
    for a directory that may have one and cannot be read: a caller that acted in another workspace
    would miss all claims."""
    is_within = False
    for place in _upwards(cwd):
        # Ignore a parent directory that we cannot traverse, and one that another user keeps
        # closed. Only the repository that we are in must be readable, unless we have passed the
        # root of another one already.
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
    """Where `init --here` makes one: in the git common directory, so that every worktree of the
    repository shares it, or in `.interlock` where there is no repository."""
    found = next(filter(None, map(_in_git, _upwards(cwd))), None)
    return found or os.path.join(os.path.abspath(cwd), LOCAL)


def _upwards(cwd: str) -> Iterator[str]:
    """The directory, its parent, and so on."""
    place, below = os.path.abspath(cwd), None
    while place != below:
        yield place
        place, below = os.path.dirname(place), place


def hide_from_git(directory: str) -> None:
    """A workspace has tokens and keys: a repository made around it must not track them."""
    with open(os.path.join(directory, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")


def _is_workspace(directory: str) -> bool:
    """Whether a log is there, or a note of where it is kept."""
    return any(_is_there(os.path.join(directory, name)) for name in ("log.db", "engine.json"))


def _is_closed_by_other(path: str) -> bool:
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return False
    return owner != os.geteuid() and not os.access(path, os.X_OK) and os.path.isdir(path)


def _in_git(place: str) -> str | None:
    """`interlock` in the git common directory, if a work tree has its root here."""
    dot_git = os.path.join(place, ".git")
    if os.path.isdir(dot_git):
        return os.path.join(dot_git, IN_GIT)
    pointer = _first_line(dot_git)
    if pointer is None or not pointer.startswith("gitdir: "):
        return None
    git_dir = os.path.join(place, pointer.removeprefix("gitdir: "))
    # A linked worktree's directory points to the common one; any other is the common one itself.
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
    return shut_out(place, f"{place} cannot be looked at from here, and a workspace may be there.")


def link(place: str, environ: Mapping[str, str]) -> Link:
    """The link to the workspace at a directory or a URL."""
    if "://" not in place:
        return LocalLink(place)
    name = "".join(c if c.isalnum() else "_" for c in place.partition("://")[2])
    return RemoteLink(place, os.path.join(data(environ), "servers", name[:200]))


def default(environ: Mapping[str, str]) -> str:
    """The user's own workspace, one for all repositories."""
    return os.path.join(data(environ), "default")


def data(environ: Mapping[str, str]) -> str:
    """The directory of Interlock's files for a user."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        data = os.path.join(home, "Library", "Application Support")
    else:
        data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(data, "interlock")


def owner_token(directory: str) -> str | None:
    """The token of the workspace's owner, once a server has made one."""
    try:
        with open(os.path.join(directory, OWNER), encoding="utf-8") as file:
            return str(json.load(file)["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def dashboard(url: str, directory: str) -> str:
    """The link that signs its holder in as the owner. Browsers send no server the part after #."""
    return f"{url}/#token={owner_token(directory)}"


class CredentialStore:
    """Tokens kept in a workspace, one file a sender, readable by their owner alone."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "credentials")

    def senders(self) -> list[str]:
        return [kept.sender for _, kept in self.files() if kept]

    def files(self) -> list[tuple[str, Kept | None]]:
        """The path of every credential's file, and the credential, if it can be read."""
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(".json"))
        except OSError:
            return []
        return [(os.path.join(self._directory, name), self._read(name)) for name in names]

    def get(self, sender: str) -> Kept | None:
        return self._read(filename(sender) + ".json")

    @contextmanager
    def slot(self) -> Iterator[Callable[[str, str], str]]:
        """A function that keeps the token of a sender at mode 0600, in one step, and returns the
        file's path. Raises EngineUnavailable before the node makes a token that could not be kept,
        and would be lost."""
        draft = os.path.join(self._directory, f".{os.urandom(8).hex()}")
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as trouble:
            raise EngineUnavailable(
                f"A token cannot be kept in {self._directory}: {trouble.strerror}."
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
    """The credentials of the caller: a token in the environment, else the sender of a session or
    of the client that runs us, else `--from`, else (for verbs of the owner) the owner, else the
    only credential there is. Raises UnknownSender or NoIdentity."""
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
    link.open()  # a place that is no workspace is the first thing to say
    if senders:
        why = f"Say who acts: --from SENDER. There are: {', '.join(map(address, senders))}."
    elif link.is_local:
        why = "Nobody has joined this workspace from here yet. Begin with: interlock join NAME"
    else:
        why = (
            f"{link.place} wants a token: set INTERLOCK_TOKEN. On the server's machine, interlock "
            "join NAME --json makes a sender and prints its token."
        )
    raise NoIdentity(why, senders=[address(name) for name in senders])


def as_configured(
    link: Link, environ: Mapping[str, str], *, named: str | None, session: str | None
) -> Credentials:
    """The credentials for a client whose configuration names the sender. That goes before the
    window that we are inside, since another client may have started this one."""
    if named is None or is_inside(environ):
        return who_acts(link, environ, named=named, session=session, owner_may=False)
    return Credentials(token=kept(link, named).token, session=session)


def is_inside(environ: Mapping[str, str]) -> bool:
    """Whether the environment names the sender, as in a shell of `interlock run`."""
    return bool(environ.get("INTERLOCK_TOKEN") or environ.get("INTERLOCK_SESSION"))


def kept(link: Link, sender: str) -> Kept:
    """The credential of a sender, or `UnknownSender`."""
    sender = sender.removeprefix("@")
    store = CredentialStore(link.home)
    if found := store.get(sender):
        return found
    _refuse_closed(link)
    senders = store.senders()
    raise UnknownSender(
        f"No credential for {sender[:80]!r} is kept in this workspace. "
        + (f"There are: {', '.join(map(address, senders))}. " if senders else "")
        + "To make a new sender: interlock join NAME [--surface S]",
        senders=[address(name) for name in senders],
    )


def _refuse_closed(link: Link) -> None:
    """Raises EngineUnavailable where credentials may exist that we cannot read, or where there is
    no workspace and we cannot make one: to join it would not help."""
    for place in (link.home, os.path.join(link.home, "credentials")):
        if os.path.isdir(place) and not os.access(place, os.R_OK | os.X_OK):
            raise shut_out(link.home, f"{place} cannot be looked at from here.")
    if link.is_local:
        directory = os.path.abspath(link.place)
        above = next(filter(os.path.exists, _upwards(directory)))
        if above != directory and not os.access(above, os.W_OK | os.X_OK):
            raise shut_out(directory, f"No workspace in {directory} can be seen or made from here.")
