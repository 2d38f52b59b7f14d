"""Names and recipients. Two shapes of recipient exist and no others; nothing is corrected."""

import re

from interlock.errors import InvalidRecipientShape, Usage

MAX_FILENAME_LENGTH = 200
BROADCAST = "AGENT:*"
VALID_SHAPES = [
    "AGENT:* (everyone; the asterisk is required)",
    "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
]
NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
RECIPIENT = re.compile(r"[A-Za-z0-9_-]{1,128}")


def address(name: str) -> str:
    """How an agent is written everywhere a person or program may copy it from."""
    return "@" + name


def recipient_name(to: str, pattern: str, existing: list[str]) -> str | None:
    """The identifier in `@identifier`, or None for everyone.

    `pattern` is the workspace's own (`names.pattern`), or empty. Any other shape is
    `InvalidRecipientShape`; `existing` names are only used to point out a near miss.
    """
    if to == BROADCAST:
        return None
    name = to[1:] if to.startswith("@") else ""
    if RECIPIENT.fullmatch(name) or _widened(name, pattern):
        return name
    bare = to.split(":", 1)[-1].strip().lstrip("@")
    raise InvalidRecipientShape(
        f"Recipient {to[:200]!r} matches neither shape. Use AGENT:* to reach everyone, or "
        "@<identifier> for one agent. AGENT:<name> is not a form.",
        to=to[:200],
        valid_shapes=VALID_SHAPES,
        did_you_mean=[address(bare)] if bare in existing else None,
    )


def check_name(name: str, pattern: str, what: str = "name") -> str:
    """A name that may be registered, or `Usage` saying which characters may stand in it."""
    if NAME.fullmatch(name) or _widened(name, pattern):
        return name
    rule = "lower-case letters, digits and hyphens, beginning with a letter, at most 64"
    if pattern:
        rule += f" (or what this workspace's names.pattern allows: {pattern})"
    raise Usage(f"{name[:80]!r} cannot be a {what}: use {rule}.")


def _widened(name: str, pattern: str) -> bool:
    """Whether the workspace's own pattern lets a name in. Blanks and control characters stay
    out whatever it says: names stand in lists, and beside other text."""
    plain = name.isprintable() and not any(c.isspace() for c in name) and len(name) <= 254
    return bool(pattern and name and plain and re.fullmatch(pattern, name))


def near(name: str, existing: list[str]) -> list[str] | None:
    """Addresses that exist and look alike, best first; None when there are none."""
    import difflib

    found = difflib.get_close_matches(name.lower(), existing, n=3, cutoff=0.6)
    return [address(match) for match in found] or None


def unicode(value: str) -> bool:
    """Whether the text can be written as UTF-8, which lone surrogates cannot."""
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def filename(name: str) -> str:
    """A name as a file's: injective, and never a path, whatever `names.pattern` lets in."""
    if name.isascii() and name.replace("-", "").isalnum():
        return name
    escaped = "".join(
        c if (c.isascii() and c.isalnum()) or c in "-_@+" else f"%{ord(c):x}%" for c in name
    )
    if len(escaped) <= MAX_FILENAME_LENGTH:
        return escaped
    import hashlib  # takes longer to import than the rest of this module, and few names need it

    return escaped[:100] + "%" + hashlib.sha256(name.encode()).hexdigest()
