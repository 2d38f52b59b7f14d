"""What people are to know about a setting up or a taking back, beside the files that change."""

from collections.abc import Sequence

from interlock.agents.setup import files
from interlock.agents.setup import inspect as looking
from interlock.agents.setup.clients import Caller
from interlock.agents.setup.documents import Document, anothers_server
from interlock.agents.setup.own_entries import SERVER
from interlock.agents.setup.places import USER, Place
from interlock.agents.setup.planning import Plan, users_of
from interlock.agents.setup.records import Record
from interlock.verbs.addresses import address
from interlock.verbs.spelling import listed

Notice = dict[str, str]


def about_setting(
    place: Place, caller: Caller, documents: Sequence[Document], others: Sequence[Record]
) -> list[Notice]:
    """Others whose client is renamed by it, and a workspace that not every project has."""
    renamed = [other for other in others if other.sender != caller.sender]
    notices = [
        _notice(
            "SHARED_FILE",
            f"{document.file} is used by {_places(users)} too: what stands in it acts as "
            f"{address(caller.sender)} from now on, there as well.",
        )
        for document in documents
        if (users := users_of(document, renamed))
    ]
    notices += [
        _notice(
            "OTHERS_SERVER",
            f"{document.file} has another MCP server called {SERVER}, in whose place ours stands "
            "now. Taking ours back (--undo) brings it back.",
        )
        for document in documents
        if anothers_server(document, files.read(document.file))
    ]
    if place.user and caller.is_repositorys:
        notices.append(
            _notice(
                "WORKSPACE_OF_ONE_REPOSITORY",
                "The workspace here is this repository's own, so your configuration names none: "
                "in each project the client finds the one that is there, and acts as "
                f"{address(caller.sender)} where that has joined.",
            )
        )
    return notices


def about_taking_back(plan: Plan, client: str, place: Place | None) -> list[Notice]:
    """What stays, and why."""
    notices = [
        _notice("CHANGED_SINCE", f"{file} was changed since, and was left alone.")
        for file in plan.left
    ]
    notices += [
        _notice(
            "SHARED_FILE",
            f"{file} stays as it is, because it is used by {_places(users)} too. Whoever takes it "
            "back last takes Interlock out of it.",
        )
        for file, users in plan.shared
    ]
    changed = {change.file for change in plan.changes if change.after != change.before}
    if place is not None and not place.user and looking.is_users(client, place, but=changed):
        notices.append(
            _notice(
                "USERS_CONFIGURATION",
                "Interlock stands in your own configuration, for every project. To take it out "
                f"there: interlock setup {client} --user --undo",
            )
        )
    return notices


def _places(users: Sequence[str]) -> str:
    return listed(["your own configuration" if user == USER else user for user in users])


def _notice(code: str, message: str) -> Notice:
    return {"code": code, "message": message}
