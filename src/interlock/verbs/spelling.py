"""Spelling in refusals: the safe display of words, similar names, and lists of names."""

from collections.abc import Sequence


def shown(word: str) -> str:
    """The word in a form for errors: one printable line of valid text, not too long."""
    text = "".join(map(_printable, word[:80]))
    return text + "…" * (len(word) > 80)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that Python could not decode
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def near(word: str, names: Sequence[str]) -> list[str]:
    """Up to three names that are similar to the word, the nearest first."""
    if len(word) > 60:
        return []  # no name is that long, and the comparison is quadratic
    from difflib import get_close_matches

    # The leading dashes would make all flags similar.
    bare = {name.lstrip("-"): name for name in sorted(names)}
    return [bare[match] for match in get_close_matches(word.lstrip("-"), bare, 3)]


def listed(names: Sequence[str]) -> str:
    """`A, B and C`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def visible(text: str) -> str:
    """Replace every character that is invisible, or that reorders the text around it, by its
    number. Deleting it would change the author's text."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").isprintable():
        return text
    import unicodedata

    # U+200C and U+200D join letters of some scripts, and emoji.
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        c
        if c in "\n\t\u200c\u200d" or (unicodedata.category(c) not in hidden and c != "\u2065")
        else f"⟨U+{ord(c):04X}⟩"
        for c in text
    )
