"""Find secrets in lines of text, with the detectors of detect-secrets and some additional ones.

The scanner uses only the patterns of detect-secrets. They need no network, and no comment in a file
disables them. docs/decisions/0023-find-secrets-by-pattern.md has the reasons.

The additional detectors find secrets by the name of a variable or setting. In programs, names,
calls and types can follow such a name, so only quoted text counts as a value. In settings and shell
scripts, values are unquoted. Placeholders are no secrets: words such as `changeme`, rows of `x`,
and references to the place of the secret. The ids of Interlock's tokens are public too.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from interlock.errors import BadToken, Usage
from interlock.rooms.identity import token_format
from interlock.rooms.work import secrets

# An IP address is no secret, and version numbers look like one. The other detectors return only the
# start of a token, so that all tokens of a file would be one finding. The shapes in `secrets.RULES`
# match these tokens completely.
_LEFT_OUT: Final = frozenset({"IPPublicDetector", "GitHubTokenDetector", "GitLabTokenDetector"})
# The number of clean lines that the scanner remembers, because versions of a file share most lines.
_REMEMBERED: Final = 1_000_000
_MASKED_FROM: Final = 16
_CHOSEN: Final = "Password or key"
_PRIVATE_KEY: Final = "Private Key"
# Secrets whose start must not be shown: a secret by a person is short, and has no prefix of a kind.
_HIDDEN: Final = (_CHOSEN, "Basic Auth Credentials", _PRIVATE_KEY)
_SHOWN: Final = 4

_OWN: Final = (
    ("Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{34}")),
    (_PRIVATE_KEY, re.compile(r"BEGIN[ ]ENCRYPTED PRIVATE KEY|PuTTY-User-Key-File-[3-9]")),
    (_PRIVATE_KEY, re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]{58}")),
)
_TOKEN: Final = re.compile(rf"\b{token_format.PREFIX}[a-z2-7]{{47}}\b")

# A name must end with one of these words: `password_file` and `token_url` do not name secrets.
_BY_PEOPLE: Final = r"password|passwd|passphrase|passcode|(?<![a-z])(?:pass|pwd)"
_BY_MACHINES: Final = (
    r"secret|token|credentials?"
    r"|(?:api|access|account|auth|encryption|master|private|secret|service|signing)[_-]?key"
)
_NAMED: Final = (
    rf"(?:(?P<password>{_BY_PEOPLE})|{_BY_MACHINES})"
    r"(?:[_-]?(?:\d{1,2}|prod(?:uction)?|staging|live|test|dev|value|base64))?"
    r"[\"'\]]{0,2}[ \t]{0,8}(?P<sign>:=|=>|[:=])[ \t]{0,8}"
)
_QUOTED: Final = re.compile(
    _NAMED + r"(?P<quote>[\"'])(?P<value>[^\s\"']{6,500})(?P=quote)", re.IGNORECASE
)
_BARE: Final = re.compile(_NAMED + r"(?P<value>[^\s\"'`=][^\s\"'`]{5,500})", re.IGNORECASE)
# A fast test of lower-case text.
_HINT: Final = re.compile(
    r"(?:pass|pwd|secret|token|credential|key)[a-z0-9_-]{0,16}[\"'\]]{0,2}[ \t]{0,8}[:=]"
)
_REST: Final = re.compile(r"\s*(?:$|[#;}\]])")
_ENDS: Final = ",;)}]"
# A shorter password without a digit is usually a plain word.
_LONG_PASSWORD: Final = 12
_KEY: Final = re.compile(r"[A-Za-z0-9+/=_.~:-]{16,}")

# Placeholders
_WORDS: Final = (
    "password passphrase passwort passwd pass pwd secret token credentials credential apikey key "
    "auth api access account client private public username user admin root login app database db "
    "changeme changeit change replace insert enter put add set fill update your yours my mine our "
    "the this that a an of in it is to not for from with and or here me goes real actual value "
    "string text type name example sample placeholder dummy fake mock test testing tests foobar "
    "foo bar baz todo tbd fixme redacted hidden masked removed none null nil undefined unset empty "
    "blank default optional required true false yes no on off some any random strong secure long "
    "super very insecure generate generated abcdefgh abcdef abcd abc xyz xxx qwerty letmein only "
    "demo dev local development production prod staging new old bearer basic"
)
# The longest first, and possessive, so that a match takes linear time.
_PLACEHOLDER: Final = re.compile(
    "(?:" + "|".join(sorted(_WORDS.split(), key=len, reverse=True)) + r"|\d{1,10}|[\W_])++",
    re.IGNORECASE,
)
_ROW: Final = re.compile(r"([x*.#?_•…-])\1{7}", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(
    r"""(?isx)
    \$ [\w{(@] .* | % \w+ % | %\( .* | %[sdr] | \\ .*
    | .* (?: \$\{ | \$\( | \{\{ | \#\{ | <% | %\(\w+\)s ) .*
    | [*&] [a-z_][\w-]* | [<\[{(|>] .*  | .* < [\w .-]+ > .* | [^{}]* \{ [\w.\[\]!:'"()]* \} [^{}]*
    | [a-z_][\w.]* \( .*
    | (?: os | process | env | environ | settings | config | conf | var | local | module | data
        | secrets? | self | this | args | options | opts | params | request | ctx | context | vault
        | ssm | arn | file | values? ) [.:\[] .*
    | (?: ~ | \.{1,2} | [a-z]: ) [/\\] .* | / [a-z]{2,} (?: [/.] .* )? | [a-z][a-z0-9+.-]* :// .*
    | tok_[0-9a-f]{12}
    | .+ \. (?: txt | pem | key | crt | cer | json | ya?ml | toml | env | gpg | asc | pub | html? )
    """
)


class Secret(NamedTuple):
    kind: str
    value: str
    line: int

    @property
    def described(self) -> str:
        """Return the kind, with the start of the secret if enough of it stays hidden."""
        if len(self.value) < _MASKED_FROM or self.kind in _HIDDEN:
            return self.kind
        return f"{self.kind} ({self.value[:_SHOWN]}…)"


class ScannedLine(NamedTuple):
    """A line, or a part of a very long line."""

    line: int
    text: str


class _Detector(NamedTuple):
    kind: str
    values: Callable[[str], Iterator[str]]  # the secrets in one line
    hint: Callable[[str], object] | None = None  # a faster test with false positives

    def may_find(self, text: str) -> bool:
        return bool(self.hint(text)) if self.hint else any(True for _ in self.values(text))


class Scanner:
    """Finds secrets. Raises Usage if detect-secrets is not installed."""

    def __init__(self) -> None:
        self._detectors = [*_foreign(), *_own()]
        bare = _Detector(_CHOSEN, partial(_assigned, _BARE), _assignment_hint)
        self._in_settings = [*self._detectors, bare]
        self._clean: set[int] = set()

    def secrets(self, rows: Sequence[ScannedLine], *, settings: bool = False) -> Iterator[Secret]:
        """Yield the secrets in these rows. If `settings` is true, values are unquoted."""
        fresh = [row for row in rows if hash((row.text, settings)) not in self._clean]
        together = "\n".join(row.text for row in fresh)
        detectors = self._in_settings if settings else self._detectors
        suspects = [detector for detector in detectors if detector.may_find(together)]
        found = [secret for row in fresh for secret in _secrets(suspects, row)]
        dirty = {secret.line for secret in found}
        if len(self._clean) > _REMEMBERED:
            self._clean.clear()
        self._clean.update(hash((row.text, settings)) for row in fresh if row.line not in dirty)
        yield from found


def _secrets(detectors: Sequence[_Detector], row: ScannedLine) -> Iterator[Secret]:
    """Yield each secret once, with the kind of its first detector."""
    known: list[str] = []
    for detector in detectors:
        if detector.hint and not detector.hint(row.text):
            continue
        for value in detector.values(row.text):
            if any(value in other or other in value for other in known):
                continue
            if detector.kind == _PRIVATE_KEY or not is_placeholder(value):
                known.append(value)
                yield Secret(detector.kind, value, row.line)


def _foreign() -> Iterator[_Detector]:
    """Yield the detectors of detect-secrets that find a secret by its shape."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import BasePlugin, RegexBasedDetector
    except ImportError:
        raise Usage(
            "The scrub finds secrets with detect-secrets, which is not installed. Install it: pip "
            "install 'interlock[scrub]'"
        ) from None
    known: Mapping[str, type[BasePlugin]] = get_mapping_from_secret_type_to_class()
    for kind, make in sorted(known.items()):
        if issubclass(make, RegexBasedDetector) and make.__name__ not in _LEFT_OUT:
            yield _Detector(kind, make().analyze_string)


def _own() -> Iterator[_Detector]:
    from detect_secrets.plugins import keyword

    for kind, pattern in _OWN:
        yield _Detector(kind, partial(_shaped, pattern, None), pattern.search)
    yield _Detector("Interlock token", _tokens, _TOKEN.search)
    # The shapes that Interlock masks in stored text, without its own tokens.
    for rule in secrets.RULES:
        shape = rule.pattern.pattern.decode()
        if not shape.startswith(token_format.PREFIX):
            pattern = re.compile(shape, re.ASCII)
            more = re.compile(rule.more.pattern.decode(), re.ASCII)
            kind = _CHOSEN if pattern.groups else "Key or token"
            yield _Detector(kind, partial(_shaped, pattern, more), pattern.search)
    # The keyword detector can match across lines, so its hint searches only for its words.
    words = re.compile("|".join(keyword.DENYLIST))
    find: Callable[[str], Iterator[str]] = keyword.KeywordDetector().analyze_string
    yield _Detector(_CHOSEN, find, lambda text: words.search(text.lower()))
    yield _Detector(_CHOSEN, partial(_assigned, _QUOTED), _assignment_hint)


def _shaped(pattern: re.Pattern[str], more: re.Pattern[str] | None, text: str) -> Iterator[str]:
    """Yield the group of the pattern, with the text after it that matches `more`. With `more`, skip
    a value without a digit, which is only a word."""
    for match in pattern.finditer(text):
        value = match.group(pattern.groups)
        if more is not None:
            rest = more.match(text, match.end())
            value += rest.group() if rest else ""
            if not any(character.isdigit() for character in value):
                continue
        yield value


def _tokens(text: str) -> Iterator[str]:
    """Yield Interlock's tokens. Their checksum distinguishes them from other text of the same
    shape."""
    for token in _TOKEN.findall(text):
        with suppress(BadToken):
            token_format.hashed(token)
            yield token


def _assignment_hint(text: str) -> bool:
    return _HINT.search(text.lower()) is not None


def _assigned(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the values of names such as `password`. After a colon, an unquoted value must end its
    line, because in prose other words follow."""
    for match in pattern.finditer(text):
        value = match["value"]
        if pattern is _BARE:
            value = value.rstrip(_ENDS)
            is_last = match["sign"] != ":" or value != match["value"]
            if not is_last and not _REST.match(text, match.end()):
                continue
        if is_placeholder(value) or not any(character.isalpha() for character in value):
            continue
        has_digits = any(character.isdigit() for character in value)
        if match["password"]:
            is_long = len(value) >= _LONG_PASSWORD and value.isascii() and value.islower()
            is_secret = has_digits or is_long
        else:
            is_secret = has_digits and _KEY.fullmatch(value) is not None
        if is_secret:
            yield value


def is_placeholder(value: str) -> bool:
    """Return whether the value is a placeholder for a secret."""
    return bool(
        "EXAMPLE" in value
        or _ROW.search(value)
        or len(set(value.lower()) - set("-_. ")) <= 2
        or _PLACEHOLDER.fullmatch(value)
        or _ELSEWHERE.fullmatch(value)
    )
