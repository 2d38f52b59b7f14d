"""Secrets in lines of text: the detectors of detect-secrets, and a few that it lacks.

Only its patterns are used, which need no network and know no comment that switches them off. Why
this scanner, and why not its search for random-looking text: docs/decisions/0024-secret-scanner.md
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from interlock.errors import BadToken, Usage
from interlock.rooms.identity import token_format
from interlock.rooms.work import secrets
from interlock.scrub import assignments
from interlock.scrub.placeholders import is_placeholder

# An address is no secret, and version numbers look like one. The others give only the beginnings of
# tokens, so that all tokens of a file would be one finding; the shared shapes have them whole.
_LEFT_OUT: Final = frozenset({"IPPublicDetector", "GitHubTokenDetector", "GitLabTokenDetector"})
# So many lines are remembered to hold nothing, since each version of a file repeats most of them.
_REMEMBERED: Final = 1_000_000
_MASKED_FROM: Final = 16
_CHOSEN: Final = "Password or key"
_PRIVATE_KEY: Final = "Private Key"
# What people thought of themselves is short, and has no beginning that tells its kind.
_HIDDEN: Final = (_CHOSEN, "Basic Auth Credentials", _PRIVATE_KEY)
_SHOWN: Final = 4

_OWN: Final = (
    ("Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{34}")),
    (_PRIVATE_KEY, re.compile(r"BEGIN[ ]ENCRYPTED PRIVATE KEY|PuTTY-User-Key-File-[3-9]")),
    (_PRIVATE_KEY, re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]{58}")),
)
_TOKEN: Final = re.compile(rf"\b{token_format.PREFIX}[a-z2-7]{{47}}\b")


class Secret(NamedTuple):
    kind: str
    value: str
    line: int

    @property
    def described(self) -> str:
        """What it is, with its beginning where enough stays hidden."""
        if len(self.value) < _MASKED_FROM or self.kind in _HIDDEN:
            return self.kind
        return f"{self.kind} ({self.value[:_SHOWN]}…)"


class Row(NamedTuple):
    """A line, or a part of one that is very long."""

    line: int
    text: str


class _Detector(NamedTuple):
    kind: str
    occurs: Callable[[str], bool]  # a quick look at many lines; may say yes in vain
    values: Callable[[str], Iterator[str]]  # of one line


class Scanner:
    """Finds secrets. Raises Usage where detect-secrets is not installed."""

    def __init__(self) -> None:
        self._anywhere = [*_foreign(), *_own(), *_shared(), *_named()]
        self._in_settings = [*self._anywhere, _guarded(assignments.hinted, assignments.bare)]
        self._clean: set[int] = set()

    def secrets(self, rows: Sequence[Row], *, settings: bool = False) -> Iterator[Secret]:
        """The secrets in these rows; `settings` says that values stand in them unquoted."""
        fresh = [row for row in rows if hash((row.text, settings)) not in self._clean]
        together = "\n".join(row.text for row in fresh)
        detectors = self._in_settings if settings else self._anywhere
        suspects = [detector for detector in detectors if detector.occurs(together)]
        found = [secret for row in fresh for secret in _secrets(suspects, row)]
        dirty = {secret.line for secret in found}
        if len(self._clean) > _REMEMBERED:
            self._clean.clear()
        self._clean.update(hash((row.text, settings)) for row in fresh if row.line not in dirty)
        yield from found


def _secrets(detectors: Sequence[_Detector], row: Row) -> Iterator[Secret]:
    """Each once: what several detectors know has the kind that the first of them gives it."""
    known: list[str] = []
    for detector in detectors:
        for value in detector.values(row.text):
            if any(value in other or other in value for other in known):
                continue
            if detector.kind == _PRIVATE_KEY or not is_placeholder(value):
                known.append(value)
                yield Secret(detector.kind, value, row.line)


def _foreign() -> Iterator[_Detector]:
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import BasePlugin, RegexBasedDetector
    except ImportError:
        raise Usage(
            "The scrub looks for secrets with detect-secrets, which is not installed. Without it "
            "nothing can be vouched for. Install it: pip install 'interlock[scrub]'"
        ) from None
    known: Mapping[str, type[BasePlugin]] = get_mapping_from_secret_type_to_class()
    for kind, make in sorted(known.items()):
        if issubclass(make, RegexBasedDetector) and make.__name__ not in _LEFT_OUT:
            detector = make()
            yield _Detector(kind, _first(detector.analyze_string), detector.analyze_string)


def _own() -> Iterator[_Detector]:
    for kind, pattern in _OWN:
        yield _Detector(kind, _occurring(pattern), _matches(pattern))
    yield _Detector("Interlock token", _occurring(_TOKEN), _tokens)


def _shared() -> Iterator[_Detector]:
    """The shapes that are masked wherever Interlock stores text, but for its own tokens."""
    for rule in secrets.RULES:
        shape = rule.pattern.pattern.decode()
        if not shape.startswith(token_format.PREFIX):
            pattern = re.compile(shape, re.ASCII)
            more = re.compile(rule.more.pattern.decode(), re.ASCII)
            kind = _CHOSEN if pattern.groups else "Key or token"
            yield _Detector(kind, _occurring(pattern), _shaped(pattern, more))


def _named() -> Iterator[_Detector]:
    from detect_secrets.plugins import keyword

    # This one reads on over the ends of lines, so that only its words are looked for at first.
    words = re.compile("|".join(keyword.DENYLIST))
    found: Callable[[str], Iterator[str]] = keyword.KeywordDetector().analyze_string
    yield _guarded(lambda text: words.search(text.lower()) is not None, found)
    yield _guarded(assignments.hinted, assignments.quoted)


def _guarded(occurs: Callable[[str], bool], values: Callable[[str], Iterator[str]]) -> _Detector:
    """One whose quick look is worth taking at each line, too."""
    return _Detector(_CHOSEN, occurs, lambda text: values(text) if occurs(text) else iter(()))


def _first(values: Callable[[str], Iterator[str]]) -> Callable[[str], bool]:
    return lambda text: next(iter(values(text)), None) is not None


def _occurring(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.search(text) is not None


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    return lambda text: (match.group() for match in pattern.finditer(text))


def _shaped(pattern: re.Pattern[str], more: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    """What the pattern's group holds, as far as it goes on. Without a digit it is but a word."""

    def values(text: str) -> Iterator[str]:
        for match in pattern.finditer(text):
            rest = more.match(text, match.end())
            value = match.group(pattern.groups) + (rest.group() if rest else "")
            if any(character.isdigit() for character in value):
                yield value

    return values


def _tokens(text: str) -> Iterator[str]:
    """Interlock's tokens have a checksum: what only looks like one opens nothing."""
    for token in _TOKEN.findall(text):
        try:
            token_format.hashed(token)
        except BadToken:
            continue
        yield token
