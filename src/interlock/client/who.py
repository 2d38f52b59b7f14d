"""Who acts through a client, and where path claims are meant."""

import os
from contextlib import closing
from typing import Any

from interlock import workspace
from interlock.contracts import acts
from interlock.contracts.acts import Credentials
from interlock.contracts.routes import ROUTES

# What a sender does: what only a sender can, and what ends something that others wait for. The rest
# may be done by whoever owns an embedded workspace, without being anybody in it.
PERSONAL = frozenset(
    {
        acts.SendMessage,
        acts.PutChunk,
        acts.DropUpload,
        acts.Ask,
        acts.AnswerAsk,
        acts.FindAnswer,
        acts.ListInbox,
        acts.ReadMessage,
        acts.AckMessages,
        acts.ShowReceipts,
        acts.ShowThread,
        acts.Search,
        acts.AcquireClaim,
        acts.RenewClaim,
        acts.ReleaseClaim,
        acts.TakeOverClaim,
        acts.StopWaiting,
        acts.CreateTask,
        acts.TakeTask,
        acts.SubmitTask,
        acts.CompleteTask,
        acts.FailTask,
        acts.CancelTask,
        acts.PrepareEvidence,
        acts.AddEvidence,
        acts.PrepareVerdict,
        acts.GiveVerdict,
        acts.RaiseBlocker,
        acts.ResolveBlocker,
        acts.Whoami,
        acts.StartSession,
        acts.EndSession,
        acts.KeepSession,
        acts.Attend,
    }
)
# What carries a secret of its own, whoever asks.
ANYONES = frozenset(route.act for route in ROUTES if route.anyone)


class Who:
    """The token that was given; else what the command would act as. Whoever it is by the first act
    that needs it, it stays, whatever changes in the environment or among the credentials kept."""

    def __init__(self, place: str, token: str | None, session: str | None) -> None:
        self._place, self._token, self._session = place, token, session
        self._found: dict[bool, Credentials] = {}

    def known(self, act: Any) -> Credentials | None:
        if type(act) in ANYONES:
            return Credentials()
        return self._found.get(_owner_may(act))

    def credentials(self, act: Any) -> Credentials:
        """Looks for them the first time, which may take a look into the workspace."""
        found = self.known(act)
        if found is None:
            found = self._found[_owner_may(act)] = self._settle(owner_may=_owner_may(act))
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


def _owner_may(act: Any) -> bool:
    return type(act) not in PERSONAL and not getattr(act, "mine", False)


def is_on_paths(act: Any) -> bool:
    return bool(getattr(act, "paths", ()))


def located(act: Any) -> Any:
    """An act on paths with the repository's own name, and the paths from its root: what is not
    said is the repository that one stands in."""
    if not is_on_paths(act):
        return act
    from interlock.repository import name_and_paths

    repo, paths = name_and_paths(act.repo, list(act.paths))
    return act._replace(repo=repo, paths=paths)
