"""The table of attacks on sign-in and OAuth. Each row has an attempt, the refusal, and the code
that the log records. Each attempt runs over plain HTTP against a running server."""

import base64
import html
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from cryptography.fernet import Fernet

from interlock.doors.web.people import CLIENT_REQUEST_TTL_S
from interlock.node.keys import Keys
from interlock.node.passwords import TRIES
from interlock.rooms.people.connections import INTRUSIONS
from world.commandline import LIMIT_S, Place, until
from world.event_streams import listen
from world.people_and_apps import (
    PASSWORD,
    REDIRECT,
    VERIFIER,
    App,
    Browser,
    Caller,
    ConnectedApp,
    answered,
    call_tool,
    fields_of,
    hidden,
)
from world.served_workspace import Serve, ServedWorkspace

OUTSIDE = "https://interlock.example"
EVIL = "https://evil.example"
# These constants remove the limits on logged refusals, so that every refusal is a fact.
LOUD = {
    "interlock.rooms.transaction.QUIET_MS": 0,
    "interlock.rooms.transaction.MAX_REFUSALS_PER_MINUTE": 10_000,
    "interlock.node.live.REPORT_INTERVAL_S": 0.0,
}
HASTY = {"interlock.rooms.people.connections.CODE_FOR_MS": 0}
LARGE = 65 << 10
DEEP = 30_000
FRAMED = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture(scope="module")
def workspace(serve: Serve) -> ServedWorkspace:
    """A server with two addresses. Vera owns otto, Eve owns ada and otto-x.

    At the server `hasty`, codes expire at once. The server `open` listens on every interface, over
    plain HTTP.
    """
    hasty = serve(constants=HASTY).server
    open_to_network = serve(host="0.0.0.0").server
    workspace = serve(
        words=("--public-url", OUTSIDE),
        constants=LOUD,
        other_servers={"hasty": hasty, "open": open_to_network},
    )
    workspace.add_person("vera", "otto")
    workspace.add_person("eve", "ada", "otto-x")
    workspace.add_sender("otto", "cli")
    return workspace


def code_for(workspace: ServedWorkspace) -> str:
    """Return a code that Vera granted to the app."""
    return workspace.app.code(workspace.person("vera"))


def connected_app(workspace: ServedWorkspace, **changes: str | None) -> ConnectedApp:
    """Return the app after Vera connected it."""
    return workspace.app.connect(workspace.person("vera"), **changes)


Attempt = Callable[[ServedWorkspace], httpx2.Response]


class Attack(NamedTuple):
    """`status` and `text` describe the refusal. The text is in the answer, or in the address of the
    redirect. `logged` is the code that the log records, or None."""

    name: str
    attempt: Attempt
    status: int
    text: str
    logged: str | None


# --- codes


def a_code_twice(workspace: ServedWorkspace) -> httpx2.Response:
    code = code_for(workspace)
    first = ConnectedApp(workspace.app, workspace.app.exchange(code).json())
    assert first.tool().status_code == 200
    again = workspace.app.exchange(code)
    assert first.tool().status_code == 401
    assert workspace.app.refresh(first.refresh_token).json()["error"] == "invalid_grant"
    return again


def a_code_with(workspace: ServedWorkspace, **changes: str | None) -> httpx2.Response:
    """Exchange a code with changed parameters. The code must still work for its client."""
    code = code_for(workspace)
    refused = workspace.app.exchange(code, **changes)
    assert workspace.app.exchange(code).status_code == 200
    return refused


def a_code_of_another_client(workspace: ServedWorkspace) -> httpx2.Response:
    code = code_for(workspace)
    refused = App(workspace.server).exchange(code)
    assert workspace.app.exchange(code).status_code == 200
    return refused


def an_expired_code(workspace: ServedWorkspace) -> httpx2.Response:
    app = App(workspace.other_servers["hasty"])
    return app.exchange(app.code(Browser(workspace.other_servers["hasty"]).join("vera")))


def a_made_up_code(workspace: ServedWorkspace) -> httpx2.Response:
    return workspace.app.exchange("ilc_" + "a" * 60)


# --- authorization and registration


def authorize(workspace: ServedWorkspace, **changes: str | None) -> httpx2.Response:
    return workspace.app.authorize(**changes)


