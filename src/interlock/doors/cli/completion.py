"""Completion scripts for bash, zsh and fish, generated from the table.

A script looks its candidates up under `PLACE|WANTED`: the words of the command so far, each after
a space, and the flag whose value is wanted, or `-` for flags, or the number of arguments before.
"""

from collections.abc import Iterator, Sequence

from interlock.doors.cli.grammar import BUILT_IN, HELP, VERSION, Command, Flag
from interlock.doors.cli.shells import BASH, FISH, ZSH
from interlock.errors import Usage
from interlock.verbs.spelling import listed, shown

Candidates = list[tuple[str, str]]
"""Words to offer, each with what it means."""


def script(shell: str, commands: Sequence[Command], common: Sequence[Flag]) -> str:
    """The script that teaches a shell the table. Raises Usage for a shell it does not know."""
    shells = {"bash": BASH, "zsh": ZSH, "fish": FISH}
    if shell not in shells:
        known = list(shells)
        message = f"There is no completion for '{shown(shell)}', only for {listed(known)}."
        raise Usage(message, choices=known)
    commands = (*commands, HELP, VERSION)
    every = [*common, *BUILT_IN, *(flag for command in commands for flag in command.flags)]
    foreign = [command for command in commands if command.rest]
    bare = [c for c in commands if c.flags and not c.arguments and not c.rest]
    parts = {
        "@places@": [place for command in commands for place in _places(command)],
        "@valued@": [flag.name for flag in every if flag.placeholder],
        "@runs@": [_place(c.words) for c in foreign],
        "@runs_now@": [f"{_place(c.words)}|{len(c.arguments)}" for c in foreign],
        "@only_flags@": [f"{_place(c.words)}|0" for c in bare],
    }
    separator = " " if shell == "fish" else " | "
    text = shells[shell]
    for name, words in parts.items():
        # A pattern that nothing matches keeps the syntax right where there are no words.
        quoted = [_quote(shell, word) for word in dict.fromkeys(words or ["|"])]
        text = text.replace(name, separator.join(quoted))
    cases = [_case(shell, *case) for case in _cases(commands, common)]
    text = text.replace("@cases@", "\n".join(cases))
    return text.replace("@common@", _words(shell, _flags((*common, *BUILT_IN))))


def _cases(commands: Sequence[Command], common: Sequence[Flag]) -> Iterator[tuple[str, Candidates]]:
    below: dict[str, dict[str, list[str]]] = {}
    for command in commands:
        for depth, word in enumerate(command.words):
            leads_to = [*command.words[depth + 1 : depth + 2], command.summary][0]
            words = below.setdefault(_place(command.words[:depth]), {})
            words.setdefault(word, []).append(leads_to)
    for place, words in below.items():
        yield f"{place}|0", [(word, ", ".join(about)) for word, about in words.items()]
    for command in commands:
        place = _place(command.words)
        if command.flags:
            yield f"{place}|-", _flags(command.flags)
        for flag in (*common, *command.flags):
            if flag.choices:
                yield f"{place}|{flag.name}", [(choice, "") for choice in flag.choices]
        for index, argument in enumerate(command.arguments):
            if argument.choices:
                yield f"{place}|{index}", [(choice, "") for choice in argument.choices]


def _place(words: Sequence[str]) -> str:
    return "".join(f" {word}" for word in words)


def _places(command: Command) -> list[str]:
    return [_place(command.words[: depth + 1]) for depth in range(len(command.words))]


def _flags(flags: Sequence[Flag]) -> Candidates:
    return [(flag.name, flag.help) for flag in flags]


def _case(shell: str, key: str, candidates: Candidates) -> str:
    words = _words(shell, candidates)
    if shell == "fish":
        return f"        case {_quote(shell, key)}\n            set rows {words}"
    return f"        {_quote(shell, key)}) rows=({words}) ;;"


def _words(shell: str, candidates: Candidates) -> str:
    """Candidates as words of the shell: bash has no descriptions, zsh wants `word:description`,
    fish gets pairs."""
    if shell == "bash":
        return " ".join(_quote(shell, word) for word, _ in candidates)
    if shell == "zsh":
        rows = (
            (word.replace("\\", "\\\\").replace(":", "\\:"), about) for word, about in candidates
        )
        return " ".join(_quote(shell, f"{word}:{about}".removesuffix(":")) for word, about in rows)
    return " ".join(_quote(shell, text) for candidate in candidates for text in candidate)


def _quote(shell: str, text: str) -> str:
    text = " ".join(text.split("\n"))
    if shell == "fish":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"
