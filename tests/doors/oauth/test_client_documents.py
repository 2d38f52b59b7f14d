"""Documents of clients: the server fetches them over TLS, only from public addresses, and refuses
invalid ones. The tests fetch from a real TLS server on this machine."""

import asyncio
import base64
import contextlib
import datetime
import gzip
import hashlib
import ipaddress
import json
import os
import re
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from interlock.doors.oauth import clients, documents, endpoints
from interlock.doors.oauth.documents import Documents, Refused, is_public
from interlock.local.link import open_node
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.rooms.identity import token_format
from interlock.rooms.identity.token_format import INVITATION, PREFIX, SECRET_BYTES, compose, hashed
from interlock.rooms.people.verbs import Enrol, GrantConnection, Invite
from interlock.rooms.workspace.verbs import ShowLog
from interlock.server.records import Owner
from interlock.server.serving import application
from interlock.verbs.credentials import Credentials

HOST = "client.example"
JSON = "application/json"
Scenario = Callable[["Site"], Awaitable[None]]


class Site:
    """The web server of a client, with a certificate for its own name. `answers` has a status,
    headers and a body by path. `asked` has the heads of all requests."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.looked_up: list[str] = []
        self.silent = asyncio.Event()
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield
        self.silent.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            status, headers, body = self.answers[head.split()[1]]
            sent = {"Content-Length": str(len(body)), "Connection": "close"} | headers
            lines = [f"HTTP/1.1 {status} So", *(f"{name}: {sent[name]}" for name in sent), "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            await writer.drain()
            if "Silent" in sent:
                await self.silent.wait()
        writer.close()

    def id(self, path: str = "/client.json") -> str:
        return f"https://{HOST}:{self.port}{path}"

    def publish(self, document: Any = None, path: str = "/client.json", **headers: str) -> str:
        """Publish a document at the path, and return the client's id."""
        id = self.id(path)
        if document is None:
            document = {"client_id": id, "redirect_uris": ["https://client.example/cb"]}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = 200, {"Content-Type": JSON} | sent, body
        return id

    def documents(
        self, *addresses: str, allowed: Callable[[documents.Address], bool] | None = None
    ) -> Documents:
        """Return Documents that need no DNS: every name has the given addresses. By default, the
        address is this machine's, and is allowed."""

        async def look_up(host: str, port: int) -> list[str]:
            self.looked_up.append(host)
            return list(addresses or ["127.0.0.1"])

        allowed = allowed or (is_public if addresses else lambda address: True)
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        return Documents(allowed=allowed, look_up=look_up, trusted=trusted)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for the client's host, and its key."""
    directory = tmp_path_factory.mktemp("site")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (directory / "key.pem").write_bytes(key.private_bytes(pem, form, plain))
    return directory


def run_with_site(certified: Path, scenario: Scenario) -> None:
    """Run a scenario while a site is running."""

    async def run() -> None:
        site = Site(certified)
        async with asyncio.timeout(60), site.running():
            await scenario(site)

    asyncio.run(run())


async def why_refused(documents: Documents, id: str) -> str:
    with pytest.raises(Refused) as caught:
        await documents.of(id)
    return caught.value.message


# --- fetching