def authorize_at(workspace: ServedWorkspace, path: str) -> httpx2.Response:
    return workspace.app.authorize(resource=workspace.url + path)


def authorize_twice(workspace: ServedWorkspace) -> httpx2.Response:
    asked = f"{urlencode(workspace.app.wish())}&{urlencode({'redirect_uri': f'{EVIL}/callback'})}"
    return workspace.stranger.http.get(f"/authorize?{asked}")


def register(workspace: ServedWorkspace, metadata: Any) -> httpx2.Response:
    return workspace.app.register(metadata)


def register_raw(workspace: ServedWorkspace, body: bytes) -> httpx2.Response:
    return workspace.stranger.http.post("/register", content=body)


def with_redirect(uri: Any) -> dict[str, Any]:
    return {"redirect_uris": [uri], "token_endpoint_auth_method": "none"}


# --- tokens with another audience


def a_token_for_mcp_at_the_api(workspace: ServedWorkspace) -> httpx2.Response:
    return connected_app(workspace).whoami()


def a_token_under_another_address(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace, resource=workspace.url)
    assert connected.whoami().status_code == 200
    return connected.whoami(Host=urlsplit(OUTSIDE).netloc)


def a_token_at_the_local_socket(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace, resource=workspace.url)
    socket = httpx2.HTTPTransport(uds=str(workspace.place.workspace / "server.sock"))
    with httpx2.Client(transport=socket, base_url="http://local", timeout=LIMIT_S) as client:
        headers = {"Authorization": f"Bearer {connected.token}"}
        return client.get("/v1/whoami", headers=headers)


def a_token_at_another_workspace(workspace: ServedWorkspace) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {connected_app(workspace).token}"}
    return Caller(workspace.other_servers["hasty"]).get("/v1/whoami", None, **headers)


def a_code_for_another_audience(workspace: ServedWorkspace) -> httpx2.Response:
    return a_code_with(workspace, resource=f"{EVIL}/mcp")


def a_refresh_for_another_audience(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace)
    refused = workspace.app.refresh(connected.refresh_token, resource=f"{EVIL}/mcp")
    connected.refresh()
    return refused


# --- refresh tokens


def a_refresh_token_twice(workspace: ServedWorkspace) -> httpx2.Response:
    """The reuse also ends the tokens from the first use, and the streams that use them."""
    connected = connected_app(workspace, resource=workspace.url)
    spent = connected.refresh_token
    connected.refresh()
    with listen(workspace.server, connected.token) as stream:
        assert stream.response.status == 200
        again = workspace.app.refresh(spent)
        refused = stream.until("refused")[-1]
        assert refused.data["code"] == "BAD_TOKEN"
        assert stream.next() is None
    assert connected.whoami().status_code == 401
    newest = workspace.app.refresh(connected.refresh_token)
    assert newest.json()["error"] == "invalid_grant"
    return again


def a_refresh_token_of_another_client(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace)
    refused = App(workspace.server).refresh(connected.refresh_token)
    connected.refresh()
    return refused


def a_refresh_token_with_more_scopes(workspace: ServedWorkspace) -> httpx2.Response:
    """The answer has only the granted scopes."""
    connected = connected_app(workspace, scope="mail")
    return workspace.app.refresh(connected.refresh_token, scope="mail claim admin")


def a_refresh_token_after_revocation(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace)
    assert workspace.app.revoke(connected.token).status_code == 200
    assert connected.tool().status_code == 401
    return workspace.app.refresh(connected.refresh_token)


def a_revocation_by_another_client(workspace: ServedWorkspace) -> httpx2.Response:
    """RFC 7009: the answer is the same as for an unknown token."""
    connected = connected_app(workspace)
    answer = App(workspace.server).revoke(connected.token)
    assert connected.tool().status_code == 200
    return answer


def a_refresh_token_as_a_token(workspace: ServedWorkspace) -> httpx2.Response:
    return call_tool(workspace.app, connected_app(workspace).refresh_token, "whoami")


# --- clients with a secret


