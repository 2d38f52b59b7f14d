"""The OAuth door over plain HTTP: metadata, registration, consent, tokens, audiences, and the end
of a connection."""

import base64
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from world.event_streams import listen
from world.people_and_apps import (
    PASSWORD,
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


# --- metadata


def test_protected_resource_names_its_authorization_server(
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


def test_authorization_server_describes_its_endpoints(
    workspace: ServedWorkspace, stranger: Caller
) -> None:
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


def test_each_host_name_of_this_machine_is_its_own_issuer(
    workspace: ServedWorkspace, stranger: Caller
) -> None:
    host = f"localhost:{workspace.server.port}"
    found = stranger.get("/.well-known/oauth-authorization-server", Host=host).json()
    assert found["issuer"] == f"http://{host}"


@pytest.mark.parametrize("host", ["localhost:1@evil.example", "127.0.0.1:x", "[::1]:1/evil"])
def test_host_header_that_hides_another_host_is_refused(stranger: Caller, host: str) -> None:
    answer = stranger.get("/.well-known/oauth-authorization-server", Host=host)
    assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")


@pytest.mark.parametrize(
    ("method", "target", "path"),
    [("POST", "/mcp", "/mcp"), ("GET", "/v1/whoami", ""), ("GET", "/v1/events", "")],
)
@pytest.mark.parametrize("token", [None, "ilk_unknown"])
def test_missing_or_unknown_token_gets_the_metadata_address(
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


def test_public_client_gets_an_id_and_no_secret(workspace: ServedWorkspace) -> None:
    about = App(workspace.server).about
    assert "client_secret" not in about
    assert about["redirect_uris"] == [REDIRECT]
    assert about["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_client_with_a_secret_connects_refreshes_and_revokes(
    workspace: ServedWorkspace, vera: Browser, method: str
) -> None:
    app = App(workspace.server, token_endpoint_auth_method=method)
    assert app.about["client_secret_expires_at"] == 0
    connected = app.connect(vera)
    connected.refresh()
    assert connected.tool().status_code == 200
    assert app.revoke(connected.token).status_code == 200
    assert connected.tool().status_code == 401


def test_revocation_with_a_wrong_secret_is_refused(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    app = App(workspace.server, token_endpoint_auth_method="client_secret_post")
    connected = app.connect(vera)
    refused = app.revoke(connected.token, client_secret="x")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert connected.tool().status_code == 200


def test_largest_accepted_registration_completes_every_step(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    """No later step may refuse an accepted registration as too large."""
    uris = [f"https://client.example/{number}/{'a' * 460}" for number in range(8)]
    name = "N" * 300
    largest = max(
        count
        for count in range(1, 9)
        if is_accepted(workspace, {"redirect_uris": uris[:count], "client_name": name})
    )
    assert 4 < largest < 8
    app = App(workspace.server, redirect=uris[0], redirect_uris=uris[:largest], client_name=name)
    assert app.connect(vera).tool().status_code == 200


def is_accepted(workspace: ServedWorkspace, metadata: dict[str, Any]) -> bool:
    return workspace.app.register(metadata).status_code == 201


def test_repeated_malformed_registrations_are_logged_once(
    workspace: ServedWorkspace, app: App
) -> None:
    for _ in range(30):
        assert app.register({}).status_code == 400
    kept = workspace.place.facts("request_refused")
    assert [fact["outcome"]["code"] for fact in kept].count("BAD_REGISTRATION") == 1


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/cb", "http://localhost/cb", "http://[::1]:1/"])
def test_local_client_may_use_any_port(workspace: ServedWorkspace, vera: Browser, uri: str) -> None:
    app = App(workspace.server, redirect=uri)
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    app.redirect = f"http://{host}:54321{parts.path}"
    back = vera.consent(app.asks())
    assert back.headers["location"].startswith(app.redirect + "?")
    assert app.exchange(answered(back)["code"]).status_code == 200


def test_client_may_use_its_private_scheme(workspace: ServedWorkspace, vera: Browser) -> None:
    app = App(workspace.server, redirect="cursor://anysphere/callback")
    back = vera.consent(app.asks())
    assert back.headers["location"].startswith("cursor://anysphere/callback?code=")


# --- requests, consent and codes


def test_answer_has_the_issuer_and_the_state(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    allowed = answered(vera.consent(app.asks()))
    assert allowed.keys() == {"code", "state", "iss"}
    assert (allowed["state"], allowed["iss"]) == ("as it was", workspace.url)
    denied = answered(vera.consent(app.asks(), answer="deny"))
    assert denied == {"error": "access_denied", "state": "as it was", "iss": workspace.url}
    assert "state" not in answered(vera.consent(app.asks(state=None)))


def test_double_click_grants_one_connection(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
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
    assert "its code was used or is no longer valid" in late.text
    assert len(workspace.connections()) == before + 1


def test_different_choices_give_different_codes(app: App, vera: Browser) -> None:
    page = vera.get(app.asks())
    codes = {
        answered(vera.submit("/consent", fields_of(page) | {"answer": "allow"} | chosen))["code"]
        for chosen in ({"sender": "own otto"}, {"sender": "own vera"})
    }
    assert len(codes) == 2


def test_exchange_must_repeat_the_redirect_uri_of_the_request(app: App, vera: Browser) -> None:
    code = app.code(vera)
    refused = app.exchange(code, redirect_uri=None)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert app.exchange(code).status_code == 200
    for redirect in (None, REDIRECT):
        code = app.code(vera, redirect_uri=None)
        assert app.exchange(code, redirect_uri=redirect).status_code == 200


@pytest.mark.parametrize(
    "grant", ["password", "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "x"]
)
def test_unsupported_grant_type_is_refused(app: App, grant: str) -> None:
    refused = app.exchange("x", grant_type=grant)
    assert (refused.status_code, refused.json()["error"]) == (400, "unsupported_grant_type")


def test_refresh_answers_with_the_granted_scopes(app: App, vera: Browser) -> None:
    connected = app.connect(vera)
    given = app.refresh(connected.refresh_token, scope="mail").json()
    connected.take(given)
    who = connected.tool().json()["result"]["structuredContent"]
    assert sorted(given["scope"].split()) == who["scopes"]


def test_registration_answer_has_only_registered_members(app: App) -> None:
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
    answer = app.register(metadata)
    assert answer.status_code == 201, answer.text
    about = answer.json()
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
def test_private_scheme_needs_a_dot_or_a_well_known_name(app: App, uri: str, status: int) -> None:
    about = {"redirect_uris": [uri], "token_endpoint_auth_method": "none"}
    assert app.register(about).status_code == status


def test_redirect_keeps_its_query(workspace: ServedWorkspace, vera: Browser) -> None:
    app = App(workspace.server, redirect=f"{REDIRECT}?tenant=7")
    back = vera.consent(app.asks())
    assert answered(back)["tenant"] == "7"
    assert app.exchange(answered(back)["code"]).status_code == 200


def test_sign_in_returns_to_the_consent_page(workspace: ServedWorkspace, app: App) -> None:
    browser, target = Browser(workspace.server), app.asks()
    page = browser.get(target)
    assert "Sign in" in page.text
    form = fields_of(page) | {"username": "vera", "password": PASSWORD}
    back = browser.submit("/person/sign-in", form)
    browser.name = "vera"
    assert back.headers["location"] == target
    allowed = browser.consent(back.headers["location"])
    assert app.exchange(answered(allowed)["code"]).status_code == 200


def test_token_answer_lasts_an_hour_and_is_not_cached(app: App, vera: Browser) -> None:
    given = app.exchange(app.code(vera))
    assert given.headers["cache-control"] == "no-store"
    answer = given.json()
    assert answer["token_type"] == "Bearer"
    assert answer["expires_in"] == 3600
    assert answer["scope"] == " ".join(SCOPES)
    assert answer["access_token"] != answer["refresh_token"]


def test_client_acts_as_the_chosen_sender(app: App, vera: Browser) -> None:
    connected = app.connect(vera, "new otto")
    who = connected.tool().json()["result"]["structuredContent"]
    assert (who["sender"], who["agent"], who["kind"]) == ("otto-claude", "otto", "agent")
    sent = connected.tool("send", to="@vera", text="From a connector.").json()["result"]
    assert sent["structuredContent"]["message"]["from"] == "@otto-claude"
    other = app.connect(vera).tool().json()["result"]["structuredContent"]
    assert (other["sender"], other["unread"]) == ("vera", 1)


def test_explain_names_the_client_and_person_of_a_connection(
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
    assert "Connection: 'On the train'. The client 'Claude' acts for @vera." in shown


def test_client_that_acts_for_a_person_is_not_that_person(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, resource=workspace.url)
    assert connected.whoami().json()["kind"] == "agent"
    headers = {"Authorization": f"Bearer {connected.token}"}
    listed = app.get("/v1/connections", None, **headers)
    assert (listed.status_code, listed.json()["code"]) == (403, "MISSING_SCOPE")


def test_admin_gate_and_unknown_scopes_are_not_granted(app: App, vera: Browser) -> None:
    given = app.exchange(app.code(vera, scope="mail admin gate:athena openid"))
    assert given.json()["scope"] == "mail"


def test_refusal_names_the_missing_scope(
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


def test_token_for_the_whole_server_works_for_http_and_mcp(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, resource=f"{workspace.url}/")
    assert connected.whoami().status_code == 200
    assert connected.tool().status_code == 200


def test_token_without_a_resource_is_for_mcp(app: App, vera: Browser) -> None:
    connected = app.connect(vera, resource=None)
    assert connected.tool().status_code == 200
    assert connected.whoami().json()["code"] == "WRONG_AUDIENCE"


# --- refresh and revocation


def test_refresh_returns_new_tokens_and_ends_the_old_ones(app: App, vera: Browser) -> None:
    connected = app.connect(vera)
    before = connected.token
    connected.refresh()
    assert connected.token != before
    assert connected.tool().status_code == 200
    assert call_tool(app, before, "whoami").status_code == 401
    connected.refresh()
    assert connected.tool().status_code == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_client_revokes_its_connection_with_either_token(
    app: App, vera: Browser, which: str
) -> None:
    connected = app.connect(vera)
    assert app.revoke(connected.given[which]).status_code == 200
    assert connected.tool().status_code == 401
    assert app.refresh(connected.refresh_token).json()["error"] == "invalid_grant"
    assert app.revoke(connected.given[which]).status_code == 200, "a second revocation succeeds"


def test_revocation_of_an_unknown_token_succeeds(app: App) -> None:
    assert app.revoke("ilk_unknown").status_code == 200
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
        listen(workspace.server, second.token) as live,
    ):
        place.ok("connection", "revoke", one["id"])
        assert ended.until("refused")[-1].data["code"] == "BAD_TOKEN"
        assert ended.next() is None
        place.ok("group", "create", "mark", "--member", "@otto")
        assert live.until("group_set")
    assert first.whoami().status_code == 401
    assert second.whoami().status_code == 200
    assert [c["id"] for c in workspace.connections()][-1] == two["id"]
    assert one["id"] not in [c["id"] for c in workspace.connections()]


# --- bodies


def test_body_that_is_not_a_form_is_refused(stranger: Caller) -> None:
    for target in ("/token", "/revoke"):
        answer = stranger.http.post(target, json={"grant_type": "authorization_code"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        large = stranger.post(target, {"code": "x" * (65 << 10)})
        assert large.status_code == 413


def test_client_may_send_its_id_only_in_the_header(
    workspace: ServedWorkspace, vera: Browser, stranger: Caller
) -> None:
    """RFC 6749 requires the id once, and the Basic header contains it."""
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


def test_log_contains_no_secret(workspace: ServedWorkspace, app: App, vera: Browser) -> None:
    code = app.code(vera)
    connected = app.exchange(code).json()
    log = json.dumps(workspace.place.facts())
    for secret in (code, connected["access_token"], connected["refresh_token"], VERIFIER):
        assert secret not in log
