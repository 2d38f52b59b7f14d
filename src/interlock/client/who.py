"""The credentials of a client."""

import os
from contextlib import closing

from interlock.local import workspace
from interlock.verbs.credentials import Credentials
from interlock.verbs.verb import Verb


class Who:
    """The credentials of a client: the given token, else those that the command would use. They
    are settled with the first request that needs them."""

    def __init__(self, place: str, token: str | None, session: str | None) -> None:
        self._place, self._token, self._session = place, token, session
        self._found: dict[bool, Credentials] = {}

    def known(self, request: Verb) -> Credentials | None:
        if request.declared.anyone:
            return Credentials()
        return self._found.get(not request.needs_sender())

    def credentials(self, request: Verb) -> Credentials:
        """Find the credentials on first use, which may open the workspace."""
        found = self.known(request)
        if found is None:
            owner_may = not request.needs_sender()
            found = self._found[owner_may] = self._settle(owner_may=owner_may)
        return found

    def _settle(self, *, owner_may: bool) -> Credentials:
        environ = os.environ
        if self._token is not None:
            # A session is its sender's: another token has nothing to do with it.
            same = self._token == environ.get("INTERLOCK_TOKEN")
            running = environ.get("INTERLOCK_SESSION") if same else None
            return Credentials(token=self._token, session=self._session or running or None)
        with closing(workspace.link(self._place, environ)) as link:
            return workspace.who_acts(
                link, environ, named=None, session=self._session, owner_may=owner_may
            )
