"""The grammar of the command line: parsed words, refusals, and the help."""

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.doors.cli import help
from interlock.doors.cli.grammar import (
    BUILT_IN,
    HELP,
    VERSION,
    Argument,
    Command,
    Flag,
    OneOf,
    Parsed,
    parse,
    switched_on,
)
from interlock.doors.cli.grammar import COMMON as REAL_COMMON
from interlock.doors.cli.lookup import all_commands, commands_for
from interlock.errors import Usage
from interlock.verbs import durations
from world.sample_table import COMMANDS, COMMON


def read(*argv: str) -> Parsed:
    return parse(argv, COMMANDS, COMMON)


def refusal(*argv: str) -> Usage:
    with pytest.raises(Usage) as refused:
        read(*argv)
    return refused.value


# The order of words


@pytest.mark.parametrize(
    "argv",
    [
        ["--json", "claim", "list"],
        ["claim", "--json", "list"],
        ["claim", "list", "--json"],
    ],
)
def test_common_flags_are_accepted_between_the_words_of_a_command(
    argv: list[str],
) -> None:
    assert (read(*argv).command.name, read(*argv).values) == ("claim list", {"json": True})


@pytest.mark.parametrize(
    "argv",
    [
        ["--item", "B-1", "claim", "acquire", "--ttl", "2h"],
        ["claim", "--ttl=2h", "--item=B-1", "acquire"],
        ["claim", "acquire", "--item", "B-1", "--ttl", "7200"],
    ],
)
def test_flags_of_a_command_can_precede_it(argv: list[str]) -> None:
    assert read(*argv).values == {"item": "B-1", "ttl": 7200}


@pytest.mark.parametrize(
    "argv",
    [
        ["send", "@vera", "hello", "--subject", "s"],
        ["send", "--subject", "s", "@vera", "hello"],
        ["send", "@vera", "--subject=s", "hello"],
        ["send", "--subject", "s", "--", "@vera", "hello"],
        ["--subject", "s", "--", "send", "@vera", "hello"],
    ],
)
def test_flags_are_accepted_before_and_after_arguments(argv: list[str]) -> None:
    assert read(*argv).values == {"to": "@vera", "text": "hello", "subject": "s"}


def test_parsed_command_omits_values_that_were_not_given() -> None:
    assert read("inbox") == Parsed(read("inbox").command, {}, [])
    assert read("send", "@vera").values == {"to": "@vera"}


def test_repeatable_flags_and_arguments_are_lists_in_order() -> None:
    assert read("ask", "@v", "q", "--option", "b", "--option=a").values["option"] == ["b", "a"]
    assert read("ack", "id1", "--decline", "id2").values == {"id": ["id1", "id2"], "decline": True}
    assert read("guard", "check").values == {}


def test_words_after_two_dashes_are_arguments_even_when_they_look_like_flags() -> None:
    assert read("send", "@vera", "--", "--json").values == {"to": "@vera", "text": "--json"}
    assert read("send", "--", "@vera", "--").values == {"to": "@vera", "text": "--"}


def test_names_with_hyphens_become_keys_with_underscores() -> None:
    assert read("send", "@vera", "--reply-to", "x", "--no-wake").values == {
        "to": "@vera",
        "reply_to": "x",
        "no_wake": True,
    }


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--from send claim list", "claim list"),
        ("--workspace mail --from claim task list", "task list"),
        ("--item task claim check", "claim check"),
        ("claim --from inbox list", "claim list"),
    ],
)
def test_the_value_of_a_flag_may_be_the_first_word_of_another_command(line: str, name: str) -> None:
    words = line.split()
    assert parse(words, commands_for(words), REAL_COMMON).command.name == name


def test_a_command_may_share_its_words_with_a_group() -> None:
    table = (
        Command(("log",), "All", (Argument("N", optional=True),)),
        Command(("log", "tail"), "End"),
    )
    assert parse(["log"], table, ()).command.name == "log"
    assert parse(["log", "7"], table, ()).values == {"n": "7"}
    assert parse(["log", "tail"], table, ()).command.name == "log tail"


# Foreign commands