def without_its_secret(
    workspace: ServedWorkspace, method: str, **changes: str | None
) -> httpx2.Response:
    app = App(workspace.server, token_endpoint_auth_method=method)
    code = app.code(workspace.person("vera"))
    app.about["client_secret"] = App(workspace.server).id[-64:]
    refused = app.exchange(code, **changes)
    assert refused.json()["error"] == "invalid_client"
    return refused


# --- consent


def consent(
    workspace: ServedWorkspace, changes: dict[str, str], headers: dict[str, str] | None = None
) -> httpx2.Response:
    """Submit a changed consent form from Vera's browser. It must grant nothing."""
    page = workspace.person("vera").get(workspace.app.asks())
    fields = fields_of(page) | {"sender": "own otto", "answer": "allow"} | changes
    before = workspace.place.facts("connection_granted")
    answer = workspace.person("vera").submit("/consent", fields, **(headers or {}))
    assert workspace.place.facts("connection_granted") == before
    assert answer.headers.get("location") is None
    return answer


def consent_with_the_form_of_another(workspace: ServedWorkspace) -> httpx2.Response:
    form = hidden(workspace.person("eve").get(workspace.app.asks()))
    return consent(workspace, {"form": form})


def consent_signed_out(workspace: ServedWorkspace) -> httpx2.Response:
    fields = {"request": request_of(workspace.app.asks()), "sender": "own otto", "answer": "allow"}
    return Browser(workspace.server).submit("/consent", fields)


def choose(workspace: ServedWorkspace, sender: str, surface: str = "x") -> httpx2.Response:
    """Submit a sender that the page did not offer, with a surface name for each agent."""
    surfaces = {f"surface {agent}": surface for agent in ("eve", "ada", "otto")}
    return consent(workspace, {"sender": sender, **surfaces})


def framed(workspace: ServedWorkspace, target: str | None = None) -> httpx2.Response:
    """The page has headers against framing, and the server refuses a request from a frame."""
    target = target or workspace.app.asks()
    page = workspace.person("vera").get(target)
    assert page.status_code == 200
    refused = workspace.person("vera").get(target, None, **FRAMED)
    for answer in (page, refused):
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "<form" not in refused.text
    return refused


def request_of(target: str) -> str:
    return parse_qs(urlsplit(target).query)["request"][0]


def changed_request(workspace: ServedWorkspace) -> httpx2.Response:
    sealed = request_of(workspace.app.asks())
    middle = len(sealed) // 2
    other = "A" if sealed[middle] != "A" else "B"
    changed = sealed[:middle] + other + sealed[middle + 1 :]
    return workspace.person("vera").get("/consent", {"request": changed})


def old_request(workspace: ServedWorkspace) -> httpx2.Response:
    """Send an authorization request that has expired, and return the answer."""
    keys = Keys(str(workspace.place.workspace))
    seal = Fernet(base64.urlsafe_b64encode(keys.derived(b"authorization")))
    sealed = request_of(workspace.app.asks())
    content = seal.decrypt(sealed + "=" * (-len(sealed) % 4))
    now = int(time.time())
    fresh, old = (
        seal.encrypt_at_time(content, now - age).decode()
        for age in (CLIENT_REQUEST_TTL_S - 60, CLIENT_REQUEST_TTL_S + 1)
    )
    assert workspace.person("vera").get("/consent", {"request": fresh}).status_code == 200
    return workspace.person("vera").get("/consent", {"request": old})


def request_of_another_server(workspace: ServedWorkspace) -> httpx2.Response:
    return workspace.person("vera").get(
        "/consent", {"request": request_of(App(workspace.other_servers["hasty"]).asks())}
    )


def client_id_as_request(workspace: ServedWorkspace) -> httpx2.Response:
    return workspace.person("vera").get(
        "/consent", {"request": workspace.app.id.removeprefix("reg_")}
    )


def request_as_client_id(workspace: ServedWorkspace) -> httpx2.Response:
    return workspace.app.authorize(client_id="reg_" + request_of(workspace.app.asks()))


def client_id_of_another_server(workspace: ServedWorkspace) -> httpx2.Response:
    return workspace.app.authorize(client_id=App(workspace.other_servers["hasty"]).id)


# --- redirects to other sites

NAMES = ("next", "return", "return_to", "redirect", "redirect_uri", "url", "to")
ELSEWHERE = dict.fromkeys(NAMES, EVIL)


