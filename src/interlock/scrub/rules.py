"""Validate the table [scrub] of interlock.toml."""

import re
from typing import Final, NamedTuple

from interlock.errors import Usage
from interlock.verbs import globs

FINGERPRINT_DIGITS: Final = 16
MAX_ENTRIES: Final = 1000
MAX_LENGTH: Final = 200

_EXAMPLES: Final = {
    "words": '["falcon", "*acme*"]',
    "paths": '["/home/otto"]',
    "allow": '["src", "docs", "*.md"]',
    "refs": '["refs/tags/v*"]',
    "ignore": '["tests/keys/**", "0123456789abcdef"]',
}
_FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{FINGERPRINT_DIGITS}}}")


class Rules(NamedTuple):
    """The private words and paths of a repository, its allowed files and refs, and the findings to
    ignore."""

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


def _covered(patterns: tuple[str, ...], path: str) -> bool:
    return any(globs.matches(pattern, path) for pattern in patterns)


def rules_of(table: dict[str, object]) -> Rules:
    """Return the rules in the table. Raise Usage, with the key as member `key`."""
    for key in table:
        if key not in _EXAMPLES:
            raise _refusal(str(key), f"Unknown key. The keys are {', '.join(_EXAMPLES)}.")
    words, paths, refs, ignored = (_texts(table, k) for k in ("words", "paths", "refs", "ignore"))
    for word in words:
        letters = sum(character.isalnum() for character in word)
        if letters < 2 or "*" in word.strip("*") or word != word.strip():
            raise _refusal(
                "words",
                f"{word!r} is not a valid word. A word has at least two letters or digits, and no "
                "spaces around it. A * is allowed only at its ends, and matches any letters.",
            )
    for path in paths:
        if not re.search(r"[\\/]", path) or not re.search(r"[^\\/.~:*]", path):
            raise _refusal("paths", f"{path!r} is not a path with a slash and a name.")
    for pattern in refs:
        if not pattern.startswith("refs/"):
            raise _refusal("refs", f"{pattern!r} must be a full name, which starts with refs/.")
    allowed = _globs("allow", _texts(table, "allow")) if "allow" in table else None
    if allowed == ():
        raise _refusal("allow", "An empty list allows no files. Omit the key to allow all files.")
    fingerprints = frozenset(filter(_FINGERPRINT.fullmatch, ignored))
    ignored_paths = [text for text in ignored if text not in fingerprints]
    return Rules(
        tuple(words),
        tuple(paths),
        allowed,
        _globs("refs", refs),
        _globs("ignore", ignored_paths),
        fingerprints,
    )


def _texts(table: dict[str, object], key: str) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or len(found) > MAX_ENTRIES:
        raise _refusal(key, f"It must be a list of at most {MAX_ENTRIES} strings.")
    for text in found:
        if not isinstance(text, str) or not 0 < len(text) <= MAX_LENGTH or not text.isprintable():
            raise _refusal(key, f"Each entry must have 1 to {MAX_LENGTH} printable characters.")
    return found


def _globs(key: str, patterns: list[str]) -> tuple[str, ...]:
    found = []
    for pattern in patterns:
        try:
            globs.matches(pattern, "x")  # only `matches` checks the brackets of a glob
            found.append(globs.canonical(pattern))
        except Usage as refusal:
            raise _refusal(key, f"{pattern!r} is not a valid glob. {refusal.message}") from None
    return tuple(found)


def _refusal(key: str, message: str) -> Usage:
    example = f" For example: {key} = {_EXAMPLES[key]}" if key in _EXAMPLES else ""
    return Usage(f"[scrub] {key[:80]} in interlock.toml: {message}{example}", key=key[:80])
