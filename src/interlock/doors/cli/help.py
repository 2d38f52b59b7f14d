"""The help: the overview, the page of a group or a command, and usage lines."""

from collections.abc import Callable, Iterable, Sequence

from interlock.doors.cli.grammar import BUILT_IN, HELP, VERSION, Argument, Command, Flag

Bold = Callable[[str], str]

TAGLINE = "Interlock: where agent work becomes coordinated, gated and auditable."
FIRST_STEPS = (
    "interlock join otto # register an agent",
    "interlock run otto -- claude # start its client as this agent",
    "interlock claim acquire --item B-12 # claim work before you change it",
    "interlock send @vera 'I took B-12' # send a message",
    "interlock inbox # list your open mail",
)

# A wider left column leaves too little room for the text next to it.
_WIDEST = 30
_NARROWEST = 40


def plain(text: str) -> str:
    """Return the text unchanged, where a terminal would show it in bold."""
    return text


def text(
    topic: Sequence[str],
    commands: Sequence[Command],
    common: Sequence[Flag],
    *,
    width: int = 80,
    bold: Bold = plain,
) -> str:
    """Return the help of a topic: a command, a group, or (without words) the overview."""
    found = [c for c in (*commands, HELP, VERSION) if c.words[: len(topic)] == tuple(topic)]
    exact = next((c for c in found if c.words == tuple(topic)), None)
    if not topic:
        sections = _overview(commands, common, width, bold)
    elif exact is not None:
        sections = _page(exact, common, width, bold)
    else:
        closing = f"For one command, with examples: interlock help {found[0].name}"
        sections = [
            [bold(f"interlock {' '.join(topic)}")],
            _rows([(command.name, command.summary) for command in found], width, bold),
            _fill(closing.split(), width),
        ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _overview(
    commands: Sequence[Command], common: Sequence[Flag], width: int, bold: Bold
) -> list[list[str]]:
    """First steps, then one line for each command or family of commands."""
    headings: dict[str, dict[str, list[Command]]] = {}
    for command in commands:
        families = headings.setdefault(command.group or "More", {})
        families.setdefault(command.words[0], []).append(command)
    left = max([len(word) for families in headings.values() for word in families], default=0)
    sections = [_fill(TAGLINE.split(), width), _examples("First steps", FIRST_STEPS, width, bold)]
    for heading, families in headings.items():
        rows = []
        for word, members in families.items():
            is_one = len(members) == 1 and len(members[0].words) == 1
            below = ", ".join(" ".join(command.words[1:]) for command in members)
            rows.append((word, members[0].summary if is_one else below))
        sections.append([bold(heading), *_rows(rows, width, bold, left)])
    sections.append(
        [bold("Flags of every command"), *_rows(flag_rows((*common, *BUILT_IN)), width, bold)]
    )
    closing = "For one command, with examples: interlock help COMMAND"
    return [*sections, _fill(closing.split(), width)]


def _page(command: Command, common: Sequence[Flag], width: int, bold: Bold) -> list[list[str]]:
    """Everything about one command."""
    arguments, flags = argument_rows(command), flag_rows(command.flags)
    also = [f"{flag.form}," for flag in common] + ["--help."]
    return [
        _fill(f"{command.summary}.".split(), width),
        [bold("Usage"), *usage_lines(command, width, "  ")],
        _examples("Examples", command.examples, width, bold),
        [bold("Arguments"), *_rows(arguments, width, bold)] if arguments else [],
        [bold("Flags"), *_rows(flags, width, bold)] if flags else [],
        *(_fill(paragraph.split(), width) for paragraph in command.notes.split("\n\n")),
        _fill(["Every command also takes", *also], width),
    ]


def usage(command: Command) -> str:
    """The command on one line: `interlock ack ID... [--decline] [--note N]`."""
    return " ".join([f"interlock {command.name}", *_parts(command)])


def usage_lines(command: Command, width: int, indent: str = "") -> list[str]:
    """The usage, broken between its parts."""
    name = f"interlock {command.name}"
    hanging = indent + " " * min(len(name) + 1, width // 2 - len(indent))
    return _fill([name, *_parts(command)], width, indent, hanging)


def group_usage(path: Sequence[str], commands: Sequence[Command]) -> str:
    """The usage of an unfinished command: `interlock claim acquire|renew|release`."""
    if not path:
        return "interlock COMMAND [ARGUMENT...] [FLAG...]"
    below = [c.words[len(path)] for c in commands if c.words[: len(path)] == tuple(path)]
    return " ".join(["interlock", *path, "|".join(dict.fromkeys(below))])


def _parts(command: Command) -> Iterable[str]:
    specs: dict[str, Flag | Argument] = {flag.name: flag for flag in command.flags}
    specs |= {argument.name: argument for argument in command.arguments}
    grouped = {name for group in command.one_of for name in group.names}
    yield from (argument.form for argument in command.arguments if argument.name not in grouped)
    for group in command.one_of:
        forms = [
            (name if isinstance(specs[name], Argument) else specs[name].form)
            + "..." * specs[name].many
            for name in group.names
        ]
        together = " | ".join(forms)
        yield f"({together})" if group.required else f"[{together}]"
    for flag in sorted(command.flags, key=lambda flag: not flag.required):
        if flag.name not in grouped:
            yield (flag.form if flag.required else f"[{flag.form}]") + "..." * flag.many
    if command.rest:
        yield "-- COMMAND..."


def _with_choices(spec: Flag | Argument) -> str:
    hidden = spec.choices if isinstance(spec, Argument) or spec.value else ()
    return f"{spec.help}: {', '.join(hidden)}".removeprefix(": ") if hidden else spec.help


def argument_rows(command: Command) -> list[tuple[str, str]]:
    """The arguments of a command, each with its meaning."""
    rows = [(argument.name, _with_choices(argument)) for argument in command.arguments]
    if command.rest:
        rows.append(("COMMAND...", "the command to run, with its own flags, after --"))
    return rows


def flag_rows(flags: Sequence[Flag]) -> list[tuple[str, str]]:
    """Flags as they are written, each with its meaning."""
    return [(flag.form, _with_choices(flag) + " (repeatable)" * flag.many) for flag in flags]


def _examples(heading: str, examples: Sequence[str], width: int, bold: Bold) -> list[str]:
    """Return the examples. The comment after ` # ` is next to its example, or below if too long."""
    if not examples:
        return []
    rows = [
        (line, mark[1:] + about) for line, mark, about in (e.partition(" # ") for e in examples)
    ]
    left = max(len(line) for line, _ in rows)
    if all(left + 4 + len(about) <= width for _, about in rows):
        return [bold(heading), *_rows(rows, width, plain, left)]
    pairs = [[f"  {line}", *_fill(about.split(), width, " " * 6)] for line, about in rows]
    return [bold(heading), *(line for pair in pairs for line in pair)]


def _rows(rows: Sequence[tuple[str, str]], width: int, bold: Bold, left: int = 0) -> list[str]:
    """Two aligned columns; a name too wide for its column has its text on the next line."""
    fitting = [len(name) for name, _ in rows if len(name) <= _WIDEST]
    left = left or max(fitting, default=_WIDEST)
    lines: list[str] = []
    for name, about in rows:
        right = _fill(about.split(), width, " " * (left + 4))
        if len(name) <= left and right:
            right[0] = f"  {bold(name)}{right[0][2 + len(name) :]}"
            lines += right
        else:
            lines += [f"  {bold(name)}", *right]
    return lines


def _fill(units: Sequence[str], width: int, first: str = "", later: str | None = None) -> list[str]:
    """Fill lines up to the width with units, and never break a unit."""
    later = first if later is None else later
    room = max(width, _NARROWEST)
    lines: list[str] = []
    line = first
    for unit in units:
        if line.strip() and len(line) + 1 + len(unit) > room:
            lines.append(line)
            line = later
        line += f" {unit}" if line.strip() else unit
    return [*lines, line] if line.strip() else lines
