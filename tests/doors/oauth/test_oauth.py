"""The OAuth door as a client meets it, by plain HTTP: where everything is, how it comes to a token,
what the token opens, and how that ends."""

import base64
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from world.event_streams import listen
from world.people_and_apps import (
    REDIRECT,
    VERIFIER,
    App,
    Browser,
    Caller,
    answered,
    call_tool,
    fields_of,
)
from world.served_workspace import Serve, ServedWorkspace

SCOPES = ["mail", "claim", "work"]


@pytest.fixture(scope="module")
def workspace(serve: Serve) -> ServedWorkspace:
    """A server for the module, where the person vera owns the agent otto."""
    workspace = serve()
    workspace.add_person("vera", "otto")
    return workspace


# --- where everything is


def test_what_is_protected_says_who_gives_tokens_for_it(
    workspace: ServedWorkspace, stranger: Caller
) -> None:
    for path in ("", "/mcp"):
        answer = stranger.get(f"/.well-known/oauth-protected-resource{path}")
        assert answer.status_code == 200
        found = answer.json()
        assert found["resource"] == workspace.url + path
        assert found["authorization_servers"] == [workspace.url]
        assert found["scopes_supported"] == SCOPES
        assert found["bearer_methods_supported"] == ["header"]


def test_who_gives_tokens_says_where_and_how(workspace: ServedWorkspace, stranger: Caller) -> None:
    found = stranger.get("/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == workspace.url
    for name in ("authorization", "token", "registration", "revocation"):
        address = found[f"{name}_endpoint"]
        assert address.startswith(f"{workspace.url}/")
        method = "GET" if name == "authorization" else "POST"
        answer = stranger.http.request(method, urlsplit(address).path)
        assert answer.status_code in (400, 401)
    assert found["response_types_supported"] == ["code"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert set(found["grant_types_supported"]) == {"authorization_code", "refresh_token"}
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True


def test_every_name_of_this_machine_is_an_issuer_of_its_own(
    workspace: ServedWorkspace, stranger: Caller
) -> None:
    host = f"localhost:{workspace.server.port}"
    found = stranger.get("/.well-known/oauth-authorization-server", Host=host).json()
    assert found["issuer"] == f"http://{host}"


@pytest.mark.parametrize("host", ["localhost:1@evil.example", "127.0.0.1:x", "[::1]:1/evil"])
def test_a_host_that_hides_another_is_no_name_of_this_machine(stranger: Caller, host: str) -> None:
    answer = stranger.get("/.well-known/oauth-authorization-server", Host=host)
    assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")


@pytest.mark.parametrize(
    ("method", "target", "path"),
    [("POST", "/mcp", "/mcp"), ("GET", "/v1/whoami", ""), ("GET", "/v1/events", "")],
)
@pytest.mark.parametrize("token", [None, "ilk_nobodys"])
def test_who_shows_no_good_token_is_told_where_to_get_one(
    workspace: ServedWorkspace,
    stranger: Caller,
    method: str,
    target: str,
    path: str,
    token: str | None,
) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = stranger.http.request(method, target, headers=headers)
    challenge = answer.headers["www-authenticate"]
    assert answer.status_code == 401
    assert challenge.startswith("Bearer ")
    metadata = f"{workspace.url}/.well-known/oauth-protected-resource{path}"
    assert f'resource_metadata="{metadata}"' in challenge
    assert f'scope="{" ".join(SCOPES)}"' in challenge
    assert ('error="invalid_token"' in challenge) == (token is not None)
    assert stranger.get(urlsplit(metadata).path).json()["resource"] == workspace.url + path


# --- registering


def test_a_public_client_gets_an_id_and_no_secret(workspace: ServedWorkspace) -> None:
    about = App(workspace.server).about
    assert "client_secret" not in about
    assert about["redirect_uris"] == [REDIRECT]
    assert about["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_a_client_with_a_secret_shows_it_wherever_it_asks(
    workspace: ServedWorkspace, vera: Browser, method: str
) -> None:
    app = App(workspace.server, token_endpoint_auth_method=method)
    assert app.about["client_secret_expires_at"] == 0
    connected = app.connect(vera)
    connected.refresh()
    assert connected.tool().status_code == 200
    assert app.revoke(connected.token).status_code == 200
    assert connected.tool().status_code == 401


def test_a_revocation_with_another_secret_ends_nothing(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    app = App(workspace.server, token_endpoint_auth_method="client_secret_post")
    connected = app.connect(vera)
    refused = app.revoke(connected.token, client_secret="x")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert connected.tool().status_code == 200


def test_the_largest_registration_goes_all_the_way(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    """What is let in at first must not turn out to be too large later."""
    uris = [f"https://client.example/{number}/{'a' * 460}" for number in range(8)]
    name = "N" * 300
    largest = max(
        count
        for count in range(1, 9)
        if is_taken(workspace, {"redirect_uris": uris[:count], "client_name": name})
    )
    assert 4 < largest < 8
    app = App(workspace.server, redirect=uris[0], redirect_uris=uris[:largest], client_name=name)
    assert app.connect(vera).tool().status_code == 200


def is_taken(workspace: ServedWorkspace, metadata: dict[str, Any]) -> bool:
    return workspace.app.register(metadata).status_code == 201


def test_a_malformed_registration_is_in_the_log_once_in_a_while(
    workspace: ServedWorkspace, app: App
) -> None:
    for _ in range(30):
        assert app.register({}).status_code == 400
    kept = workspace.place.facts("request_refused")
    assert [fact["outcome"]["code"] for fact in kept].count("BAD_REGISTRATION") == 1


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/cb", "http://localhost/cb", "http://[::1]:1/"])
def test_a_program_on_this_machine_is_answered_at_whatever_port_was_free(
    workspace: ServedWorkspace, vera: Browser, uri: str
) -> None:
    app = App(workspace.server, redirect=uri)
    there = urlsplit(uri)
    host = f"[{there.hostname}]" if ":" in (there.hostname or "") else there.hostname
    app.redirect = f"http://{host}:54321{there.path}"
    back = vera.consent(app.asks())
    assert back.headers["location"].startswith(app.redirect + "?")
    assert app.exchange(answered(back)["code"]).status_code == 200


def test_an_app_is_answered_under_a_scheme_of_its_own(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    app = App(workspace.server, redirect="cursor://anysphere/callback")
    back = vera.consent(app.asks())
    assert back.headers["location"].startswith("cursor://anysphere/callback?code=")


# --- asking, consenting, and the code


def test_an_answer_says_whose_it_is_and_what_it_answers(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    allowed = answered(vera.consent(app.asks()))
    assert allowed.keys() == {"code", "state", "iss"}
    assert (allowed["state"], allowed["iss"]) == ("as it was", workspace.url)
    denied = answered(vera.consent(app.asks(), answer="deny"))
    assert denied == {"error": "access_denied", "state": "as it was", "iss": workspace.url}
    assert "state" not in answered(vera.consent(app.asks(state=None)))


def test_two_clicks_are_one_consent(workspace: ServedWorkspace, app: App, vera: Browser) -> None:
    page = vera.get(app.asks())
    chosen = {"sender": "new otto", "surface otto": "twice", "answer": "allow"}
    before = len(workspace.connections())
    first, second = (vera.submit("/consent", fields_of(page) | chosen) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["location"] == second.headers["location"]
    assert len(workspace.connections()) == before + 1
    assert app.exchange(answered(second)["code"]).status_code == 200
    late = vera.submit("/consent", fields_of(page) | chosen)
    assert late.status_code == 409
    assert "was used or has ended since" in late.text
    assert len(workspace.connections()) == before + 1


def test_another_choice_is_another_consent(app: App, vera: Browser) -> None:
    page = vera.get(app.asks())
    codes = {
        answered(vera.submit("/consent", fields_of(page) | {"answer": "allow"} | chosen))["code"]
        for chosen in ({"sender": "own otto"}, {"sender": "own vera"})
    }
    assert len(codes) == 2


def test_a_client_that_said_where_to_be_answered_says_it_again(app: App, vera: Browser) -> None:
    code = app.code(vera)
    refused = app.exchange(code, redirect_uri=None)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert app.exchange(code).status_code == 200
    for redirect in (None, REDIRECT):
        unsaid = app.code(vera, redirect_uri=None)
        assert app.exchange(unsaid, redirect_uri=redirect).status_code == 200


@pytest.mark.parametrize(
    "grant", ["password", "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "x"]
)
def test_another_grant_is_said_not_to_be_supported(app: App, grant: str) -> None:
    refused = app.exchange("x", grant_type=grant)
    assert (refused.status_code, refused.json()["error"]) == (400, "unsupported_grant_type")


def test_a_refresh_for_less_is_answered_with_what_it_truly_may(app: App, vera: Browser) -> None:
    connected = app.connect(vera)
    given = app.refresh(connected.refresh_token, scope="mail").json()
    connected.take(given)
    who = connected.tool().json()["result"]["structuredContent"]
    assert sorted(given["scope"].split()) == who["scopes"]


def test_a_registration_answers_with_what_is_registered_and_nothing_else(app: App) -> None:
    metadata = {
        "client_name": "A\tclient",
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "none",
        "scope": "admin openid",
        "grant_types": ["authorization_code", "refresh_token", "password"],
        "client_uri": "https://client.example",
        "logo_uri": "https://client.example/logo.png",
        "contacts": ["me@client.example"],
        "software_id": "x",
        "strange": True,
    }
    told = app.register(metadata)
    assert told.status_code == 201, told.text
    about = told.json()
    for name in ("client_id", "client_id_issued_at"):
        del about[name]
    assert about == {
        "client_name": "Aclient",
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "none",
        "scope": "mail claim work",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("com.example.app:/callback", 201),
        ("cursor://anysphere/callback", 201),
        ("vscode://publisher.extension/callback", 201),
        ("steam://run/1", 400),
        ("ms-settings:privacy", 400),
        ("chrome://settings", 400),
        ("x-apple://open", 400),
    ],
)
def test_a_scheme_is_a_clients_own_where_its_name_or_a_dot_says_so(
    app: App, uri: str, status: int
) -> None:
    about = {"redirect_uris": [uri], "token_endpoint_auth_method": "none"}
    assert app.register(about).status_code == status


def test_a_query_of_the_redirect_is_kept(workspace: ServedWorkspace, vera: Browser) -> None:
    app = App(workspace.server, redirect=f"{REDIRECT}?tenant=7")
    back = vera.consent(app.asks())
    assert answered(back)["tenant"] == "7"
    assert app.exchange(answered(back)["code"]).status_code == 200


def test_who_is_not_signed_in_signs_in_on_the_way(workspace: ServedWorkspace, app: App) -> None:
    browser, target = Browser(workspace.server), app.asks()
    page = browser.get(target)
    assert "Sign in" in page.text
    form = fields_of(page) | {"username": "vera", "password": "a sentence that nobody guesses"}
    back = browser.submit("/person/sign-in", form)
    browser.name = "vera"
    assert back.headers["location"] == target
    allowed = browser.consent(back.headers["location"])
    assert app.exchange(answered(allowed)["code"]).status_code == 200


def test_a_token_lasts_for_an_hour_and_is_not_to_be_kept_on_the_way(
    app: App, vera: Browser
) -> None:
    given = app.exchange(app.code(vera))
    assert given.headers["cache-control"] == "no-store"
    answer = given.json()
    assert answer["token_type"] == "Bearer"
    assert answer["expires_in"] == 3600
    assert answer["scope"] == " ".join(SCOPES)
    assert answer["access_token"] != answer["refresh_token"]


def test_a_client_is_whom_the_person_chose(app: App, vera: Browser) -> None:
    connected = app.connect(vera, "new otto")
    who = connected.tool().json()["result"]["structuredContent"]
    assert (who["sender"], who["agent"], who["kind"]) == ("otto-claude", "otto", "agent")
    sent = connected.tool("send", to="@vera", text="From a connector.").json()["result"]
    assert sent["structuredContent"]["message"]["from"] == "@otto-claude"
    other = app.connect(vera).tool().json()["result"]["structuredContent"]
    assert (other["sender"], other["unread"]) == ("vera", 1)


def test_a_message_of_a_connection_says_which_client_and_whose(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, "own otto")
    place, id = workspace.place, workspace.connections()[-1]["id"]
    place.ok("connection", "name", id, "On the train")
    sent = connected.tool("send", to="@vera", text="From a train.").json()["result"]
    message = sent["structuredContent"]["message"]["id"]
    about = {"id": id, "name": "On the train", "client": "Claude", "person": "@vera"}
    assert place.ok("explain", message)["connection"] == about
    shown = place.run("explain", message).text
    assert "Connection: 'On the train', of the client 'Claude', which acts for @vera." in shown


def test_a_client_that_acts_for_a_person_is_not_that_person(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, resource=workspace.url)
    assert connected.whoami().json()["kind"] == "agent"
    headers = {"Authorization": f"Bearer {connected.token}"}
    listed = app.get("/v1/connections", None, **headers)
    assert (listed.status_code, listed.json()["code"]) == (403, "MISSING_SCOPE")


def test_scopes_that_nobody_can_have_are_not_granted(app: App, vera: Browser) -> None:
    given = app.exchange(app.code(vera, scope="mail admin gate:athena openid"))
    assert given.json()["scope"] == "mail"


def test_what_a_connection_may_not_is_refused_with_the_scope_that_it_lacks(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, scope="mail", resource=workspace.url)
    headers = {"Authorization": f"Bearer {connected.token}"}
    refused = app.http.post("/v1/claims", json={"item": "B-1"}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "MISSING_SCOPE")
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="claim"' in challenge
    tool = connected.tool("claim", item="B-1").json()["result"]
    assert tool["isError"]
    assert tool["structuredContent"]["code"] == "MISSING_SCOPE"


# --- audiences


def test_a_token_for_the_whole_server_opens_both_doors(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, resource=f"{workspace.url}/")
    assert connected.whoami().status_code == 200
    assert connected.tool().status_code == 200


def test_without_a_resource_a_token_is_for_mcp(app: App, vera: Browser) -> None:
    connected = app.connect(vera, resource=None)
    assert connected.tool().status_code == 200
    assert connected.whoami().json()["code"] == "WRONG_AUDIENCE"


# --- what comes after


def test_a_refresh_gives_the_next_pair_and_ends_the_one_before(app: App, vera: Browser) -> None:
    connected = app.connect(vera)
    before = connected.token
    connected.refresh()
    assert connected.token != before
    assert connected.tool().status_code == 200
    assert call_tool(app, before, "whoami").status_code == 401
    connected.refresh()
    assert connected.tool().status_code == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_a_client_ends_its_connection_by_either_token(app: App, vera: Browser, which: str) -> None:
    connected = app.connect(vera)
    assert app.revoke(connected.given[which]).status_code == 200
    assert connected.tool().status_code == 401
    assert app.refresh(connected.refresh_token).json()["error"] == "invalid_grant"
    assert app.revoke(connected.given[which]).status_code == 200, "it is gone already"


def test_a_revocation_of_nothing_is_no_error(app: App) -> None:
    assert app.revoke("ilk_nobodys").status_code == 200
    assert app.revoke("x").status_code == 200


def test_connections_are_listed_named_and_revoked_one_by_one(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    place = workspace.place
    first = app.connect(vera, "own otto", resource=workspace.url)
    second = app.connect(vera, "own otto", resource=workspace.url)
    *_, one, two = workspace.connections()
    assert (one["address"], one["person"], one["client"]) == ("@otto", "@vera", "Claude")
    assert one["scopes"] == SCOPES
    named = place.ok("connection", "name", one["id"], "On the train")
    assert named["name"] == "On the train"
    with (
        listen(workspace.server, first.token) as ended,
        listen(workspace.server, second.token) as goes_on,
    ):
        place.ok("connection", "revoke", one["id"])
        assert ended.until("refused")[-1].data["code"] == "BAD_TOKEN"
        assert ended.next() is None
        place.ok("group", "create", "mark", "--member", "@otto")
        assert goes_on.until("group_set")
    assert first.whoami().status_code == 401
    assert second.whoami().status_code == 200
    assert [c["id"] for c in workspace.connections()][-1] == two["id"]
    assert one["id"] not in [c["id"] for c in workspace.connections()]


# --- bodies


def test_a_body_that_is_no_form_is_refused(stranger: Caller) -> None:
    for target in ("/token", "/revoke"):
        answer = stranger.http.post(target, json={"grant_type": "authorization_code"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        large = stranger.post(target, {"code": "x" * (65 << 10)})
        assert large.status_code == 413


def test_a_client_may_name_itself_in_its_header_alone(
    workspace: ServedWorkspace, vera: Browser, stranger: Caller
) -> None:
    """RFC 6749 wants the id once, and Basic has it."""
    app = App(workspace.server, token_endpoint_auth_method="client_secret_basic")
    code = app.code(vera)
    pair = base64.b64encode(f"{app.id}:{app.about['client_secret']}".encode()).decode()
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
    }
    given = stranger.post("/token", fields, Authorization=f"Basic {pair}")
    assert given.status_code == 200, given.text


def test_nothing_that_proves_anything_stands_in_the_log(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    code = app.code(vera)
    connected = app.exchange(code).json()
    told = json.dumps(workspace.place.facts())
    for secret in (code, connected["access_token"], connected["refresh_token"], VERIFIER):
        assert secret not in told
