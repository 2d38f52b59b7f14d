"""The description at /openapi.json held against the server, by requests made up from it: no status,
type or shape of an answer that it does not describe, and no defect.

Left out is what would end the world for all that comes after: pausing the workspace, which makes
every further answer a 503, and revoking or rotating tokens, by which the token that asks could go.
The stream of events has no end that a made-up request could wait for; test_events.py has it.
"""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema

from interlock.doors.http.openapi import document
from world.commandline import LIMIT_S, Place
from world.fork_server import Servers
from world.server import ForkedServer, RunningServer

DOCUMENT = document()
LEFT_OUT = ["/v1/pause", "/v1/resume", "/v1/tokens/revoke", "/v1/tokens/rotate", "/v1/events"]
# Two checks are left out. A request that fits its schema may be refused, because it may name things
# that do not exist. A query that does not fit may be accepted, because a list of one value is that
# value there. test_api.py has the requests that must be refused.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.ignored_auth,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


def described(*, is_covered: bool) -> BaseSchema:
    """What is asked for by chance; and, where it is covered, each bound of each value besides."""
    schema = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))
    schema.config.phases.coverage.enabled = is_covered
    return schema.exclude(path=LEFT_OUT)


class FuzzedServer(NamedTuple):
    """A server, an admin's token, and what can be asked for by name."""

    served: RunningServer
    token: str
    known: dict[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[FuzzedServer]:
    with ForkedServer(Place(tmp_path_factory.mktemp("described")), servers) as served:
        token = served.place.join("ada", None, "--scope", "admin")
        sent = served.send(token, "@ada", "Hello.").json["message"]["id"]
        claim = served.ask("POST", "/v1/claims", {"item": "B-1"}, token=token).json["claim"]["id"]
        yield FuzzedServer(served, token, {"message": sent, "messages": sent, "id": claim})


def test_what_is_served_is_what_is_tested(server: FuzzedServer) -> None:
    assert server.served.ask("GET", "/openapi.json").json == DOCUMENT


by_chance = settings(
    max_examples=12,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@described(is_covered=False).parametrize()
@by_chance
def test_every_answer_is_as_described(case: schemathesis.Case[Any], server: FuzzedServer) -> None:
    check(case, server)


@pytest.mark.long
@described(is_covered=True).parametrize()
@by_chance
def test_every_answer_at_every_bound_is_as_described(
    case: schemathesis.Case[Any], server: FuzzedServer
) -> None:
    check(case, server)


def check(case: schemathesis.Case[Any], server: FuzzedServer) -> None:
    familiar(case, server.known)
    case.call_and_validate(
        base_url=server.served.url,
        headers={"Authorization": f"Bearer {server.token}"},
        checks=CHECKS,
        timeout=LIMIT_S,
    )


def familiar(case: schemathesis.Case[Any], known: dict[str, str]) -> None:
    """Shorten waits, and replace every second random name by one that exists."""
    for members in (case.query, case.body):
        if not isinstance(members, dict):
            continue
        wait = members.get("wait")
        # The bounds of a value in a query are text.
        if isinstance(wait, int) or (isinstance(wait, str) and wait.isdecimal()):
            members["wait"] = type(wait)(min(int(wait), 1))
    if case.path == "/v1/asks" and isinstance(case.body, dict):
        case.body.setdefault("wait", 1)
    is_positive = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    for name, value in list(case.path_parameters.items()):
        if is_positive and name in known and len(value) % 2:
            case.path_parameters[name] = known[name]