def signing_in_with_a_next(workspace: ServedWorkspace) -> httpx2.Response:
    Browser(workspace.server).join("carl")
    browser = Browser(workspace.server)
    form = hidden(browser.get("/person", ELSEWHERE))
    fields = {"form": form, "username": "carl", "password": PASSWORD}
    return browser.http.post(
        "/person/sign-in",
        params=ELSEWHERE,
        data=ELSEWHERE | fields,
        headers={"Origin": workspace.url},
    )


def signing_in_with_a_strange_request(workspace: ServedWorkspace) -> httpx2.Response:
    browser = Browser(workspace.server)
    Browser(workspace.server).join("carla")
    back = browser.sign_in("carla", request=f"/{EVIL}")
    return browser.get(back.headers["location"])


def consenting_with_a_next(workspace: ServedWorkspace) -> httpx2.Response:
    target = workspace.app.asks()
    page = workspace.person("vera").get(target, None)
    fields = fields_of(page) | {"sender": "own otto", "answer": "allow"}
    back = workspace.person("vera").submit("/consent", ELSEWHERE | fields)
    assert back.headers["location"].startswith(REDIRECT + "?")
    return back


def denying_with_a_next(workspace: ServedWorkspace) -> httpx2.Response:
    fields = fields_of(workspace.person("vera").get(workspace.app.asks())) | {"answer": "deny"}
    return workspace.person("vera").submit("/consent", ELSEWHERE | fields)


def a_state_that_breaks_lines(workspace: ServedWorkspace) -> httpx2.Response:
    state = f"x\r\nLocation: {EVIL}\r\n\r\n"
    back = workspace.person("vera").consent(workspace.app.asks(state=state))
    assert answered(back)["state"] == state
    return back


# --- tokens in URLs


def in_the_url(workspace: ServedWorkspace, method: str, target: str, name: str) -> httpx2.Response:
    connected = connected_app(workspace, resource=workspace.url)
    secret = connected.refresh_token if name == "refresh_token" else connected.token
    return workspace.stranger.http.request(method, target, params={name: secret})


# --- people


def guessing(workspace: ServedWorkspace) -> httpx2.Response:
    """After too many guesses, the server refuses the right password too, and reveals nothing."""
    Browser(workspace.server).join("gina")
    guesser = Browser(workspace.server)
    for number in range(TRIES):
        wrong = guesser.sign_in("gina", f"a sentence that is wrong, {number}")
        assert wrong.status_code == 403, wrong.text
    return guesser.sign_in("gina")


def an_invitation_twice(workspace: ServedWorkspace) -> httpx2.Response:
    browser = Browser(workspace.server)
    path = browser.invited("nora")
    fields = {"password": "a first sentence of hers", "again": "a first sentence of hers"}
    assert browser.submit(path, fields | {"form": hidden(browser.get(path))}).status_code == 303
    thief = Browser(workspace.server)
    form = hidden(thief.get("/person"))
    fields = {"password": "a sentence of a thief's", "again": "a sentence of a thief's"}
    refused = thief.submit(path, fields | {"form": form})
    assert thief.sign_in("nora", "a sentence of a thief's").status_code == 403
    return refused


def an_invitation_after_a_later_one(workspace: ServedWorkspace) -> httpx2.Response:
    browser = Browser(workspace.server)
    first = browser.invited("ole")
    assert browser.get(browser.invited("ole")).status_code == 200
    return browser.get(first)


def an_expired_invitation(workspace: ServedWorkspace) -> httpx2.Response:
    browser = Browser(workspace.server)
    form = hidden(browser.get("/person"))
    path = browser.invited("pia", "--ttl", "1s")
    until(lambda: browser.get(path).status_code != 200)
    fields = {"password": "a sentence that comes late", "again": "a sentence that comes late"}
    return browser.submit(path, fields | {"form": form})


