"""Read the test counts from the summary of a test runner at the end of its output. The counts are
only for display: the exit code decides whether a run passed. If two runners wrote a summary, or if
part of the output may be missing, there are no counts, because wrong counts would be worse."""

import os
import re
from typing import Final

Counts = dict[str, int]

# The number of bytes at the end of the output that are read.
SEEN: Final = 1 << 20

NAMES: Final = ("passed", "failed", "skipped", "errors")

# The words of runners for each count. Other words, such as warnings, do not count tests.
_WORDS: Final = {
    word: name
    for name, words in {
        "passed": "passed succeeded xpassed",
        "failed": "failed failure failures",
        "errors": "error errors",
        "skipped": "skipped pending ignored todo xfailed incomplete",
    }.items()
    for word in words.split()
}
_NUMBERED = re.compile(r"([0-9]{1,9}) ([a-z]+)|(?<!expected )\b([A-Za-z]+)[:=] *([0-9]{1,9})")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\r")


# The summary of each runner: a plain text and a pattern. The plain text is a fast test whether the
# runner ran at all. In the pattern, <N> is a number. The groups of the pattern are counts, or
# `list` has counts with words. With a group `total`, the rest of the total passed.
_SUMMARIES: Final = {
    "pytest": (
        " in ",
        r"^(?:=+ )?(?P<list><N> [a-z ]{4,20}(?:, <N> [a-z ]{4,20}){0,9}) in <N>\.[0-9]{2}s"
        r"(?: \([0-9:]+\))?(?: =+)?$",
    ),
    "unittest": (
        "\n\nOK",
        r"^Ran (?P<total><N>) tests? in [0-9.]+s\n\nOK(?: \((?P<list>[a-z0-9=, ]+)\))?$",
    ),
    "unittest, failing": (
        "\n\nFAILED (",
        r"^Ran (?P<total><N>) tests? in [0-9.]+s\n\nFAILED \((?P<list>[a-z0-9=, ]+)\)$",
    ),
    "jest": (" total", r"^Tests: +(?P<list>(?:<N> [a-z]+, ){1,4})<N> total$"),
    "vitest": (" Tests  ", r"^ *Tests  (?P<list><N> [a-z]+(?: \| <N> [a-z]+){0,4}) \(<N>\)$"),
    "mocha": (
        " passing (",
        r"^ +(?P<passed><N>) passing \([0-9a-z]{1,9}\)$(?:\n +(?P<skipped><N>) pending$)?"
        r"(?:\n +(?P<failed><N>) failing$)?",
    ),
    "cargo": (
        "test result: ",
        r"^test result: (?:ok|FAILED)\. (?P<list><N> passed; <N> failed; <N> ignored);",
    ),
    "cargo nextest": (
        " Summary [",
        r"^ +Summary \[[^\]\n]{1,20}\] +<N>(?:/<N>)? tests? run: (?P<list><N> passed[^\n]{0,80})$",
    ),
    "rspec": (
        " example",
        r"^(?P<total><N>) examples?, (?P<list><N> failures?(?:, <N> pending)?)"
        r"(?:, (?P<errors><N>) errors? occurred outside of examples)?$",
    ),
    "maven": (
        "Tests run: ",
        r"^(?:\[[A-Z]+\] )?Tests run: (?P<total><N>), "
        r"(?P<list>Failures: <N>, Errors: <N>, Skipped: <N>)$",
    ),
    "gradle": (
        " completed",
        r"^(?P<total><N>) tests? completed(?P<list>(?:, <N> failed)?(?:, <N> skipped)?)$",
    ),
    "junit 4": ("OK (", r"^OK \((?P<passed><N>) tests?\)$"),
    "junit 4, failing": ("Tests run: ", r"^Tests run: (?P<total><N>),  (?P<list>Failures: <N>)$"),
    "junit 5": (
        " tests successful",
        r"^\[ +(?P<skipped><N>) tests skipped +\]\n\[ +<N> tests started +\]\n"
        r"\[ +<N> tests aborted +\]\n\[ +(?P<passed><N>) tests successful +\]\n"
        r"\[ +(?P<failed><N>) tests failed +\]$",
    ),
    "dotnet": (
        "! ",
        r"^(?:Passed|Failed|Skipped)! +- (?P<list>Failed: +<N>, Passed: +<N>, Skipped: +<N>),",
    ),
    "dotnet, by the console": (
        "Total tests: ",
        r"^Total tests: <N>\n(?P<list>(?: +(?:Passed|Failed|Skipped): <N>\n?){1,3})",
    ),
    "dotnet, by the terminal": (
        "Test summary: ",
        r"^Test summary: total: <N>, (?P<list>failed: <N>, succeeded: <N>, skipped: <N>),",
    ),
    "node": (
        " pass ",
        r"^[\u2139#] tests <N>\n(?:[\u2139#] suites <N>\n)?[\u2139#] pass (?P<passed><N>)\n"
        r"[\u2139#] fail (?P<failed><N>)\n(?:[\u2139#] cancelled <N>\n)?"
        r"(?:[\u2139#] skip(?:ped)? (?P<skipped><N>)$)?",
    ),
    "ctest": (
        "% tests passed",
        r"^<N>% tests passed, (?P<failed><N>) tests? failed out of (?P<total><N>)$",
    ),
    "phpunit": (
        "ssertion",
        r"^(?:OK \((?P<passed><N>) tests?, <N> assertions?\)|Tests: (?P<total><N>), "
        r"Assertions: <N>(?P<list>(?:, [A-Z][A-Za-z ]{1,30}: <N>){0,9})\.)$",
    ),
}


