"""Names and recipients. A recipient has one of two shapes. No function corrects a wrong name."""

import re

from interlock.errors import InvalidRecipientShape, Usage

MAX_FILENAME_LENGTH = 200
BROADCAST = "AGENT:*"
VALID_SHAPES = [
    "AGENT:* (everyone; the asterisk is required)",
    "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
]
# Patterns are compiled on first use: most commands check no name.
NAME = r"[a-z][a-z0-9-]{0,63}"
RECIPIENT = r"[A-Za-z0-9_-]{1,128}"


def address(name: str) -> str:
    """The form of a name in all text and answers."""
    return "@" + name


def recipient_name(to: str, pattern: str, existing: list[str]) -> str | None:
    """The identifier in `@identifier`, or None for everyone.

    `pattern` is the workspace's setting `names.pattern`, or empty. Raises InvalidRecipientShape,
    which suggests the name if it is one of `existing`.
    """
    if to == BROADCAST:
        return None
    name = to[1:] if to.startswith("@") else ""
    if re.fullmatch(RECIPIENT, name) or _widened(name, pattern):
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
    """Return the name if it may be registered. Raises Usage with the allowed characters."""
    if re.fullmatch(NAME, name) or _widened(name, pattern):
        return name
    rule = "lower-case letters, digits and hyphens, beginning with a letter, at most 64"
    if pattern:
        rule += f", or a name that matches names.pattern of this workspace: {pattern}"
    raise Usage(f"{name[:80]!r} cannot be a {what}. Use {rule}.")


def _widened(name: str, pattern: str) -> bool:
    """Whether the workspace's pattern allows the name. No pattern allows spaces and control
    characters, because names are parts of lists and of other texts."""
    plain = name.isprintable() and not any(c.isspace() for c in name) and len(name) <= 254
    return bool(pattern and name and plain and re.fullmatch(pattern, name))


def near(name: str, existing: list[str]) -> list[str] | None:
    """The addresses of existing names that are similar, the nearest first, or None."""
    import difflib

    found = difflib.get_close_matches(name.lower(), existing, n=3, cutoff=0.6)
    return [address(match) for match in found] or None


def unicode(value: str) -> bool:
    """Whether the text can be written as UTF-8, which lone surrogates cannot."""
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def filename(name: str) -> str:
    """Return a file name for a name. No two names share a file name, and none is a path."""
    if name.isascii() and name.replace("-", "").isalnum():
        return name
    escaped = "".join(
        c if (c.isascii() and c.isalnum()) or c in "-_@+" else f"%{ord(c):x}%" for c in name
    )
    if len(escaped) <= MAX_FILENAME_LENGTH:
        return escaped
    import hashlib  # takes longer to import than the rest of this module, and few names need it

    return escaped[:100] + "%" + hashlib.sha256(name.encode()).hexdigest()