def a_cookie_after_signing_out(workspace: ServedWorkspace) -> httpx2.Response:
    browser = Browser(workspace.server).join("rita")
    kept = httpx2.Cookies(browser.http.cookies)
    page = browser.get("/person")
    assert "You are" in page.text or "@rita" in page.text
    assert browser.sign_out().status_code == 303
    browser.http.cookies = kept
    page = browser.get("/person")
    assert "@rita" not in page.text
    (token,) = (cookie.value for cookie in kept.jar if cookie.name.startswith("interlock_person"))
    assert call_tool(browser, token, "whoami").status_code == 401
    return browser.get(workspace.app.asks())


def ending_the_connection_of_another(workspace: ServedWorkspace) -> httpx2.Response:
    connected = connected_app(workspace)
    mine = workspace.place.ok("connection", "list")["connections"][-1]["id"]
    form = hidden(workspace.person("eve").get("/person"))
    refused = workspace.person("eve").submit(f"/person/connections/{mine}/revoke", {"form": form})
    assert connected.tool().status_code == 200
    return refused


# --- plain HTTP beyond this machine


def at_the_open(workspace: ServedWorkspace, method: str, target: str) -> httpx2.Response:
    caller = Caller(workspace.other_servers["open"])
    answers = [caller.http.request(method, target)]
    answers += [
        caller.http.request(method, target, headers={"Host": host})
        for host in ("interlock.example", "192.0.2.7:7420")
    ]
    assert len({answer.status_code for answer in answers}) == 1
    return answers[0]


