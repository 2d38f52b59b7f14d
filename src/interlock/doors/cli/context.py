"""What a command has at hand: what was typed, the workspace, who acts, and standard input."""

import os
import sys
from typing import TYPE_CHECKING, Any

from interlock.doors.cli.grammar import Parsed
from interlock.errors import InvalidMessage, NoIdentity, UnknownSender, Usage
from interlock.local import workspace
from interlock.local.link import Link, LocalLink
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

if TYPE_CHECKING:
    from interlock.verbs.verb import Verb


class Context:
    """Opened on first use, so that commands which need no workspace make none. Whoever asks may be
    `standing` elsewhere than this process."""

    def __init__(self, parsed: Parsed) -> None:
        self.values = parsed.values
        self.rest = parsed.rest
        self.json: bool = parsed.values.get("json", False)
        self.is_nobody = False
        self.standing: str | None = None
        self._link: Link | None = None

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    @property
    def place(self) -> str:
        """The workspace's directory, or its server's URL."""
        return workspace.find(self.get("workspace"), os.environ, self.standing or _place())

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

    def call_verb(self, verb: "type[Verb]") -> Answer:
        """The verb of a derived command, with the values of the command line."""
        from interlock.doors.cli.derived import request_of

        request = request_of(verb, self.values, read_text)
        if getattr(request, "paths", ()) or getattr(request, "worktree", None) is not None:
            from interlock.local.repository import located

            request = located(request)
        credentials = self.credentials(owner_may=not request.needs_sender())
        return self.link.call(credentials, request)

    def call(self, act: Any) -> Answer:
        """One verb as the sender that acts."""
        return self.link.call(self.credentials(), act)

    def call_as_owner(self, act: Any) -> Answer:
        """One verb that needs no identity on an embedded workspace, or is its owner's."""
        return self.link.call(self.credentials(owner_may=True), act)

    def call_as_somebody(self, act: Any) -> Answer:
        """One verb that needs no identity, as the sender that acts where one can be told: whoever
        has claimed something is not kept from it."""
        try:
            credentials = self.credentials()
        except (NoIdentity, UnknownSender):
            if self.get("from") is not None:
                raise
            credentials = self.credentials(owner_may=True)
        self.is_nobody = credentials.owner
        return self.link.call(credentials, act)

    def store(self) -> workspace.CredentialStore:
        self.link.open()
        return workspace.CredentialStore(self.link.home)

    def text(self, given: str) -> str:
        """A TEXT argument, or standard input where it is `-`."""
        return read_text() if given == "-" else given

    @property
    def silent(self) -> int | None:
        """The process of the workspace's server, where it was asked and did not answer."""
        return self._link.silent if isinstance(self._link, LocalLink) else None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        if self.silent is not None and not self.json and sys.stderr is not None:
            sys.stderr.write(
                f"The server (process {self.silent}) does not answer: see interlock doctor.\n"
            )


def read_text() -> str:
    """Standard input, whole and exactly as it is."""
    if sys.stdin is None:
        raise Usage("There is no standard input to read from.")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidMessage(
            f"Standard input is not UTF-8 text: byte {wrong.start} does not fit. Nothing was sent."
        ) from None


def _place() -> str:
    """Where to look for a workspace; nowhere, for somebody whose directory was removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def here_and_now() -> str:
    """The working directory, if it still exists."""
    try:
        return os.getcwd()
    except OSError:
        raise Usage("The directory you stand in was removed. Go to another one.") from None


def absolute(path: str) -> str:
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(here_and_now(), path))