@pytest.mark.parametrize(
    ("argv", "values", "rest"),
    [
        ("run otto -- claude --json -h", {"sender": "otto"}, ["claude", "--json", "-h"]),
        ("run otto claude --help", {"sender": "otto"}, ["claude", "--help"]),
        ("run --json otto -- a -- b", {"sender": "otto", "json": True}, ["a", "--", "b"]),
        ("run otto a -- b", {"sender": "otto"}, ["a", "--", "b"]),
        ("evidence run --task T -- pytest -q", {"task": "T"}, ["pytest", "-q"]),
        ("evidence run pytest --task x", {}, ["pytest", "--task", "x"]),
        ("evidence run -- --version", {}, ["--version"]),
    ],
)
def test_words_of_a_foreign_command_are_not_parsed(
    argv: str, values: dict[str, object], rest: list[str]
) -> None:
    assert read(*argv.split()) == Parsed(read(*argv.split()).command, values, rest)


@pytest.mark.parametrize("argv", ["run otto", "run otto --", "evidence run", "run -- claude"])
def test_a_missing_foreign_command_or_sender_is_refused(argv: str) -> None:
    assert "needs" in refusal(*argv.split()).message


# Values of flags


@pytest.mark.parametrize("value", ["true", "-", "-5", "-x", "a=b", " ", "ü"])
def test_value_of_a_flag_is_not_changed(value: str) -> None:
    assert read("claim", "acquire", "--item", "I", "--worktree", value).values["worktree"] == value
    assert (
        read("claim", "acquire", "--item", "I", f"--worktree={value}").values["worktree"] == value
    )


@pytest.mark.parametrize(
    "tail",
    [["--worktree"], ["--worktree", "--json"], ["--worktree", "--"], ["--worktree", "--x y"]],
)
def test_a_flag_without_its_value_is_refused(tail: list[str]) -> None:
    refused = refusal("claim", "acquire", "--item", "I", *tail)
    assert refused.message.startswith("--worktree needs a value: --worktree P.")
    assert refused.exit == 2


def test_a_value_that_begins_with_dashes_is_written_with_an_equals_sign() -> None:
    assert read("claim", "acquire", "--item=--x").values == {"item": "--x"}


@pytest.mark.parametrize("tail", [["--worktree", ""], ["--worktree="]])
def test_an_empty_value_is_refused(tail: list[str]) -> None:
    assert "not empty" in refusal("claim", "acquire", "--item", "I", *tail).message


def test_a_switch_takes_no_value() -> None:
    assert "takes no value" in refusal("inbox", "--all=yes").message
    assert "takes no value" in refusal("inbox", "--all=").message


@pytest.mark.parametrize("argv", ["inbox --limit 1 --limit 2", "inbox --json --json"])
def test_a_flag_that_is_not_repeatable_is_refused_the_second_time(argv: str) -> None:
    assert "twice" in refusal(*argv.split()).message


def test_choices_are_checked_and_listed() -> None:
    refused = refusal("join", "otto", "--kind", "humen")
    assert refused.members["choices"] == ["agent", "human"]
    assert refused.members["did_you_mean"] == ["human"]
    assert refusal("completion", "tcsh").members["choices"] == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("text", ["1", "65535", "0080"])
def test_whole_numbers_are_read(text: str) -> None:
    assert read("up", "--port", text).values == {"port": int(text)}


@pytest.mark.parametrize(
    "text", ["0", "-5", "65536", "1.5", "x", "-", "+1", "1_0", "٣", "9" * 5000]
)
def test_numbers_out_of_range_or_form_are_refused(text: str) -> None:
    assert refusal("up", "--port", text).message.startswith("--port cannot be ")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("45", 45), ("365d", 31536000)],
)
def test_durations_are_seconds(text: str, seconds: int) -> None:
    assert durations.seconds(text) == seconds
    assert read("inbox", "--wait", text).values == {"wait": seconds}


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "0s",
        "00d",
        "-1",
        "-5m",
        "1.5h",
        "2w",
        "2H",
        "1h30m",
        "s",
        "366d",
        "31536001",
        "٣m",
        "+5",
    ],
)
def test_other_durations_are_refused_with_what_is_allowed(text: str) -> None:
    refused = refusal("inbox", "--wait", text)
    assert "90s, 15m, 2h, 7d" in refused.message
    assert refused.members["usage"].startswith("interlock inbox ")


@pytest.mark.parametrize("text", ["", " 5", "5 m", "5m\n", "1e3", "9" * 5000 + "d"])
def test_malformed_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="A duration is "):
        durations.seconds(text)


# Arguments