REDIRECTS = {
    "is not registered": f"{EVIL}/callback",
    "has the same prefix": f"{REDIRECT}.evil.example/",
    "has a longer path": f"{REDIRECT}/more",
    "has a host with the same prefix": "https://client.example.evil.example/callback",
    "has the host as a user": "https://client.example@evil.example/callback",
    "has a user": "https://user@client.example/callback",
    "has another port": "https://client.example:8443/callback",
    "is plain HTTP": "http://client.example/callback",
    "has a query": f"{REDIRECT}?next={EVIL}",
    "has a fragment": f"{REDIRECT}#x",
    "is a script": "javascript:alert(1)",
    "is not a URL": "nothing",
}
STRANGE_REDIRECTS: tuple[Any, ...] = (
    *("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "about:blank"),
    *("http://client.example/callback", "https://user@client.example/", "https://a.example/#x"),
    *("https://a.example/" + "a" * 500, 5, None, {}, [], "nowhere"),
)
NOT_PUBLIC = {
    "on this machine": "https://127.0.0.1/client.json",
    "on this machine, by name": "https://localhost/client.json",
    "on this machine, at a port": "https://127.0.0.1:7420/client.json",
    "on this machine, as IPv6": "https://[::1]/client.json",
    "on this machine, as IPv4 in IPv6": "https://[::ffff:127.0.0.1]/client.json",
    "on this machine, as a number": "https://2130706433/client.json",
    "on a private network": "https://10.0.0.1/client.json",
    "on another private network": "https://192.168.1.1/client.json",
    "on a private network, as IPv6": "https://[fd00::1]/client.json",
    "with a cloud's metadata": "https://169.254.169.254/latest/meta-data",
    "link-local": "https://[fe80::1]/client.json",
}
NO_ADDRESS = {
    "over plain HTTP": "http://client.example/client.json",
    "with a user": "https://user@client.example/client.json",
    "without a path": "https://client.example",
    "at a malformed host": "https://[::1/client.json",
    "at a file": "file:///etc/passwd",
}
DOCUMENTS = {
    "is not a public address": NOT_PUBLIC,
    "The client id": NO_ADDRESS,
    "was not found": {"at an impossible host": f"https://{'a' * 64}.example/client.json"},
}
MALFORMED = {
    "an empty body": b"",
    "invalid JSON": b"{",
    "a list": b"[]",
    "no redirects": b"{}",
    "redirects that are text": b'{"redirect_uris": "https://client.example/callback"}',
    "bytes that are not text": b"\xff\xfe\x00",
    "half a character": b'{"redirect_uris": ["https://a.example/"], "client_name": "\\ud800"}',
    "a name that is a number": b'{"redirect_uris": ["https://a.example/"], "client_name": 5}',
    "deep nesting": b'{"redirect_uris": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep nesting without an end": b'{"a":' * (DEEP // 3),
    "nine redirects": json.dumps(
        {"redirect_uris": [f"https://a.example/{n}" for n in range(9)]}
    ).encode(),
    "another grant": json.dumps(
        with_redirect(REDIRECT) | {"grant_types": ["client_credentials"]}
    ).encode(),
    "another response": json.dumps(
        with_redirect(REDIRECT) | {"response_types": ["token"]}
    ).encode(),
    "another method": json.dumps(
        with_redirect(REDIRECT) | {"token_endpoint_auth_method": "private_key_jwt"}
    ).encode(),
}
ENDPOINTS = {
    "/.well-known/oauth-protected-resource": "GET",
    "/.well-known/oauth-protected-resource/mcp": "GET",
    "/.well-known/oauth-authorization-server": "GET",
    "/authorize": "GET",
    "/token": "POST",
    "/register": "POST",
    "/revoke": "POST",
    "/consent": "GET",
    "/person": "GET",
    "/invite/x": "GET",
}
CODES = [
    Attack("a code that was used", a_code_twice, 400, "invalid_grant", "CODE_REPLAYED"),
    Attack(
        "a code with another verifier",
        partial(a_code_with, code_verifier=VERIFIER.upper()),
        *(400, "invalid_grant", "WRONG_VERIFIER"),
    ),
    Attack(
        "a code without a verifier",
        partial(a_code_with, code_verifier=None),
        *(400, "invalid_request", "WRONG_VERIFIER"),
    ),
    Attack(
        "a code with an empty verifier",
        partial(a_code_with, code_verifier=""),
        *(400, "invalid_grant", "WRONG_VERIFIER"),
    ),
    Attack(
        "a code of another client",
        a_code_of_another_client,
        *(400, "invalid_grant", "WRONG_CLIENT"),
    ),
    Attack("an expired code", an_expired_code, 400, "invalid_grant", None),
    Attack("a made-up code", a_made_up_code, 400, "invalid_grant", None),
    Attack(
        "a code for another redirect",
        partial(a_code_with, redirect_uri=f"{EVIL}/callback"),
        *(400, "invalid_request", "WRONG_REDIRECT"),
    ),
    Attack(
        "a code for another audience",
        a_code_for_another_audience,
        *(400, "invalid_target", "WRONG_RESOURCE"),
    ),
    Attack(
        "a client without its secret",
        partial(without_its_secret, method="client_secret_post", client_secret=None),
        *(401, "invalid_client", None),
    ),
    Attack(
        "a client with another secret",
        partial(without_its_secret, method="client_secret_post"),
        *(401, "invalid_client", None),
    ),
    Attack(
        "a client with another secret in its header",
        partial(without_its_secret, method="client_secret_basic"),
        *(401, "invalid_client", None),
    ),
]
ASKING = [
    *(
        Attack(
            f"a redirect that {name}",
            partial(authorize, redirect_uri=uri),
            *(400, "Interlock granted nothing", "WRONG_REDIRECT"),
        )
        for name, uri in REDIRECTS.items()
    ),
    Attack("two redirects", authorize_twice, 400, "twice", None),
    Attack(
        "a plain challenge",
        partial(authorize, code_challenge=VERIFIER, code_challenge_method="plain"),
        *(400, "code_challenge_method S256", "PLAIN_CHALLENGE"),
    ),
    Attack(
        "no challenge",
        partial(authorize, code_challenge=None, code_challenge_method=None),
        *(400, "code_challenge_method S256", "PLAIN_CHALLENGE"),
    ),
    Attack(
        "a token instead of a code",
        partial(authorize, response_type="token"),
        *(400, "unsupported_response_type", None),
    ),
    Attack(
        "a token for another audience",
        partial(authorize, resource=f"{EVIL}/mcp"),
        *(400, "invalid_target", "WRONG_RESOURCE"),
    ),
    *(
        Attack(
            f"a token for {path} of this server",
            partial(authorize_at, path=path),
            *(400, "invalid_target", "WRONG_RESOURCE"),
        )
        for path in ("/v1", "/mcp/x", "/mcp?x", ".evil.example/mcp", "1/mcp")
    ),
    *(
        Attack(
            f"a client's document {name}",
            partial(authorize, client_id=id),
            *(400, text, "BAD_CLIENT_DOCUMENT"),
        )
        for text, ids in DOCUMENTS.items()
        for name, id in ids.items()
    ),
    Attack(
        "a request as a client's id",
        request_as_client_id,
        *(400, "Interlock granted nothing", None),
    ),
    Attack(
        "a client's id of another server",
        client_id_of_another_server,
        *(400, "Interlock granted nothing", None),
    ),
]
REGISTERING = [
    *(
        Attack(
            f"to register the redirect {str(uri)[:30]}",
            partial(register, metadata=with_redirect(uri)),
            *(400, "invalid_", "BAD_REGISTRATION"),
        )
        for uri in STRANGE_REDIRECTS
    ),
    *(
        Attack(
            f"to register {name}",
            partial(register_raw, body=body),
            *(400, "invalid_client_metadata", "BAD_REGISTRATION"),
        )
        for name, body in MALFORMED.items()
        if name != "nine redirects"
    ),
    Attack(
        "to register nine redirects",
        partial(register_raw, body=MALFORMED["nine redirects"]),
        *(400, "invalid_redirect_uri", "BAD_REGISTRATION"),
    ),
    Attack(
        "to register something huge",
        partial(register, metadata=with_redirect(REDIRECT) | {"client_name": "x" * LARGE}),
        *(413, "invalid_client_metadata", "BAD_REGISTRATION"),
    ),
]
TOKENS = [
    Attack(
        "a token for MCP at the API", a_token_for_mcp_at_the_api, 401, "WRONG", "WRONG_AUDIENCE"
    ),
    Attack(
        "a token under another address",
        a_token_under_another_address,
        *(401, "WRONG_AUDIENCE", "WRONG_AUDIENCE"),
    ),
    Attack(
        "a token at the local socket",
        a_token_at_the_local_socket,
        *(401, "WRONG_AUDIENCE", "WRONG_AUDIENCE"),
    ),
    Attack("a token at another workspace", a_token_at_another_workspace, 401, "BAD_TOKEN", None),
    Attack("a refresh token that was used", a_refresh_token_twice, 400, "inv", "REFRESH_REUSED"),
    Attack(
        "a refresh token of another client",
        a_refresh_token_of_another_client,
        *(400, "invalid_grant", "WRONG_CLIENT"),
    ),
    Attack(
        "a refresh token for another audience",
        a_refresh_for_another_audience,
        *(400, "invalid_target", "WRONG_RESOURCE"),
    ),
    Attack(
        "a refresh token for more than was granted",
        a_refresh_token_with_more_scopes,
        *(200, '"scope":"mail",', None),
    ),
    Attack(
        "a refresh token after revocation",
        a_refresh_token_after_revocation,
        *(400, "invalid_grant", None),
    ),
    Attack("a refresh token as a token", a_refresh_token_as_a_token, 401, "BAD_TOKEN", None),
    Attack("a revocation by another client", a_revocation_by_another_client, 200, "", None),
    *(
        Attack(
            f"a secret in the URL of {method} {target}, as {name}",
            partial(in_the_url, method=method, target=target, name=name),
            *(400, "USAGE", "TOKEN_IN_URL"),
        )
        for method, target, name in (
            ("GET", "/v1/whoami", "access_token"),
            ("GET", "/v1/whoami", "token"),
            ("GET", "/v1/events", "access_token"),
            ("POST", "/mcp", "access_token"),
            ("POST", "/token", "refresh_token"),
            ("GET", "/person", "token"),
        )
    ),
]
PAGES = [
    Attack(
        "consent without its form",
        partial(consent, changes={"form": ""}),
        403,
        "",
        "FORGED_CONSENT",
    ),
    Attack(
        "consent with another's form", consent_with_the_form_of_another, 403, "", "FORGED_CONSENT"
    ),
    Attack("consent without a sign-in", consent_signed_out, 403, "", "FORGED_CONSENT"),
    *(
        Attack(
            f"consent from {origin}",
            partial(consent, changes={}, headers={"Origin": origin}),
            *(403, "FOREIGN_ORIGIN", "FORGED_CONSENT"),
        )
        for origin in (EVIL, "null", "http://127.0.0.1:1")
    ),
    Attack(
        "consent across sites",
        partial(consent, changes={}, headers={"Sec-Fetch-Site": "cross-site"}),
        *(403, "FOREIGN_ORIGIN", "FORGED_CONSENT"),
    ),
    Attack("consent in a frame", framed, 403, "inside another page", "FRAMED_PAGE"),
    Attack(
        "a person's page in a frame",
        partial(framed, target="/person"),
        *(403, "inside another page", "FRAMED_PAGE"),
    ),
    *(
        Attack(
            f"to choose {sender!r}",
            partial(choose, sender=sender),
            *(403, "You do not own", "IDENTITY_MISMATCH"),
        )
        for sender in ("own eve", "own ada", "new eve", "new ada", "own otto-cli", "own eve x")
    ),
    Attack(
        "a new surface that is another's agent",
        partial(choose, sender="new otto", surface="x"),
        *(409, "otto-x", None),
    ),
    Attack("to choose no sender", partial(choose, sender=""), 400, "Choose the name", None),
    Attack("a request that was changed", changed_request, 410, "Start again", None),
    Attack("a request that is old", old_request, 410, "Start again", None),
    Attack("a request of another server", request_of_another_server, 410, "Start again", None),
    Attack("a client's id as a request", client_id_as_request, 410, "Start again", None),
    Attack("sign-in with a redirect", signing_in_with_a_next, 303, "/person", None),
    Attack("sign-in with a bad request", signing_in_with_a_strange_request, 410, "Start", None),
    Attack("consent with a redirect", consenting_with_a_next, 303, "code=", None),
    Attack("denial with a redirect", denying_with_a_next, 303, "access_denied", None),
    Attack("a state that breaks lines", a_state_that_breaks_lines, 303, "%0D%0A", None),
    Attack("to guess a password", guessing, 429, "Too many sign-ins failed", "GUESSED_PASSWORD"),
    Attack("an invitation that was used", an_invitation_twice, 404, "was used", None),
    Attack("an earlier invitation", an_invitation_after_a_later_one, 404, "newer one", None),
    Attack("an expired invitation", an_expired_invitation, 410, "expired", None),
    Attack("a cookie after signing out", a_cookie_after_signing_out, 200, "Sign in", None),
    Attack(
        "to end another's connection", ending_the_connection_of_another, 404, "was not found", None
    ),
]
PLAIN = [
    Attack(
        f"plain HTTP from another machine at {path}",
        partial(at_the_open, method=method, target=path),
        *(404, "over plain HTTP", None),
    )
    for path, method in ENDPOINTS.items()
]
TABLE = [*CODES, *ASKING, *REGISTERING, *TOKENS, *PAGES, *PLAIN]


@pytest.mark.parametrize("attack", TABLE, ids=lambda attack: attack.name)
def test_attack_is_refused_and_recorded(workspace: ServedWorkspace, attack: Attack) -> None:
    before = workspace.logged_refusals()
    counted = workspace.counted_refusals(attack.logged) if attack.logged else 0
    refused = attack.attempt(workspace)
    redirect = refused.headers.get("location", "")
    assert refused.status_code == attack.status, refused.text
    assert attack.text in html.unescape(refused.text) + redirect
    assert redirect.partition("?")[0] in ("", "/person", "/consent", REDIRECT)
    assert "evil.example" not in urlsplit(redirect).netloc
    assert workspace.logged_refusals()[len(before) :] == ([attack.logged] if attack.logged else [])
    if attack.logged in INTRUSIONS:
        assert workspace.counted_refusals(attack.logged) == counted + 1


def test_table_covers_every_code_that_the_log_records() -> None:
    assert set(INTRUSIONS) <= {attack.logged for attack in TABLE}


def test_registration_stores_nothing(workspace: ServedWorkspace) -> None:
    before = workspace.place.facts()
    for number in range(200):
        about = with_redirect(f"https://client.example/{number}")
        assert register(workspace, about).status_code == 201
    assert workspace.place.facts() == before


def test_public_address_with_plain_http_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = Place(tmp_path_factory.mktemp("plain"))
    for url in (
        "http://interlock.example",
        "http://192.0.2.7:7420",
        "http://localhost.evil.example",
    ):
        refused = place.no("USAGE", "up", "--public-url", url)
        assert "https://" in refused["message"]
