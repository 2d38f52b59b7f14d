"""The context of a command: the parsed words, the workspace, the sender, and standard input."""

import os
import sys
from typing import TYPE_CHECKING, Any

from interlock.doors.cli.grammar import Argument, Flag, Parsed
from interlock.errors import InvalidMessage, NotFound, Usage
from interlock.local import workspace
from interlock.local.link import Link, LocalLink
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

if TYPE_CHECKING:
    from interlock.verbs.verb import Verb


class Context:
    """The context of one command. It opens the workspace on first use, because some commands need
    none. `standing` is the caller's directory, if it differs from the process's directory."""

    def __init__(self, parsed: Parsed) -> None:
        self.command = parsed.command
        self.values = parsed.values
        self.rest = parsed.rest
        self.json: bool = parsed.values.get("json", False)
        self.standing: str | None = None
        self._link: Link | None = None

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    @property
    def place(self) -> str:
        """The workspace's directory, or its server's URL."""
        standing = self.standing
        if not standing:
            try:
                standing = os.getcwd()
            except OSError:  # the directory was removed
                standing = os.sep
        return workspace.find(self.get("workspace"), os.environ, standing)

    @property
    def link(self) -> Link:
        if self._link is None:
            self._link = workspace.link(self.place, os.environ)
        return self._link

    def credentials(self, *, owner_may: bool = False) -> Credentials:
        return workspace.who_acts(
            self.link,
            os.environ,
            named=self.get("from"),
            session=self.get("session"),
            owner_may=owner_may,
        )

    def request(self, **more: Any) -> "Verb":
        """The request that the command line makes, with `more` fields. `-` reads standard input,
        and the path of a file becomes absolute."""
        from interlock.doors.cli.derived import field_of
        from interlock.verbs.types import ABSOLUTE_PATH

        given = dict(more)
        specs: list[Argument | Flag] = [*self.command.arguments, *self.command.flags]
        for spec in specs:
            field = field_of(self.command.verb, spec.name)
            if field is None or field.name in more or spec.key not in self.values:
                continue
            value = self.values[spec.key]
            if value == "-" and spec.form.strip("[]").endswith("|-"):
                value = read_text()
            elif field.shape is ABSOLUTE_PATH:
                value = absolute(value)
            given[field.name] = tuple(value) if type(value) is list else value
        request: Verb = self.command.verb(**given)
        return request

    def call_verb(self) -> Answer:
        """Call the verb of the command, with the values of the command line."""
        request = self.request()
        if getattr(request, "paths", ()) or getattr(request, "worktree", None) is not None:
            from interlock.local.repository import located

            request = located(request)
        credentials = self.credentials(owner_may=not request.needs_sender())
        return self.link.call(credentials, request)

    def call(self, request: Any) -> Answer:
        """Call a verb as the sender."""
        return self.link.call(self.credentials(), request)

    def call_as_owner(self, request: Any) -> Answer:
        """Call a verb that the owner of an embedded workspace may call, without an identity."""
        return self.link.call(self.credentials(owner_may=True), request)

    def store(self) -> workspace.CredentialStore:
        self.link.open()
        return workspace.CredentialStore(self.link.home)

    def text(self, given: str) -> str:
        """A TEXT argument, or standard input where it is `-`."""
        return read_text() if given == "-" else given

    @property
    def silent(self) -> int | None:
        """The process of the workspace's server, if it did not answer a request."""
        return self._link.silent if isinstance(self._link, LocalLink) else None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        if self.silent is not None and not self.json and sys.stderr is not None:
            sys.stderr.write(
                f"The server (process {self.silent}) does not answer. To find out why: "
                "interlock doctor\n"
            )


def read_text() -> str:
    """Return all of standard input, unchanged."""
    if sys.stdin is None:
        raise Usage("Standard input is closed. Pass the text through a pipe or a file.")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidMessage(
            f"Standard input is not UTF-8 text: byte {wrong.start} is not valid. Nothing was sent."
        ) from None


def read_file(path: str, max_bytes: int = -1) -> bytes:
    """The content of a file, up to a number of bytes. Raises NotFound."""
    try:
        with open(path, "rb") as file:
            return file.read(max_bytes)
    except OSError as trouble:
        raise NotFound(f"Cannot read {path}: {trouble.strerror}.") from None


def here_and_now() -> str:
    """The working directory. Raises Usage if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        raise Usage("The current directory was removed. Change to another directory.") from None


def absolute(path: str) -> str:
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(here_and_now(), path))
