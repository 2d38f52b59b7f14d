"""Find the engine of a workspace's directory: its own file, or a server at a URL.

The URL is recorded next to the log file and not in it, because it may contain a password. The log
file has only the name of the log on the engine.
"""

import json
import os
import re
import shlex
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from interlock.errors import EngineUnavailable, LogDamaged, Usage
from interlock.stores.recognition import NEW, RECORD, is_embedded
from interlock.stores.shared.remote import Remote

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_EXTRAS = {
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "redis"),
    **dict.fromkeys(("postgres", "postgresql"), "postgres"),
}
_TLS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")


class Located(NamedTuple):
    """A server's URL, the name of the workspace on it, and the name of this node."""

    url: str
    workspace: str
    node: str

    def typed(self, *commands: str) -> str:
        """Return a shell command that runs commands in the engine's own client program. The program
        asks for the password, or finds it in its own configuration."""
        parts = urlsplit(self.url)
        user, _, place = parts.netloc.rpartition("@")
        place = (f"{name}@" if (name := user.partition(":")[0]) else "") + place
        if _EXTRAS[parts.scheme] == "postgres":
            url = shlex.quote(_url(parts._replace(netloc=place), _public(parts)))
            return f"psql {url} " + " ".join(f"-c {shlex.quote(each)}" for each in commands)
        scheme = parts.scheme.replace("valkey", "redis")
        url = shlex.quote(_url(parts._replace(scheme=scheme, netloc=place), []))
        return " && ".join(f"redis-cli -u {url} {command}" for command in commands)

    @property
    def shown(self) -> str:
        """The URL that starts another node, with PASSWORD in place of the password."""
        parts = urlsplit(self.url)
        user, at, place = parts.netloc.rpartition("@")
        if at:
            place = user.partition(":")[0] + (":PASSWORD" if ":" in user else "") + at + place
        options = [*_public(parts), f"workspace={self.workspace}"]
        return _url(parts._replace(netloc=place), options)


def located(directory: str, given: str | None, name_of_new: str | None = None) -> Located | None:
    """Return the engine of a directory: the given one, else the recorded one, else, for a new
    workspace, the one that the environment names. A URL without a workspace's name gets
    `name_of_new` or a random name. Return None for the embedded file. Raise Usage."""
    if is_embedded(directory, given):
        return None
    recorded = _recorded(directory)
    if given is None and recorded is None:
        given = os.environ.get(NEW)
    if given is None or given == "sqlite":
        if given == "sqlite" and recorded is not None:
            raise Usage(f"The log of this workspace is on {recorded.shown}. Omit --engine sqlite.")
        return recorded
    url, name = parsed(given)
    if recorded is None:
        host = re.sub(r"[^a-z0-9]+", "-", os.uname().nodename.lower()).strip("-")[:40]
        node = f"{host or 'node'}-{os.urandom(3).hex()}"
        return Located(url, name or name_of_new or os.urandom(8).hex(), node)
    if name not in (None, recorded.workspace):
        raise Usage(
            f"This directory is a node of the workspace {recorded.workspace}, not of {name}. Use "
            "another directory: interlock --workspace DIRECTORY up --engine URL"
        )
    return recorded._replace(url=url)


def record(directory: str, where: Located) -> None:
    """Record which engine stores the log, unless the record is the same."""
    if is_recorded(directory, where):
        return
    path = os.path.join(directory, RECORD)
    draft = f"{path}.{os.urandom(8).hex()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(where._asdict(), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def is_recorded(directory: str, where: Located) -> bool:
    return _recorded(directory) == where


def reach(where: Located) -> Remote:
    """Return the remote at a URL. Its driver is an optional dependency, so import it only here."""
    extra = _EXTRAS[urlsplit(where.url).scheme]
    try:
        if extra == "redis":
            from interlock.stores.shared.redis import RedisRemote

            # The driver knows only the schemes of Redis.
            url = re.sub(r"^valkey(s?)://", r"redis\1://", where.url)
            return RedisRemote(url, where.workspace)
        from interlock.stores.shared.postgres import PostgresRemote

        return PostgresRemote(where.url, where.workspace)
    except ImportError as trouble:
        raise EngineUnavailable(
            f"This engine needs the package {trouble.name}, which is not installed. Install it: "
            f"pip install 'interlock[{extra}]'"
        ) from None


def parsed(given: str) -> tuple[str, str | None]:
    """Return an engine's URL without the option `workspace`, and the value of that option, if
    given. Raise Usage for a URL that is not an engine's."""
    try:
        parts = urlsplit(given)
        kind = _EXTRAS.get(parts.scheme)
        usable = bool(parts.hostname or (parts.query and kind == "postgres"))
        _ = parts.port
    except ValueError:
        kind, usable = None, False
    if kind is None or not usable:
        raise Usage(
            ("The engine's URL has no usable host and port. " if kind is not None else "")
            + "Give redis://HOST:PORT/DB or postgres://HOST:PORT/DATABASE as the engine. Add "
            "?workspace=NAME to join an existing workspace."
        )
    options = _options(parts)
    names = [value for name, value, _ in options if name == "workspace"]
    if len(names) > 1 or (names and not _NAME.fullmatch(names[0])):
        raise Usage(
            "The name of a workspace on an engine has up to 64 lower-case letters, digits and "
            "hyphens. For example: ?workspace=team"
        )
    if kind == "redis":
        # The driver passes every option on as an argument, and fails on an unknown one.
        known = {"db", *(_TLS if parts.scheme in ("rediss", "valkeys") else ())}
        strange = sorted({name for name, _, _ in options} - known - {"workspace"})
        if strange:
            raise Usage(
                f"A URL {parts.scheme}://… has no option {strange[0][:80]!r}. The options are "
                f"{', '.join(sorted(known))} and workspace. Put user and password before the host: "
                f"{parts.scheme}://USER:PASSWORD@HOST:PORT/DB"
            )
        numbers = [value for name, value, _ in options if name == "db"]
        numbers += filter(None, [parts.path.removeprefix("/")])
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise Usage(f"A Redis database is a number. For example: {parts.scheme}://HOST:PORT/0")
    rest = [text for name, _, text in options if name != "workspace"]
    return _url(parts, rest), names[0] if names else None


def _options(parts: SplitResult) -> list[tuple[str, str, str]]:
    """Return the options of a URL: name, value, and the original text, whose escapes the driver
    decodes."""
    found = []
    for option in parts.query.split("&"):
        if option:
            name, _, value = option.partition("=")
            found.append((unquote(name), unquote(value), option))
    return found


def _public(parts: SplitResult) -> list[str]:
    return [text for name, _, text in _options(parts) if "pass" not in name.lower()]


def _url(parts: SplitResult, options: list[str]) -> str:
    """Return the URL, with both slashes even if no host follows them."""
    query = "?" + "&".join(options) if options else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{query}"


def _recorded(directory: str) -> Located | None:
    try:
        with open(os.path.join(directory, RECORD), "rb") as file:
            return Located(**json.load(file))
    except FileNotFoundError:
        return None
    except PermissionError as trouble:
        raise EngineUnavailable(
            f"Interlock cannot use the workspace {directory}: {trouble.strerror}."
        ) from None
    except (OSError, ValueError, TypeError):
        raise LogDamaged(
            f"{RECORD} in {directory} is damaged. It names the engine that has the log. Move the "
            "file away, then name the engine again: interlock up --engine URL"
        ) from None