def test_an_empty_argument_and_a_dash_are_arguments() -> None:
    assert read("send", "", "hello").values == {"to": "", "text": "hello"}
    assert read("send", "@vera", "-").values == {"to": "@vera", "text": "-"}


@pytest.mark.parametrize("text", ["-5", "- first\n- second", "-> there"])
def test_text_with_a_dash_that_is_no_flag_is_an_argument(text: str) -> None:
    assert read("send", "@vera", text).values["text"] == text


def test_number_arguments_are_converted() -> None:
    assert read("audit", "prove", "12").values == {"seq": 12}
    assert "whole number" in refusal("audit", "prove", "").message


def test_missing_arguments_are_named() -> None:
    assert refusal("ask").message == "ask needs TO and QUESTION."
    assert refusal("ask", "@v").message == "ask needs QUESTION."
    assert refusal("ack").message == "ack needs ID."


def test_surplus_argument_is_named() -> None:
    refused = refusal("send", "@vera", "hello", "world")
    assert refused.message.startswith("'world' is one argument too many: send takes TO and TEXT")
    assert "Quote" in refused.message
    assert refusal("claim", "list", "x").message.endswith("claim list takes none.")


def test_missing_required_flags_and_alternatives_are_named() -> None:
    assert refusal("task", "create").message == "task create needs --title T."
    assert refusal("claim", "check").message == "claim check needs --item I or --path GLOB."
    assert "exclude each other" in refusal("send", "@v", "--wake", "--no-wake").message


# Unknown words


@pytest.mark.parametrize(
    ("argv", "near"),
    [
        ("clam list", ["claim"]),
        ("claim aquire", ["claim acquire"]),
        ("acquire", ["claim acquire"]),
        ("inbox --limt 3", ["--limit"]),
        ("inbox --lim 3", ["--limit"]),
        ("claim --itme x acquire", ["--item"]),
        ("claim list -json", ["--json"]),
        ("help claim lst", ["claim list"]),
    ],
)
def test_unknown_words_are_refused_with_near_matches(argv: str, near: list[str]) -> None:
    assert refusal(*argv.split()).members["did_you_mean"] == near


def test_word_without_near_matches_gets_no_suggestion() -> None:
    assert "did_you_mean" not in refusal("qqqq").members
    assert "did_you_mean" not in refusal("inbox", "--" + "q" * 100_000).members


def test_a_flag_of_another_command_is_refused() -> None:
    assert "claim list has no flag --item" in refusal("claim", "--item", "x", "list").message
    assert "claim list has no flag --item" in refusal("claim", "list", "--item", "x").message


def test_unknown_short_flag_is_refused_with_the_hint_at_dashes() -> None:
    assert "write it after --" in refusal("send", "@vera", "-x").message


def test_flag_with_two_meanings_must_follow_its_command() -> None:
    table = (
        Command(("a",), "A", flags=(Flag("--x"),)),
        Command(("b",), "B", flags=(Flag("--x", "V"),)),
    )
    with pytest.raises(Usage, match="after the words of the command"):
        parse(["--x", "a"], table, ())
    assert parse(["b", "--x", "a"], table, ()).values == {"x": "a"}


def test_group_without_a_command_lists_its_commands() -> None:
    refused = refusal("guard")
    assert refused.members["commands"] == ["guard install", "guard check"]
    assert refused.members["usage"] == "interlock guard install|check"


def test_flags_without_a_command_are_refused() -> None:
    assert refusal("--json").members["usage"] == "interlock COMMAND [ARGUMENT...] [FLAG...]"
    assert refusal("--").message.startswith("No command")


@pytest.mark.parametrize(
    ("word", "escaped"),
    [
        ("caf\udce9", "caf\\xe9"),
        ("a\0b", "a\\x00b"),
        ("\ud800", "\\ud800"),
        ("--x\udcff", "--x\\xff"),
    ],
)
@pytest.mark.parametrize("before", [["send", "@v"], ["inbox", "--after"], ["run", "o", "--"], []])
def test_words_that_are_not_utf8_are_refused_and_shown_escaped(
    before: list[str], word: str, escaped: str
) -> None:
    refused = refusal(*before, word)
    assert escaped in refused.message or "needs a value" in refused.message
    refused.message.encode()


def test_refusal_shortens_a_long_word_to_one_line() -> None:
    message = refusal("inbox", "x\n\x1b[31m" * 10_000).message
    assert message.isprintable()
    assert len(message) < 700


