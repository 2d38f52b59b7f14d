"""Compare the server with /openapi.json, by requests generated from it. Every answer has a
described status, type and shape, and no request causes a defect.

EXCLUDED has routes that would break later requests. A pause makes every later answer a 503.
Revoking or rotating a token could invalidate the token of this test. The stream of events does not
end, so a generated request cannot wait for it; test_events.py tests it.
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
EXCLUDED = ["/v1/pause", "/v1/resume", "/v1/tokens/revoke", "/v1/tokens/rotate", "/v1/events"]
# Two checks are not in this list. The server may refuse a request that matches its schema, because
# it may name things that do not exist. The server may accept a query that does not match, because a
# list of one value equals that value. test_api.py has the requests that must be refused.
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
    """Return the schema for random requests. With `is_covered`, also test each bound of a value."""
    schema = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))
    schema.config.phases.coverage.enabled = is_covered
    return schema.exclude(path=EXCLUDED)


class FuzzedServer(NamedTuple):
    """A server, an admin's token, and existing values of path parameters."""

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


def test_server_serves_the_tested_document(server: FuzzedServer) -> None:
    assert server.served.ask("GET", "/openapi.json").json == DOCUMENT


random_requests = settings(
    max_examples=12,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@described(is_covered=False).parametrize()
@random_requests
def test_every_answer_matches_the_description(
    case: schemathesis.Case[Any], server: FuzzedServer
) -> None:
    check(case, server)


@pytest.mark.long
@described(is_covered=True).parametrize()
@random_requests
def test_every_answer_at_every_bound_matches_the_description(
    case: schemathesis.Case[Any], server: FuzzedServer
) -> None:
    check(case, server)


def check(case: schemathesis.Case[Any], server: FuzzedServer) -> None:
    adapt(case, server.known)
    case.call_and_validate(
        base_url=server.served.url,
        headers={"Authorization": f"Bearer {server.token}"},
        checks=CHECKS,
        timeout=LIMIT_S,
    )


def adapt(case: schemathesis.Case[Any], known: dict[str, str]) -> None:
    """Shorten waits, and replace about half of the random names by existing ones."""
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
