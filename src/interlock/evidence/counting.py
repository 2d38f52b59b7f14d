"""How many tests passed, as the runner itself says at the end of its output. For display only: a
run is judged by its exit code. Where two runners have spoken, or what can be seen may not be all,
there is no number; a wrong one would be worse."""

import os
import re
from collections.abc import Callable, Iterable
from typing import Final

Counts = dict[str, int]

# Of more output than this only the end is looked at.
SEEN: Final = 1 << 20

NAMES: Final = ("passed", "failed", "skipped", "errors")

# What runners call their numbers; what is not here, such as warnings, is no test.
_WORDS: Final = {
    "passed": "passed",
    "succeeded": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "failure": "failed",
    "failures": "failed",
    "error": "errors",
    "errors": "errors",
    "skipped": "skipped",
    "pending": "skipped",
    "ignored": "skipped",
    "todo": "skipped",
    "xfailed": "skipped",
    "incomplete": "skipped",
}
_NUMBERED = re.compile(r"([0-9]{1,9}) ([a-z]+)|(?<!expected )\b([A-Za-z]+)[:=] *([0-9]{1,9})")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\r")


class _Summary:
    """A runner that ends with a summary, in which `sign` is found. The groups of its pattern are
    the numbers, or `list` holds them in words; from `total` those that passed are reckoned. Where
    a runner writes one summary per part of a project, they count only when all can be seen."""

    def __init__(self, sign: str, pattern: str, *, per_part: bool = False) -> None:
        self._sign = sign
        pattern = pattern.replace("<N>", "[0-9]{1,9}")
        self._pattern = re.compile(pattern, re.MULTILINE | re.ASCII)
        self._per_part = per_part

    def __call__(self, text: str, *, whole: bool) -> Counts | None:
        if self._sign not in text:  # most have not run, and searching for a pattern is slow
            return None
        found = list(self._pattern.finditer(text))
        if not whole and (self._per_part or len(found) > 1):
            return None
        return _sum(_read(summary.groupdict()) for summary in found)


def _read(groups: dict[str, str | None]) -> Counts:
    counts: Counts = {}
    for number, word, other_word, other_number in _NUMBERED.findall(groups.get("list") or ""):
        name = _WORDS.get((word or other_word).lower())
        if name:
            counts[name] = counts.get(name, 0) + int(number or other_number)
    for name in NAMES:
        if number := groups.get(name):
            counts[name] = int(number)
    if total := groups.get("total"):
        counts["passed"] = int(total) - sum(counts.values())
    return counts


def _sum(parts: Iterable[Counts]) -> Counts:
    counts: Counts = {}
    for part in parts:
        for name, number in part.items():
            counts[name] = counts.get(name, 0) + number
    return counts


def _go(text: str, *, whole: bool) -> Counts | None:
    """Without -v, go names only the tests that failed."""
    if not whole or not re.search(r"^(?:ok|FAIL|PASS)\b", text, re.MULTILINE):
        return None
    ends = re.findall(r"^--- (PASS|FAIL|SKIP): ", text, re.MULTILINE)
    counts = {"failed": ends.count("FAIL")}
    if "=== RUN " in text:
        counts |= {"passed": ends.count("PASS"), "skipped": ends.count("SKIP")}
    return counts if ends else None


def _unittest(text: str, *, whole: bool) -> Counts | None:
    """A test that failed in several ways is counted more than once, and one that could not begin is
    no test: how many passed is told only where each that failed is named once, by itself."""
    counts = _UNITTEST(text, whole=whole)
    if not counts or "passed" not in counts:
        return counts
    named = re.findall(r"^(?:FAIL|ERROR): (.+)$", text, re.MULTILINE)
    alone = [name for name in named if re.fullmatch(r"\w+ \([\w.]+\)", name)]
    failed = counts.get("failed", 0) + counts.get("errors", 0)
    is_plain = not any(name.startswith(("setUp", "tearDown")) for name in alone)
    if not (is_plain and len(named) == len({*alone}) == failed) or "unexpected succ" in text:
        del counts["passed"]
    return counts


def _tap(text: str, *, whole: bool) -> Counts | None:
    plans = re.findall(r"^1\.\.([0-9]{1,9})$", text, re.MULTILINE)
    lines = re.findall(r"^(not )?ok\b(.*)$", text, re.MULTILINE)
    if not whole or len(plans) != 1 or int(plans[0]) != len(lines) or _NODE(text, whole=whole):
        return None
    counts = dict.fromkeys(NAMES[:3], 0)
    for failed, rest in lines:
        directive = rest.rpartition("#")[2].strip().lower()
        if directive.startswith(("skip", "todo")):
            counts["skipped"] += 1
        else:
            counts["failed" if failed else "passed"] += 1
    return counts


