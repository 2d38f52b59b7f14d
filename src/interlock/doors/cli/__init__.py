"""The command `interlock`: parse, call one verb of the node, print the answer.

Imports are lazy: agents call this hundreds of times a day, so a command loads what it needs.
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from interlock.errors import BadInput, Internal, Refusal, by_code

if TYPE_CHECKING:
    from interlock.doors.cli.grammar import Argument, Flag, Parsed

INTERRUPTED = 130
UNWRITTEN = 4


def command() -> NoReturn:
    """Run the process `interlock`. It turns garbage collection off and skips the interpreter's
    shutdown, which saves a fifth of the time of a command."""
    gc.disable()
    # Fill the numbers of closed standard streams, so that no file or pipe of ours gets them.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    os._exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"]:
        from interlock.doors.cli.hooking import without_fail

        return without_fail(words)
    from interlock.doors.cli.output import Unwritten, refusal, remark

    try:
        try:
            return run(words)
        except Unwritten:
            raise
        except Exception as trouble:  # noqa: BLE001 - the caller must get the error object
            from interlock.doors.cli.grammar import switched_on

            refused = trouble if isinstance(trouble, Refusal) else reported(trouble)
            refusal(refused, json=switched_on(words, "--json"))
            return refused.exit
    except KeyboardInterrupt:
        return INTERRUPTED
    except Unwritten as trouble:
        with suppress(Unwritten):
            remark(
                f"Interlock cannot write its answer ({trouble}). The command may have taken effect."
            )
        return UNWRITTEN


def run(words: list[str]) -> int:
    from interlock.doors.cli.grammar import HELP, VERSION, Parsed

    if words in (["--version"], ["version"]):
        return _version(json=False)
    if words in ([], ["help"], ["--help"], ["-h"]):
        return _help(Parsed(HELP, {}, []))
    from interlock.doors.cli.lookup import commands_for

    if words[0] == "__complete":
        from interlock.doors.cli import output
        from interlock.doors.cli.completion import complete

        output.lines(complete(words[1:], commands_for(words[1:-1] or [""])))
        return 0
    from interlock.doors.cli.grammar import COMMON, parse

    parsed = parse(words, commands_for(words), COMMON)
    if parsed.command is HELP:
        return _help(parsed)
    if parsed.command is VERSION:
        return _version(json=parsed.values.get("json", False))
    from interlock.doors.cli.context import Context

    context = Context(parsed)
    gc.enable()
    try:
        action = parsed.command.action
        answer: Any = context.call_verb() if action is None else action(context)
        if isinstance(answer, int):
            return answer
        _print(parsed.command.name, answer, json=context.json)
    except BadInput as refusal:
        raise _in_words_of(parsed, refusal) from None
    finally:
        context.close()
    return _status(answer)


def _in_words_of(parsed: "Parsed", refusal: BadInput) -> Refusal:
    """Name the argument or the flag, where the refusal of a value begins with the name of a field
    or of a member of the payload. The members of the error object keep the names of the fields."""
    from interlock.doors.cli.derived import field_of
    from interlock.rooms.mail.message_types import MAIN_MEMBER
    from interlock.verbs.wording import renamed

    verb = parsed.command.verb
    specs: list[Argument | Flag] = [*parsed.command.arguments, *parsed.command.flags]
    names = {"session": "--session or INTERLOCK_SESSION"}
    for spec in specs:
        field = field_of(verb, spec.name) if verb is not None else None
        filled = {f"payload.{spec.key}", f"payload.{spec.key}_id"}
        for name in filled | ({field.name} if field is not None else set()):
            # Of two that fill one field, name the given one.
            if name not in names or spec.key in parsed.values:
                names[name] = spec.name.split("|")[0]
    if "payload.text" in names:
        names |= {f"payload.{main}": names["payload.text"] for main in MAIN_MEMBER.values()}
    member = refusal.members.get("member", "")
    if member.startswith("payload.") and any(spec.name == "--payload" for spec in specs):
        names.setdefault(member, f"{member.removeprefix('payload.')} in --payload")
    shown = renamed(refusal, names)
    shown.members = refusal.members
    return shown


def _print(command: str, answer: dict[str, Any], *, json: bool) -> None:
    from interlock.doors.cli import output

    if json:
        output.document(answer)
        return
    from interlock.doors.cli.views import text

    output.lines(text(command, output.clean(answer)))
    if "age_s" in answer:
        output.remark(
            f"As of {answer['age_s']} s ago. Since then, the engine has not confirmed that this "
            "answer is complete. To see why: interlock status"
        )
    elif "trouble" in answer and command != "status":
        output.remark(
            f"The engine has not confirmed that this answer is complete. {answer['trouble']}"
        )


def _status(answer: dict[str, Any]) -> int:
    """Return the exit status of an answer: that of its code, or 1 for a "no". A "no" is a claim of
    another holder, a check that found a problem, or a token that is unknown or not valid."""
    if "code" in answer:
        return by_code(answer["code"]).exit
    is_no = (answer.get(name) is False for name in ("ok", "known", "active"))
    return int(answer.get("claimed", False) or any(is_no))


def reported(defect: Exception) -> Internal:
    """Return the defect as an error object. Its traceback is in a file that the user can send to
    us."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="interlock-defect-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(defect, file=file)
    return Internal(
        f"A defect in Interlock: {type(defect).__name__}. Check whether your command took effect. "
        f"The details of the defect are in {file.name}.",
        report=file.name,
    )


def _help(parsed: "Parsed") -> int:
    from interlock.doors.cli import help, output
    from interlock.doors.cli.grammar import COMMON
    from interlock.doors.cli.lookup import commands_for, named_commands

    topic = parsed.rest
    commands = commands_for(topic) if topic else named_commands()
    if parsed.values.get("json"):
        output.document({"help": help.text(topic, commands, COMMON)})
    else:
        output.lines(help.text(topic, commands, COMMON, width=output.width(), bold=output.bold))
    return 0


def _version(*, json: bool) -> int:
    from interlock import __version__
    from interlock.doors.cli import output

    if json:
        output.document({"version": __version__})
    else:
        output.lines(f"interlock {__version__}")
    return 0