# These runners write one summary for each part of a project, so their counts need the whole output.
_PER_PART: Final = ("cargo", "maven", "gradle", "dotnet", "dotnet, by the console")


def counts(path: str, *, whole: bool) -> Counts | None:
    """Return the counts in this file of output, if exactly one runner wrote them. `whole` is true
    if the file has the whole output. Omit zeros, except for `passed`."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - SEEN))
        text = _ESCAPES.sub("", file.read().decode("utf-8", "replace"))
    whole = whole and size <= SEEN
    by_runner = {runner: _summed(runner, text, whole=whole) for runner in _SUMMARIES}
    _drop_uncertain(by_runner["unittest, failing"], text)
    if whole:
        by_runner["go"] = _go(text)
        # Node writes TAP and its own summary, which has more counts.
        by_runner["tap"] = _tap(text) if not by_runner["node"] else {}
    found = [numbers for numbers in by_runner.values() if numbers]
    if len(found) != 1 or min(found[0].values()) < 0:
        return None
    return {name: number for name, number in found[0].items() if number or name == "passed"}


def _summed(runner: str, text: str, *, whole: bool) -> Counts:
    sign, pattern = _SUMMARIES[runner]
    if sign not in text:
        return {}
    numbered = pattern.replace("<N>", "[0-9]{1,9}")
    found = list(re.finditer(numbered, text, re.MULTILINE | re.ASCII))
    if not whole and (runner in _PER_PART or len(found) > 1):
        return {}
    sums: Counts = {}
    for match in found:
        groups = match.groupdict()
        counted: Counts = {}
        for number, word, other_word, other_number in _NUMBERED.findall(groups.get("list") or ""):
            name = _WORDS.get((word or other_word).lower())
            if name:
                counted[name] = counted.get(name, 0) + int(number or other_number)
        counted |= {name: int(groups[name]) for name in NAMES if groups.get(name)}
        if total := groups.get("total"):
            counted["passed"] = int(total) - sum(counted.values())
        for name, many in counted.items():
            sums[name] = sums.get(name, 0) + many
    return sums


def _drop_uncertain(counted: Counts, text: str) -> None:
    """Drop the number of passed tests if it may be wrong. The module unittest counts a test with
    several failures more than once, and does not count a test that could not start. So the number
    is only certain if the output names each failure once."""
    named = re.findall(r"^(?:FAIL|ERROR): (.+)$", text, re.MULTILINE)
    alone = {name for name in named if re.fullmatch(r"\w+ \([\w.]+\)", name)}
    failed = counted.get("failed", 0) + counted.get("errors", 0)
    is_sure = len(named) == len(alone) == failed and "unexpected succ" not in text
    if not is_sure or any(name.startswith(("setUp", "tearDown")) for name in alone):
        counted.pop("passed", None)


def _go(text: str) -> Counts:
    """Count the results of go. Without -v, go names only the tests that failed."""
    if not re.search(r"^(?:ok|FAIL|PASS)\b", text, re.MULTILINE):
        return {}
    ends = re.findall(r"^--- (PASS|FAIL|SKIP): ", text, re.MULTILINE)
    counted = {"failed": ends.count("FAIL")}
    if "=== RUN " in text:
        counted |= {"passed": ends.count("PASS"), "skipped": ends.count("SKIP")}
    return counted if ends else {}


def _tap(text: str) -> Counts:
    plans = re.findall(r"^1\.\.([0-9]{1,9})$", text, re.MULTILINE)
    lines = re.findall(r"^(not )?ok\b(.*)$", text, re.MULTILINE)
    if len(plans) != 1 or int(plans[0]) != len(lines):
        return {}
    counted = dict.fromkeys(NAMES[:3], 0)
    for failed, rest in lines:
        directive = rest.rpartition("#")[2].strip().lower()
        if directive.startswith(("skip", "todo")):
            counted["skipped"] += 1
        else:
            counted["failed" if failed else "passed"] += 1
    return counted