def test_every_refusal_is_the_error_object_with_the_usage() -> None:
    assert refusal("ack").as_dict() == {
        "error": "Bad usage",
        "code": "USAGE",
        "message": "ack needs ID.",
        "usage": "interlock ack ID... [--decline] [--note N]",
    }


# Help and version


@pytest.mark.parametrize(
    ("argv", "topic"),
    [
        ("", []),
        ("-h", []),
        ("--help", []),
        ("help", []),
        ("help claim", ["claim"]),
        ("help claim acquire", ["claim", "acquire"]),
        ("claim -h", ["claim"]),
        ("--help claim acquire", ["claim", "acquire"]),
        ("claim acquire --item --help", ["claim", "acquire"]),
        ("claim --bogus acquire -h", ["claim", "acquire"]),
        ("inbox --limit x extra -h", ["inbox"]),
        ("run otto --help", ["run"]),
    ],
)
def test_help_flag_works_anywhere_and_takes_precedence_over_errors(
    argv: str, topic: list[str]
) -> None:
    parsed = read(*argv.split())
    assert parsed.command is HELP
    assert parsed.rest == topic


def test_help_flag_after_two_dashes_is_an_argument() -> None:
    assert read("send", "@vera", "--", "--help").values["text"] == "--help"


@pytest.mark.parametrize(
    "argv", ["--version", "version", "claim --version", "inbox --bad --version"]
)
def test_version_is_a_flag_or_a_command(argv: str) -> None:
    assert read(*argv.split()).command is VERSION


def test_help_keeps_the_common_switches() -> None:
    assert read("claim", "--json", "-h").values == {"json": True}
    assert read("claim", "--bad", "-h", "--json").values == {"json": True}
    assert read("help", "--json").values == {"json": True}


def test_help_of_an_unknown_command_is_refused() -> None:
    assert "no command 'bogus'" in refusal("help", "bogus", "claim").message
    assert "no command 'inbox x'" in refusal("help", "inbox", "x").message


def test_a_switch_is_found_among_words_that_do_not_parse() -> None:
    assert switched_on(["--bad", "--json"], "--json")
    assert not switched_on(["run", "x", "--", "--json"], "--json")


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_help_fits_the_width_and_names_every_command(width: int) -> None:
    for topic in ([], ["claim"], *([*command.words] for command in (*COMMANDS, HELP, VERSION))):
        text = help.text(topic, COMMANDS, COMMON, width=width)
        assert text.endswith("\n")
        assert not any(line != line.rstrip() for line in text.split("\n"))
        assert "\n\n\n" not in text
        if width >= 80:
            assert max(map(len, text.split("\n"))) <= width
    overview = help.text([], COMMANDS, COMMON)
    assert all(word in overview for command in COMMANDS for word in command.words)


def test_help_page_of_a_sample_command() -> None:
    join = next(command for command in COMMANDS if command.name == "join")
    assert (
        help.text(["join"], [join], COMMON, bold=str.upper)
        == """\
Register an agent or a person, and store its token.

USAGE
  interlock join NAME [--surface S] [--kind agent|human] [--label TEXT]
                 [--scope SCOPE]...

EXAMPLES
  interlock join otto                # add an agent
  interlock join otto --surface cli  # add the sender otto-cli
  interlock join vera --kind human   # add a person

ARGUMENTS
  NAME  the new name: lower-case letters, digits and hyphens

FLAGS
  --SURFACE S         the surface: cli, desktop, …
  --KIND AGENT|HUMAN  the kind of the name
  --LABEL TEXT        a label for display; it grants nothing
  --SCOPE SCOPE       a scope of its token (repeatable)

Every command also takes --json, --workspace PATH|URL, --from SENDER,
--session S, --help.
"""
    )


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("claim check", "interlock claim check (--item I | --path GLOB...)"),
        ("evidence run", "interlock evidence run [--task T] [--criterion N] -- COMMAND..."),
        ("redact", "interlock redact ID --reason R"),
        ("answer", "interlock answer ID TEXT|-"),
        ("guard check", "interlock guard check [PATH...]"),
    ],
)
def test_usage_is_one_line(name: str, usage: str) -> None:
    assert help.usage(next(command for command in COMMANDS if command.name == name)) == usage


# The table of commands, and the cost of parsing


