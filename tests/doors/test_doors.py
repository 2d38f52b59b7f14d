"""Every verb at every door: the same outcome and the same error object, from one table.

The table is `world/rows`. The test runs each row at each door that offers its verb, in a new
workspace. All members of the answers must be equal. The doors derive the client's method, the route
and the words of the command from the declaration. `SPELLED` has some of them by hand, so that a
wrong derivation does not confirm itself.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock import errors
from interlock.client import Client
from interlock.client.asking import Method
from interlock.doors.cli.lookup import all_commands
from interlock.doors.mcp.tools import offered_tools
from interlock.rooms import catalogue
from interlock.rooms.claims import verbs as claims
from interlock.rooms.identity import verbs as identity
from interlock.rooms.mail import verbs as mail
from interlock.rooms.people import verbs as people
from interlock.rooms.work import verbs as work
from interlock.rooms.workspace import verbs as workspace
from interlock.verbs.verb import Verb
from world.chosen import restores
from world.commandline import Place
from world.doors import COMMANDS, DOORS, TOOLS, Workspace, is_offered, method_of
from world.doors import spelled as spelled_command
from world.fork_server import Servers
from world.furnished import Furnished
from world.playing import Stages, check_outcomes
from world.row import Row
from world.rows import ROUTED, ROWS, working

pytestmark = pytest.mark.every_engine

# Codes that no row has, each with the reason.
ELSEWHERE = {
    "FOREIGN_ORIGIN": "only browsers send an origin",
    "ENGINE_UNAVAILABLE": "different parts can be unavailable at each door",
    "LOG_FORKED": "a state of the engine: see tests/stores/shared/test_losses.py",
    "NEWER_VERSION": "a state of the file: see test_bad_input.py",
    "UNSAFE_FILESYSTEM": "a state of the file",
    "OTHER_HOST": "a state of the file: see test_bad_input.py",
    "ADDRESS_UNAVAILABLE": "only a server that starts refuses with it: see test_lifecycle.py",
    "INTERNAL": "no request should cause it",
}


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=restores if row.restores else ()) for row in ROWS]
)
def test_verb_has_the_same_outcome_at_every_door(
    row: Row, furnished: Furnished, tmp_path: Path, servers: Servers
) -> None:
    with Stages(row, furnished, tmp_path, servers) as stages:
        outcomes = {door.name: stages.play(door) for door in DOORS if is_offered(row, door)}
    check_outcomes(row, furnished, outcomes)


@pytest.mark.parametrize("verb", ROUTED, ids=lambda verb: verb.__name__)
def test_every_verb_has_a_row_that_succeeds(verb: type[Verb]) -> None:
    assert working(verb)


def test_names_of_rows_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_code_has_a_row_or_a_reason() -> None:
    every = {kind.code for kind in vars(errors).values() if hasattr(kind, "code")}
    covered = {row.code for row in ROWS if row.code is not None}
    assert covered & set(ELSEWHERE) == set()
    assert every - covered == set(ELSEWHERE)


def test_verbs_without_a_route_are_for_sign_in_or_the_node() -> None:
    # The web pages and OAuth endpoints call these verbs. The node calls Inspect and Maintain.
    unrouted = {verb for verb in catalogue.verbs() if not verb.declared.http}
    by_node = {workspace.Inspect, workspace.Maintain}
    assert {verb.__module__ for verb in unrouted - by_node} == {people.__name__}


# --- the offers of each door


def test_every_verb_is_a_method_of_the_client() -> None:
    methods = {name for name in dir(Client) if isinstance(getattr(Client, name), Method)}
    assert methods == {method_of(verb) for verb in ROUTED}


# The verbs that no command calls by name.
NO_COMMAND = {
    # part of another command
    *("PutChunk", "DropUpload", "FindAnswer", "StopWaiting", "PrepareEvidence", "PrepareVerdict"),
    *("CheckGate", "ProveMany"),
    # `interlock run` and hooks
    *("StartSession", "FindSession", "KeepSession", "EndSession", "Attend"),
    # for programs that show mail and events
    *("ListMail", "ListEvents"),
}


def test_every_verb_has_a_command_or_is_in_the_list_without_one() -> None:
    assert {verb.__name__ for verb in ROUTED if verb not in COMMANDS} == NO_COMMAND


# Commands that call no verb: they start a process, print text, need no workspace, or read a file or
# a repository.
NO_VERB = {
    *("up", "down", "mcp", "run", "watch", "init", "audit check-proof", "schema", "completion"),
    *("task import", "evidence run", "gate run", "report", "scrub", "guard install", "guard push"),
    *("migrate", "repair", "setup", "hook"),
}


def test_every_command_calls_a_verb_or_is_in_the_list_without_one() -> None:
    of_verbs = {name for commands in COMMANDS.values() for name in commands}
    assert {command.name for command in all_commands()} == of_verbs | NO_VERB
    assert not of_verbs & NO_VERB


def test_every_tool_calls_verbs_of_the_table() -> None:
    assert {*offered_tools()} == {tool for tool, _ in TOOLS.values()}


def test_only_verbs_that_use_files_of_the_server_are_local() -> None:
    local = {method_of(verb) for verb in ROUTED if verb.declared.local}
    assert local == {"export", "backup", "restore", "rebuild"}


class Spelled(NamedTuple):
    """A request in the form of each door, written by hand."""

    verb: type[Verb]
    fields: dict[str, Any]
    method: str
    route: str
    words: str


SPELLED = [
    Spelled(
        mail.SendMessage,
        {"to": "@vera", "payload": {"text": "hi"}, "reply_to": "abcdef", "ttl_s": 60},
        "send",
        "POST /v1/messages",
        "send --reply-to abcdef --ttl 60 @vera hi",
    ),
    Spelled(
        mail.AckMessages,
        {"messages": ["abcdef", "#7"], "decline": True},
        "ack",
        "POST /v1/acks",
        "ack --decline abcdef #7",
    ),
    Spelled(
        mail.ShowThread,
        {"message": "abcdef", "limit": 5},
        "thread",
        "GET /v1/messages/{message}/thread",
        "thread --limit 5 abcdef",
    ),
    Spelled(
        claims.AcquireClaim,
        {"paths": ["src/**", "doc"], "repo": "r", "wait_s": 9, "everywhere": True},
        "acquire",
        "POST /v1/claims",
        "claim acquire --path src/** --path doc --repo r --wait 9 --everywhere",
    ),
    Spelled(
        claims.TakeOverClaim,
        {"item": "B-1", "reason": "away"},
        "take_over",
        "POST /v1/claims/take-over",
        "claim take-over --item B-1 --reason away",
    ),
    Spelled(
        work.CreateTask,
        {"title": "x", "criteria": ["a"], "depends_on": ["T-1", "T-2"], "labels": ["ui"]},
        "create_task",
        "POST /v1/tasks",
        "task create --title x --criterion a --depends-on T-1 --depends-on T-2 --label ui",
    ),
    Spelled(
        work.GiveVerdict,
        {"task": "T-4", "gate": "athena", "verdict": "fail", "fix": ["make"]},
        "judge",
        "POST /v1/verdicts",
        "gate fail --fix make T-4 athena",
    ),
    Spelled(
        work.RaiseBlocker,
        {"what": "slow", "task": "T-3", "severity": "warn"},
        "raise_blocker",
        "POST /v1/blockers",
        "blocker raise --severity warn T-3 slow",
    ),
    Spelled(
        identity.CreateGroup,
        {"name": "crew", "members": ["@nova"]},
        "create_group",
        "POST /v1/groups",
        "group create --member @nova crew",
    ),
    Spelled(
        identity.Mute, {"name": "nova", "off": True}, "mute", "POST /v1/mute", "mute --off nova"
    ),
    Spelled(
        people.RevokeConnection,
        {"id": "con_1"},
        "revoke_connection",
        "POST /v1/connections/{id}/revoke",
        "connection revoke con_1",
    ),
    Spelled(
        workspace.Prove,
        {"since": 3},
        "prove",
        "GET /v1/audit/proof",
        "audit prove --since 3",
    ),
]


@pytest.mark.parametrize("spelled", SPELLED, ids=lambda spelled: spelled.method)
def test_verb_has_the_handwritten_form_at_each_door(spelled: Spelled, tmp_path: Path) -> None:
    at = Workspace(Place(tmp_path), {}, "")
    assert method_of(spelled.verb) == spelled.method
    assert spelled.verb.declared.http == spelled.route
    assert spelled_command(spelled.verb, spelled.fields, at) == spelled.words.split()