def test_document_is_fetched_from_the_resolved_address(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish()
        document = await site.documents().of(id)
        assert document["redirect_uris"] == ["https://client.example/cb"]
        assert site.looked_up == [HOST]
        (head,) = site.asked
        assert head.startswith("GET /client.json HTTP/1.1\r\n")
        assert f"\r\nHost: {HOST}:{site.port}\r\n" in head
        assert "authorization" not in head.lower()
        assert "cookie" not in head.lower()

    run_with_site(certified, scenario)


def test_document_is_cached_for_a_limited_time(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(site: Site) -> None:
        id, documents_ = site.publish(), site.documents()
        first = await documents_.of(id)
        site.publish({"client_id": id, "client_name": "Other"})
        assert await documents_.of(id) == first
        assert len(site.asked) == 1
        monkeypatch.setattr(documents, "CACHE_S", 0.0)
        other = site.documents()
        await other.of(id)
        assert (await other.of(id))["client_name"] == "Other"
        assert len(site.asked) == 3

    run_with_site(certified, scenario)


def test_cache_of_documents_has_a_size_limit(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_CACHED", 2)

    async def scenario(site: Site) -> None:
        found = site.documents()
        ids = [site.publish(path=f"/{number}.json") for number in range(3)]
        for id in (*ids, ids[2], ids[0]):
            await found.of(id)
        assert len(site.asked) == 4, "the third document evicts the first two"

    run_with_site(certified, scenario)


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "application/cimd+json"])
def test_every_json_content_type_is_accepted(certified: Path, kind: str) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish(Content_Type=kind)
        assert "redirect_uris" in await site.documents().of(id)

    run_with_site(certified, scenario)


def test_client_takes_its_data_from_its_document(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish()
        client = clients.published(id, await site.documents().of(id))
        assert client.client_id == id
        assert client.client_name == HOST, "the document has no name"
        assert client.token_endpoint_auth_method == "none"

    run_with_site(certified, scenario)


# --- from the document to a token

VERIFIER = "a-verifier-as-long-as-the-standard-wants-it-to-be"
BASE = "http://127.0.0.1"
OWNER = Credentials(owner=True)


class Visit:
    """A server in this process, where Vera is signed in."""

    def __init__(self, live: LiveNode, http: httpx2.AsyncClient, vera: Credentials) -> None:
        self.live, self.http, self.vera = live, http, vera

    async def authorize(self, client: str, redirect: str) -> httpx2.Response:
        digest = hashlib.sha256(VERIFIER.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": redirect,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": BASE,
        }
        return await self.http.get("/authorize", params=asked)

    async def code(self, client: str, redirect: str) -> str:
        """Return the code of Vera's consent, without the consent page."""
        sent = await self.authorize(client, redirect)
        (sealed,) = parse_qs(urlsplit(sent.headers["location"]).query)["request"]
        wanted = Seals(self.live.node.keys).opened("authorization", sealed)
        assert wanted is not None
        code = token_format.code(os.urandom(SECRET_BYTES), redirected=wanted["redirected"])
        names = ("client", "client_name", "resource", "redirect_uri", "challenge", "scopes")
        given = {name: wanted[name] for name in names}
        grant = GrantConnection(agent="vera", surface=None, code_hash=hashed(code), **given)
        await self.live.call(self.vera, grant._replace(scopes=tuple(wanted["scopes"])))
        return code

    async def exchange(self, code: str, client: str) -> httpx2.Response:
        fields = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
        fields["redirect_uri"] = "https://client.example/cb"
        return await self.http.post("/token", data=fields | {"client_id": client})

    async def refresh(self, refresh: str, client: str) -> httpx2.Response:
        fields = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": client}
        return await self.http.post("/token", data=fields)


@contextlib.asynccontextmanager
async def visit(directory: str) -> AsyncIterator[Visit]:
    with open_node(directory) as node:
        async with LiveNode(node) as live:
            invitation, token = (
                compose(os.urandom(SECRET_BYTES), kind) for kind in (INVITATION, PREFIX)
            )
            await live.call(OWNER, Invite("vera", code_hash=hashed(invitation)))
            await live.call(Credentials(), Enrol(invitation, "0" * 64, hashed(token)))
            served = application(live, Owner(directory), loopback=True)
            transport = httpx2.ASGITransport(app=served.guard)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
                yield Visit(live, http, Credentials(token))


def test_published_client_gets_a_token_with_one_fetch(
    certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/authorize fetches the document. /token does not fetch it again."""

    async def scenario(site: Site) -> None:
        monkeypatch.setattr(endpoints, "Documents", site.documents)
        id, redirect = site.publish(), "https://client.example/cb"
        async with visit(str(tmp_path)) as vera:
            given = await vera.exchange(await vera.code(id, redirect), id)
            assert given.status_code == 200, given.text
            headers = {"Authorization": f"Bearer {given.json()['access_token']}"}
            who = await vera.http.get("/v1/whoami", headers=headers)
            assert who.json()["sender"] == "vera"
            again = await vera.refresh(given.json()["refresh_token"], id)
            assert again.status_code == 200, again.text
            assert len(site.asked) == 1

    run_with_site(certified, scenario)


def test_published_client_cannot_use_other_redirects_or_codes_of_others(
    certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(site: Site) -> None:
        monkeypatch.setattr(endpoints, "Documents", site.documents)
        id, other = site.publish(), site.publish(path="/other.json")
        async with visit(str(tmp_path)) as vera:
            refused = await vera.authorize(id, "https://evil.example/cb")
            assert (refused.status_code, refused.headers.get("location")) == (400, None)
            code = await vera.code(id, "https://client.example/cb")
            stolen = await vera.exchange(code, other)
            assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
            given = (await vera.exchange(code, id)).json()
            stolen = await vera.refresh(given["refresh_token"], other)
            assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
            facts = (await vera.live.call(OWNER, ShowLog(0, 100, "request_refused")))["facts"]
            kept = [fact["outcome"]["code"] for fact in facts]
            assert kept == ["WRONG_REDIRECT", "WRONG_CLIENT", "WRONG_CLIENT"]

    run_with_site(certified, scenario)


# --- invalid documents

NESTED = b'{"client_id":' + b"[" * 7000 + b"]" * 7000 + b"}"
OTHER_CLIENT = "The client_id in the client's document is not"
BODIES: dict[str, tuple[Any, dict[str, str], str]] = {
    "a page": (b"<html>", {"Content_Type": "text/html"}, "text/html instead of JSON"),
    "no type": (b"{}", {"Content_Type": ""}, "no content type instead of JSON"),
    "too large": (b"[" + b" " * documents.LARGEST + b"]", {}, "more than 16 KiB"),
    "packed": (gzip.compress(b" " * (1 << 20)), {"Content_Encoding": "gzip"}, "not JSON"),
    "not JSON": (b"{", {}, "not JSON"),
    "not text": (b"\xff\xfe", {}, "not JSON"),
    "deeply nested": (NESTED, {}, f"JSON|{OTHER_CLIENT}"),
    "a list": ([], {}, OTHER_CLIENT),
    "another client's": ({"client_id": "https://other.example/c"}, {}, OTHER_CLIENT),
    "no client's": ({"redirect_uris": ["https://client.example/cb"]}, {}, OTHER_CLIENT),
}


@pytest.mark.parametrize("body", BODIES)
def test_invalid_document_is_refused(certified: Path, body: str) -> None:
    document, headers, why = BODIES[body]

    async def scenario(site: Site) -> None:
        id = site.publish(document, **headers)
        found = await why_refused(site.documents(), id)
        assert any(words in found for words in why.split("|")), found

    run_with_site(certified, scenario)


def test_redirect_is_not_followed(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish()
        site.publish(path="/inner.json")
        for status in (301, 302, 303, 307, 308):
            site.answers["/client.json"] = status, {"Location": site.id("/inner.json")}, b""
            assert f"answers with status {status}" in await why_refused(site.documents(), id)
        assert not any("/inner.json" in head for head in site.asked)

    run_with_site(certified, scenario)


@pytest.mark.parametrize("status", [204, 401, 404, 500])
def test_status_other_than_200_is_refused(certified: Path, status: int) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish()
        site.answers["/client.json"] = status, {"Content-Type": JSON}, b""
        assert f"answers with status {status}" in await why_refused(site.documents(), id)

    run_with_site(certified, scenario)


def test_refusal_is_cached_for_a_short_time(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache stops callers from making this server flood another host."""

    async def scenario(site: Site) -> None:
        id, found = site.publish(b"{"), site.documents()
        first = await why_refused(found, id)
        site.publish()
        assert await why_refused(found, id) == first
        assert len(site.asked) == 1
        monkeypatch.setattr(documents, "REFUSAL_CACHE_S", 0.0)
        hasty = site.documents()
        site.publish(b"{")
        await why_refused(hasty, id)
        site.publish()
        assert "redirect_uris" in await hasty.of(id)

    run_with_site(certified, scenario)


def test_slow_host_times_out(certified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "TIMEOUT_S", 0.5)

    async def scenario(site: Site) -> None:
        id = site.publish(b"{", Silent="yes", Content_Length="9")
        why = await why_refused(site.documents(), id)
        assert "did not answer within" in why or "ReadTimeout" in why

    run_with_site(certified, scenario)


def test_fetch_behind_slow_hosts_is_refused_in_time_and_can_be_retried(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "TIMEOUT_S", 60.0)

    async def scenario(site: Site) -> None:
        crowd_released = asyncio.Event()

        async def look_up(host: str, port: int) -> list[str]:
            site.looked_up.append(host)
            if host != HOST:
                await crowd_released.wait()
                raise OSError
            return ["127.0.0.1"]

        trusted = ssl.create_default_context(cafile=str(site.certificate))
        found = Documents(allowed=lambda address: True, look_up=look_up, trusted=trusted)
        ids = [
            f"https://slow-{number}.example/client.json"
            for number in range(documents.MAX_CONCURRENT)
        ]
        crowd = [asyncio.create_task(why_refused(found, id)) for id in ids]
        while len(site.looked_up) < len(ids):
            await asyncio.sleep(0)
        monkeypatch.setattr(documents, "TIMEOUT_S", 0.1)
        id = site.publish()
        assert "Try again" in await why_refused(found, id)
        crowd_released.set()
        await asyncio.gather(*crowd)
        monkeypatch.setattr(documents, "TIMEOUT_S", 60.0)
        assert "redirect_uris" in await found.of(id), "the refusal was cached"

    run_with_site(certified, scenario)


def test_name_look_ups_do_not_use_the_default_executor(certified: Path) -> None:
    """A look-up without an answer blocks its thread for a long time."""

    async def scenario(site: Site) -> None:
        over, loop = threading.Event(), asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, over.wait)
        try:
            why = await why_refused(Documents(), "https://localhost/client.json")
        finally:
            over.set()
            await busy
        assert "is not a public address" in why

    run_with_site(certified, scenario)


def test_cache_keeps_only_the_used_members_of_a_document(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.id()
        uris = ["https://client.example/cb"]
        more = {"client_name": "A client", "junk": [[]] * 1000, "jwks": {"keys": [{}] * 1000}}
        site.publish({"client_id": id, "redirect_uris": uris} | more)
        found = site.documents()
        for _ in range(2):
            assert await found.of(id) == {"redirect_uris": uris, "client_name": "A client"}
        assert len(site.asked) == 1

    run_with_site(certified, scenario)


def test_untrusted_certificate_is_refused(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish()

        async def look_up(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        strict = Documents(allowed=lambda address: True, look_up=look_up)
        assert "cannot fetch" in await why_refused(strict, id)
        assert site.asked == []

    run_with_site(certified, scenario)


def test_certificate_of_another_host_name_is_refused(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        id = site.publish().replace(HOST, "other.example")
        assert "cannot fetch" in await why_refused(site.documents(), id)
        assert site.asked == []

    run_with_site(certified, scenario)


def test_unreachable_host_is_refused(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        found = site.documents()
        id = site.publish()
        site.answers.clear()
        assert "cannot fetch" in await why_refused(found, id.replace(str(site.port), "1"))

    run_with_site(certified, scenario)


# --- private addresses

PRIVATE = re.findall(
    r"\S+",
    """
127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1
169.254.169.254 169.254.0.1 100.64.0.1 100.127.255.254 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 fe80::1 fe80::1%1 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 fec0::1
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe::1 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1
64:ff9b::169.254.169.254 64:ff9b:1::10.0.0.1 2001:0:4136:e378:8000:63bf:80ff:fffe
""",
)
PUBLIC = re.findall(
    r"\S+",
    """
1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 100.63.255.255 100.128.0.1 169.253.0.1 223.255.255.254
2606:4700:4700::1111 2a00:1450::1 ::ffff:8.8.8.8 2002:808:808::1 64:ff9b::8.8.8.8
""",
)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_internet_address_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [place for place in PRIVATE if "%" not in place])
def test_private_address_in_the_url_is_refused(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    why = asyncio.run(why_refused(Documents(), f"https://{host}/client.json"))
    assert "is not a public address" in why


@pytest.mark.parametrize("host", ["localhost", "localhost:8443", "127.1", "2130706433", "0x7f.1"])
def test_other_names_of_this_machine_are_refused(host: str) -> None:
    why = asyncio.run(why_refused(Documents(), f"https://{host}/client.json"))
    assert "is not a public address" in why or "was not found" in why


@pytest.mark.parametrize("private", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"])
@pytest.mark.parametrize("is_first", [False, True])
def test_host_with_one_private_address_is_refused(
    certified: Path, private: str, is_first: bool
) -> None:
    async def scenario(site: Site) -> None:
        addresses = [private, "8.8.8.8"] if is_first else ["8.8.8.8", private]
        why = await why_refused(site.documents(*addresses), site.publish())
        assert "is not a public address" in why
        assert site.asked == []

    run_with_site(certified, scenario)


def test_host_name_is_resolved_only_once(certified: Path) -> None:
    """A second look-up would return an address that is not allowed."""

    async def scenario(site: Site) -> None:
        answers = iter([["127.0.0.1"], ["127.0.0.2"]])

        async def look_up(host: str, port: int) -> list[str]:
            return next(answers)

        trusted = ssl.create_default_context(cafile=str(site.certificate))
        allowed = ipaddress.ip_address("127.0.0.1").__eq__
        found = Documents(allowed=allowed, look_up=look_up, trusted=trusted)
        assert "redirect_uris" in await found.of(site.publish())
        assert next(answers) == ["127.0.0.2"]

    run_with_site(certified, scenario)


def test_host_name_without_an_address_is_refused(certified: Path) -> None:
    async def scenario(site: Site) -> None:
        async def look_up(host: str, port: int) -> list[str]:
            if host == HOST:
                return []
            raise OSError

        found = Documents(look_up=look_up)
        assert "not a public address" in await why_refused(found, f"https://{HOST}/c")
        assert "was not found" in await why_refused(found, "https://nowhere.example/c")

    run_with_site(certified, scenario)


# --- invalid client ids

IDS = [
    *("", "nope", "http://client.example/c", "ftp://client.example/c", "https:///c", "https://"),
    *("https://client.example", "https://client.example/", "https://client.example?x"),
    *("https://user@client.example/c", "https://u:p@client.example/c", "https://@client.example/c"),
    *("https://client.example/a/../c", "https://client.example/./c", "https://client.example/.."),
    *("https://client.example:x/c", "https://client.example:99999/c", "https://[::1/c"),
    *("https://client.example/\x00", "https://client.example/a b", "https://client.example/é"),
    *("https://clíent.example/c", "https://client.example/\nc", "https://℀.example/c"),
    "https://client.example/" + "c" * 1000,
    "https://client.example/c#x",
]


@pytest.mark.parametrize("id", IDS)
def test_invalid_client_id_is_refused_without_a_look_up(id: str) -> None:
    async def look_up(host: str, port: int) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    assert "The client id" in asyncio.run(why_refused(Documents(look_up=look_up), id))


def test_host_name_that_is_too_long_is_refused() -> None:
    long = "a" * 64 + ".example"
    assert "was not found" in asyncio.run(why_refused(Documents(), f"https://{long}/c"))


# --- content of documents

MALFORMED: dict[str, dict[str, Any]] = {
    "no redirect": {},
    "an empty list of redirects": {"redirect_uris": []},
    "a redirect that is no address": {"redirect_uris": ["nowhere"]},
    "a redirect that is a script": {"redirect_uris": ["javascript:alert(1)"]},
    "a redirect over plain HTTP": {"redirect_uris": ["http://client.example/cb"]},
    "a redirect with a fragment": {"redirect_uris": ["https://client.example/cb#x"]},
    "a redirect with a user": {"redirect_uris": ["https://u@client.example/cb"]},
    "redirects that are no list": {"redirect_uris": "https://client.example/cb"},
    "too many redirects": {"redirect_uris": [f"https://client.example/{n}" for n in range(9)]},
    "a name that is no text": {"redirect_uris": ["https://client.example/cb"], "client_name": 5},
    "a secret": {"redirect_uris": ["https://client.example/cb"], "client_secret": "x"},
    "a method with a secret": {
        "redirect_uris": ["https://client.example/cb"],
        "token_endpoint_auth_method": "client_secret_post",
    },
}


@pytest.mark.parametrize("document", MALFORMED)
def test_malformed_document_is_refused(document: str) -> None:
    with pytest.raises(Refused):
        clients.published("https://client.example/c", MALFORMED[document])


def test_client_name_is_one_line_of_printable_text() -> None:
    document = {
        "redirect_uris": ["https://client.example/cb"],
        "client_name": " Cla\u202eude\x00\n  is " + "long " * 40,
    }
    name = clients.published("https://client.example/c", document).client_name
    assert name is not None
    assert name.startswith("Claude is long")
    assert len(name) == clients.MAX_NAME_LENGTH
