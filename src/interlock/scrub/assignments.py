"""Secrets told by the name that they are given.

In a program a name is followed by other names, by calls and by types, so that only what is quoted
is taken for a value. In files of settings, and in scripts of the shell, values stand unquoted.
"""

import re
from collections.abc import Iterator
from typing import Final

from interlock.scrub.placeholders import is_placeholder

# The name ends so: `password_file` and `token_url` name something else.
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
# For small letters, where it is quick: whether a look is worth while.
_HINT: Final = re.compile(
    r"(?:pass|pwd|secret|token|credential|key)[a-z0-9_-]{0,16}[\"'\]]{0,2}[ \t]{0,8}[:=]"
)
_REST: Final = re.compile(r"\s*(?:$|[#;}\]])")
_ENDS: Final = ",;)}]"
# So long a password without a digit or a sign is worth a look; shorter ones are mostly words.
_LONG_PASSWORD: Final = 12
_KEY: Final = re.compile(r"[A-Za-z0-9+/=_.~:-]{16,}")


def hinted(text: str) -> bool:
    """Whether anything in the text may be given such a name; quick, and may say yes in vain."""
    return _HINT.search(text.lower()) is not None


def quoted(text: str) -> Iterator[str]:
    """Values in quotes, in any file."""
    for match in _QUOTED.finditer(text):
        if _looks_secret(match["value"], password=bool(match["password"])):
            yield match["value"]


def bare(text: str) -> Iterator[str]:
    """Values without quotes. After a colon a value ends its line: in prose, words follow."""
    for match in _BARE.finditer(text):
        value = match["value"].rstrip(_ENDS)
        followed = match["sign"] == ":" and match["value"] == value
        if followed and not _REST.match(text, match.end()):
            continue
        if _looks_secret(value, password=bool(match["password"])):
            yield value


def _looks_secret(value: str, *, password: bool) -> bool:
    letters = any(character.isalpha() for character in value)
    digits = any(character.isdigit() for character in value)
    if not letters or is_placeholder(value):
        return False
    if not password:
        return digits and _KEY.fullmatch(value) is not None
    return digits or (len(value) >= _LONG_PASSWORD and value.isascii() and value.islower())
