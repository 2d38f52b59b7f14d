"""The table [scrub] of interlock.toml, checked and typed."""

import re
from typing import Final, NamedTuple

from interlock.errors import Usage
from interlock.scrub.finding import FINGERPRINT_DIGITS
from interlock.verbs import globs

MOST: Final = 1000
LONGEST: Final = 200

_EXAMPLES: Final = {
    "words": '["falcon", "*acme*"]',
    "paths": '["/home/otto"]',
    "allow": '["src", "docs", "*.md"]',
    "refs": '["refs/tags/v*"]',
    "ignore": '["tests/keys/**", "0123456789abcdef"]',
}
_FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{FINGERPRINT_DIGITS}}}")


class Rules(NamedTuple):
    """What this repository's owner wants kept private, and what they have looked at."""

    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None  # None: every path is allowed
    refs: tuple[str, ...] = ()
    ignored_paths: tuple[str, ...] = ()
    ignored_findings: frozenset[str] = frozenset()

    def allows(self, path: str) -> bool:
        return self.allow is None or _covered(self.allow, path)

    def allows_ref(self, name: str) -> bool:
        return _covered(self.refs, name)

    def ignores(self, path: str) -> bool:
        return _covered(self.ignored_paths, path)


def rules_of(table: dict[str, object]) -> Rules:
    """The rules that the table spells. Raises Usage, with the key as member `key`."""
    for key in table:
        if key not in _EXAMPLES:
            raise _refusal(str(key), f"There is no such key. The keys are: {', '.join(_EXAMPLES)}.")
    ignored = _texts(table, "ignore")
    return Rules(
        words=tuple(_word(text) for text in _texts(table, "words")),
        paths=tuple(_path(text) for text in _texts(table, "paths")),
        allow=_allowed(table),
        refs=tuple(_ref(text) for text in _texts(table, "refs")),
        ignored_paths=tuple(
            _glob("ignore", text) for text in ignored if not _FINGERPRINT.fullmatch(text)
        ),
        ignored_findings=frozenset(text for text in ignored if _FINGERPRINT.fullmatch(text)),
    )


def _covered(patterns: tuple[str, ...], path: str) -> bool:
    return any(globs.matches(pattern, path) for pattern in patterns)


def _texts(table: dict[str, object], key: str) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or len(found) > MOST:
        raise _refusal(key, f"It is a list of at most {MOST} texts.")
    texts: list[str] = []
    for text in found:
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST or not text.isprintable():
            raise _refusal(key, f"Each entry is a text of 1 to {LONGEST} printable characters.")
        texts.append(text)
    return texts


def _word(word: str) -> str:
    letters = sum(character.isalnum() for character in word)
    if letters < 2 or "*" in word.strip("*") or word != word.strip():
        raise _refusal(
            "words",
            f"{word!r} is no word: it needs two letters or digits, no space around it, and * only "
            "at its ends, where it means any letters.",
        )
    return word


def _path(path: str) -> str:
    if not re.search(r"[\\/]", path) or not re.search(r"[^\\/.~:*]", path):
        raise _refusal("paths", f"{path!r} is no path: give one with a / and a name in it.")
    return path


def _allowed(table: dict[str, object]) -> tuple[str, ...] | None:
    if "allow" not in table:
        return None
    allowed = tuple(_glob("allow", text) for text in _texts(table, "allow"))
    if not allowed:
        raise _refusal("allow", "An empty list allows no file at all. Leave it out to allow all.")
    return allowed


def _ref(pattern: str) -> str:
    if not pattern.startswith("refs/"):
        raise _refusal("refs", f"{pattern!r} is no full name of refs: it begins with refs/.")
    return _glob("refs", pattern)


def _glob(key: str, pattern: str) -> str:
    try:
        globs.matches(pattern, "x")  # brackets are looked into only where a glob is used
        return globs.canonical(pattern)
    except Usage as refusal:
        raise _refusal(key, f"{pattern!r} is no glob: {refusal.message}") from None


def _refusal(key: str, message: str) -> Usage:
    example = f" For example: {key} = {_EXAMPLES[key]}" if key in _EXAMPLES else ""
    return Usage(f"[scrub] {key[:80]} in interlock.toml: {message}{example}", key=key[:80])