def faults(commands: Sequence[Command], common: Sequence[Flag]) -> list[str]:
    """Return the contradictions in a table of commands, as sentences."""
    found: list[str] = []
    every = (*commands, HELP, VERSION)
    names = [command.name for command in every]
    found += [f"{name}: declared twice" for name in {n for n in names if names.count(n) > 1}]
    takes_value: dict[str, bool] = {flag.name: bool(flag.placeholder) for flag in BUILT_IN}
    for command in every:
        found += [f"{command.name}: {fault}" for fault in _faults_of(command, common)]
        for flag in (*common, *command.flags):
            # Before the command's words, only the name of a flag decides whether it has a value.
            if takes_value.setdefault(flag.name, bool(flag.placeholder)) != bool(flag.placeholder):
                found.append(f"{command.name}: {flag.name} takes a value here but not elsewhere")
    return found


def _faults_of(command: Command, common: Sequence[Flag]) -> Iterator[str]:
    flags = (*BUILT_IN, *common, *command.flags)
    alternatives = {name for one in command.one_of for name in one.names}
    keys = [flag.key for flag in flags]
    keys += [a.key for a in command.arguments if a.name not in alternatives]
    yield from (f"two values are called {key}" for key in set(keys) if keys.count(key) > 1)
    for flag in flags:
        if not flag.name.startswith("--") or not flag.name[2:].replace("-", "").isalnum():
            yield f"{flag.name} is not a flag's name"
    for before, after in zip(command.arguments, command.arguments[1:], strict=False):
        if before.many:
            yield f"{before.name} takes many and is not last"
        if before.optional and not after.optional:
            yield f"{before.name} is optional and {after.name} after it is not"
    if command.rest and any(a.many or a.optional for a in command.arguments):
        yield "the start of the foreign command is ambiguous"
    own = {flag.name for flag in command.flags} | {arg.name for arg in command.arguments}
    for one_of in command.one_of:
        yield from (f"{name} is not its flag" for name in one_of.names if name not in own)


def test_command_tables_have_no_contradictions() -> None:
    assert faults(COMMANDS, COMMON) == []
    assert faults(all_commands(), REAL_COMMON) == []


def test_contradictions_of_a_table_are_named() -> None:
    many = Argument("A", many=True)
    table = (
        Command(("a",), "", (many, Argument("B"))),
        Command(("a",), "", (Argument("JSON"), Argument("O", optional=True)), rest=True),
        Command(("b",), "", flags=(Flag("--x"), Flag("y")), one_of=(OneOf(("--x", "--z")),)),
        Command(("c",), "", (Argument("P", optional=True), Argument("Q")), (Flag("--x", "V"),)),
    )
    assert sorted(faults(table, COMMON)) == [
        "a: A takes many and is not last",
        "a: declared twice",
        "a: the start of the foreign command is ambiguous",
        "a: two values are called json",
        "b: --z is not its flag",
        "b: y is not a flag's name",
        "c: --x takes a value here but not elsewhere",
        "c: P is optional and Q after it is not",
    ]


def test_parsing_imports_nothing_heavy() -> None:
    code = (
        "import sys, typing, collections.abc; before = set(sys.modules)\n"
        "from interlock.doors.cli.grammar import parse\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"re", "argparse", "enum", "dataclasses", "difflib", "textwrap"}
    assert heavy.isdisjoint(done.stdout.split())


WORDS = sorted(
    {word for command in COMMANDS for word in command.words}
    | {flag.name for command in COMMANDS for flag in (*command.flags, *COMMON)}
    | {
        "--",
        "-",
        "",
        "-h",
        "--help",
        "--version",
        "help",
        "@vera",
        "--json=",
        "2h",
        "7",
        "-5",
        "low",
    }
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=6)


@settings(max_examples=400)
@given(
    st.lists(st.one_of(st.sampled_from(WORDS), ANY_TEXT, ANY_TEXT.map("--".__add__)), max_size=9)
)
def test_random_words_raise_only_usage(argv: list[str]) -> None:
    try:
        parsed = parse(argv, COMMANDS, COMMON)
    except Usage as error:
        refused = error
    else:
        help.text(parsed.rest if parsed.command is HELP else parsed.command.words, COMMANDS, COMMON)
        return
    assert refused.members["usage"].startswith("interlock")
    assert refused.message.isprintable()
    refused.message.encode()