_UNITTEST = _Summary(
    "\n\nFAILED (",
    r"^Ran (?P<total><N>) tests? in [0-9.]+s\n\nFAILED \((?P<list>[a-z0-9=, ]+)\)$",
)
_NODE = _Summary(
    " pass ",
    r"^[\u2139#] tests <N>\n(?:[\u2139#] suites <N>\n)?[\u2139#] pass (?P<passed><N>)\n"
    r"[\u2139#] fail (?P<failed><N>)\n(?:[\u2139#] cancelled <N>\n)?"
    r"(?:[\u2139#] skip(?:ped)? (?P<skipped><N>)$)?",
)
_RUNNERS: Final[dict[str, Callable[..., Counts | None]]] = {
    "pytest": _Summary(
        " in ",
        r"^(?:=+ )?(?P<list><N> [a-z ]{4,20}(?:, <N> [a-z ]{4,20}){0,9}) in <N>\.[0-9]{2}s"
        r"(?: \([0-9:]+\))?(?: =+)?$",
    ),
    "unittest": _Summary(
        "\n\nOK", r"^Ran (?P<total><N>) tests? in [0-9.]+s\n\nOK(?: \((?P<list>[a-z0-9=, ]+)\))?$"
    ),
    "unittest, failing": _unittest,
    "jest": _Summary(" total", r"^Tests: +(?P<list>(?:<N> [a-z]+, ){1,4})<N> total$"),
    "vitest": _Summary(
        " Tests  ", r"^ *Tests  (?P<list><N> [a-z]+(?: \| <N> [a-z]+){0,4}) \(<N>\)$"
    ),
    "mocha": _Summary(
        " passing (",
        r"^ +(?P<passed><N>) passing \([0-9a-z]{1,9}\)$(?:\n +(?P<skipped><N>) pending$)?"
        r"(?:\n +(?P<failed><N>) failing$)?",
    ),
    "go": _go,
    "cargo": _Summary(
        "test result: ",
        r"^test result: (?:ok|FAILED)\. (?P<list><N> passed; <N> failed; <N> ignored);",
        per_part=True,
    ),
    "cargo nextest": _Summary(
        " Summary [",
        r"^ +Summary \[[^\]\n]{1,20}\] +<N>(?:/<N>)? tests? run: (?P<list><N> passed[^\n]{0,80})$",
    ),
    "rspec": _Summary(
        " example",
        r"^(?P<total><N>) examples?, (?P<list><N> failures?(?:, <N> pending)?)"
        r"(?:, (?P<errors><N>) errors? occurred outside of examples)?$",
    ),
    "maven": _Summary(
        "Tests run: ",
        r"^(?:\[[A-Z]+\] )?Tests run: (?P<total><N>), "
        r"(?P<list>Failures: <N>, Errors: <N>, Skipped: <N>)$",
        per_part=True,
    ),
    "gradle": _Summary(
        " completed",
        r"^(?P<total><N>) tests? completed(?P<list>(?:, <N> failed)?(?:, <N> skipped)?)$",
        per_part=True,
    ),
    "junit 4": _Summary("OK (", r"^OK \((?P<passed><N>) tests?\)$"),
    "junit 4, failing": _Summary(
        "Tests run: ", r"^Tests run: (?P<total><N>),  (?P<list>Failures: <N>)$"
    ),
    "junit 5": _Summary(
        " tests successful",
        r"^\[ +(?P<skipped><N>) tests skipped +\]\n\[ +<N> tests started +\]\n"
        r"\[ +<N> tests aborted +\]\n\[ +(?P<passed><N>) tests successful +\]\n"
        r"\[ +(?P<failed><N>) tests failed +\]$",
    ),
    "dotnet": _Summary(
        "! ",
        r"^(?:Passed|Failed|Skipped)! +- (?P<list>Failed: +<N>, Passed: +<N>, Skipped: +<N>),",
        per_part=True,
    ),
    "dotnet, by the console": _Summary(
        "Total tests: ",
        r"^Total tests: <N>\n(?P<list>(?: +(?:Passed|Failed|Skipped): <N>\n?){1,3})",
        per_part=True,
    ),
    "dotnet, by the terminal": _Summary(
        "Test summary: ",
        r"^Test summary: total: <N>, (?P<list>failed: <N>, succeeded: <N>, skipped: <N>),",
    ),
    "node": _NODE,
    "tap": _tap,
    "ctest": _Summary(
        "% tests passed",
        r"^<N>% tests passed, (?P<failed><N>) tests? failed out of (?P<total><N>)$",
    ),
    "phpunit": _Summary(
        "ssertion",
        r"^(?:OK \((?P<passed><N>) tests?, <N> assertions?\)|Tests: (?P<total><N>), "
        r"Assertions: <N>(?P<list>(?:, [A-Z][A-Za-z ]{1,30}: <N>){0,9})\.)$",
    ),
}


def counts(path: str, *, whole: bool) -> Counts | None:
    """The numbers in the output that this file holds, if one runner has told them. `whole` says
    that nothing of the output is missing. Of those that are none, only `passed` is named."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - SEEN))
        text = _ESCAPES.sub("", file.read().decode("utf-8", "replace"))
    told = [runner(text, whole=whole and size <= SEEN) for runner in _RUNNERS.values()]
    found = [numbers for numbers in told if numbers]
    if len(found) != 1 or min(found[0].values()) < 0:
        return None
    return {name: number for name, number in found[0].items() if number or name == "passed"}
