"""Reading the counts of test runners from their real output."""

import os

import pytest

from interlock.evidence.counting import SEEN, Counts, counts

SUMMARIES: dict[str, tuple[str, Counts]] = {
    "pytest": (
        "tests/test_a.py ..F                    [100%]\n\n"
        "=========== 1 failed, 12 passed, 2 skipped, 3 warnings in 0.12s ===========\n",
        {"failed": 1, "passed": 12, "skipped": 2},
    ),
    "pytest -q": ("..\n2 passed in 0.01s\n", {"passed": 2}),
    "pytest, long": (
        "=== 1 passed, 1 xfailed, 1 error in 75.20s (0:01:15) ===\n",
        {"passed": 1, "skipped": 1, "errors": 1},
    ),
    "pytest in colour": (
        "\x1b[32m\x1b[32m\x1b[1m5 passed\x1b[0m\x1b[32m in 0.10s\x1b[0m\x1b[0m\n",
        {"passed": 5},
    ),
    "unittest": (
        "...s\n-----\nRan 4 tests in 0.001s\n\nOK (skipped=1)\n",
        {"passed": 3, "skipped": 1},
    ),
    "unittest, expecting failures": (
        "x.\n-----\nRan 2 tests in 0.001s\n\nOK (expected failures=1)\n",
        {"passed": 2},
    ),
    "unittest, failing": (
        "-----\nRan 4 tests in 0.001s\n\nFAILED (failures=2, errors=1)\n",
        {"failed": 2, "errors": 1},
    ),
    "unittest, failing by name": (
        "F.Es\n=====\nERROR: test_c (t.T.test_c)\n-----\nKeyError: 1\n\n=====\n"
        "FAIL: test_a (t.T.test_a)\nThe first.\n-----\nAssertionError\n\n-----\n"
        "Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n",
        {"failed": 1, "errors": 1, "skipped": 1, "passed": 1},
    ),
    "unittest, failing in parts of a test": (
        "FF..\n=====\nFAIL: test_a (t.T.test_a) (i=1)\n-----\n\n=====\n"
        "FAIL: test_a (t.T.test_a) (i=2)\n-----\n\n-----\n"
        "Ran 3 tests in 0.001s\n\nFAILED (failures=2)\n",
        {"failed": 2},
    ),
    "unittest, failing before a test": (
        "E.\n=====\nERROR: setUpClass (t.T)\n-----\n\n-----\n"
        "Ran 1 test in 0.001s\n\nFAILED (errors=1)\n",
        {"errors": 1},
    ),
    "jest": (
        "Test Suites: 1 failed, 2 passed, 3 total\n"
        "Tests:       1 failed, 1 skipped, 2 todo, 20 passed, 24 total\n"
        "Snapshots:   0 total\nTime:        1.2 s\n",
        {"failed": 1, "skipped": 3, "passed": 20},
    ),
    "vitest": (
        " Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 7 passed | 1 skipped (9)\n"
        "   Start at  10:00:00\n",
        {"failed": 1, "passed": 7, "skipped": 1},
    ),
    "mocha": (
        "    \u2713 works\n\n  10 passing (21ms)\n  1 pending\n  2 failing\n\n  1) breaks:\n",
        {"passed": 10, "skipped": 1, "failed": 2},
    ),
    "go test -v": (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    --- FAIL: TestB/x (0.0s)\n"
        "--- FAIL: TestB (0.00s)\n=== RUN   TestC\n--- SKIP: TestC (0.00s)\nFAIL\n",
        {"failed": 1, "passed": 1, "skipped": 1},
    ),
    "go test": ("--- FAIL: TestB (0.00s)\nFAIL\tx/y\t0.1s\nok  \tx/z\t0.2s\n", {"failed": 1}),
    "cargo": (
        "test a ... ok\n\n"
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; in 0.00s\n\n"
        "   Doc-tests x\n\n"
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; in 0.1s\n",
        {"passed": 4, "failed": 2, "skipped": 1},
    ),
    "cargo nextest": (
        "     Summary [   0.012s] 5 tests run: 4 passed, 1 failed, 2 skipped\n",
        {"passed": 4, "failed": 1, "skipped": 2},
    ),
    "rspec": (
        "Finished in 0.01 seconds\n10 examples, 1 failure, 2 pending\n",
        {"failed": 1, "skipped": 2, "passed": 7},
    ),
    "maven": (
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in a.B\n"
        "[INFO] Results:\n[INFO]\n[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n"
        "[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1\n",
        {"passed": 5, "failed": 1, "errors": 1, "skipped": 1},
    ),
    "gradle": (
        "\n8 tests completed, 1 failed, 2 skipped\n",
        {"failed": 1, "skipped": 2, "passed": 5},
    ),
    "junit 4": ("Time: 0.005\n\nOK (5 tests)\n", {"passed": 5}),
    "junit 4, failing": (
        "FAILURES!!!\nTests run: 5,  Failures: 2\n",
        {"failed": 2, "passed": 3},
    ),
    "junit 5": (
        "[         5 tests found           ]\n[         1 tests skipped         ]\n"
        "[         4 tests started         ]\n[         0 tests aborted         ]\n"
        "[         3 tests successful      ]\n[         1 tests failed          ]\n",
        {"skipped": 1, "passed": 3, "failed": 1},
    ),
    "dotnet": (
        "Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3, Duration: 4 ms\n"
        "Failed!  - Failed:     1, Passed:     2, Skipped:     1, Total:     4, Duration: 4 ms\n",
        {"failed": 1, "passed": 5, "skipped": 1},
    ),
    "dotnet, by the console": (
        "Total tests: 4\n     Passed: 3\n     Failed: 1\n Total time: 1.2 Seconds\n",
        {"passed": 3, "failed": 1},
    ),
    "dotnet, by the terminal": (
        "Test summary: total: 4, failed: 1, succeeded: 3, skipped: 0, duration: 1.0s\n",
        {"failed": 1, "passed": 3},
    ),
    "node": (
        "\u2139 tests 4\n\u2139 suites 0\n\u2139 pass 2\n\u2139 fail 1\n\u2139 cancelled 0\n"
        "\u2139 skipped 1\n\u2139 todo 0\n",
        {"passed": 2, "failed": 1, "skipped": 1},
    ),
    "node, as TAP": (
        "TAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n# tests 2\n# suites 0\n# pass 1\n# fail 1\n"
        "# cancelled 0\n# skipped 0\n# todo 0\n",
        {"passed": 1, "failed": 1},
    ),
    "TAP": (
        "1..5\nok 1 a\nnot ok 2 b\nok 3 c # SKIP no net\nnot ok 4 d # TODO later\nok 5 # tag\n",
        {"passed": 2, "failed": 1, "skipped": 2},
    ),
    "ctest": ("\n75% tests passed, 1 tests failed out of 4\n", {"failed": 1, "passed": 3}),
    "phpunit": ("Time: 00:00.01\n\nOK (3 tests, 5 assertions)\n", {"passed": 3}),
    "phpunit, failing": (
        "FAILURES!\nTests: 9, Assertions: 12, Errors: 1, Failures: 2, Skipped: 1, Incomplete: 1.\n",
        {"errors": 1, "failed": 2, "skipped": 2, "passed": 4},
    ),
    "none passed": ("=== 0 passed in 0.01s ===\n", {"passed": 0}),
}

WITHOUT_COUNTS = {
    "nothing": "",
    "prose": "12 files changed in 0.50s\n3 warnings in 1.00s\nall tests passed\n",
    "go without tests": "?   \tx/y\t[no test files]\nok  \tx/z\t0.2s\n",
    "a linter": "Found 3 errors in 1 file (checked 2 source files)\n",
    "two runners": SUMMARIES["pytest"][0] + SUMMARIES["jest"][0],
    "fewer tests than the plan": "1..3\nok 1\nok 2\n",
    "a negative count": "Ran 1 test in 0.001s\n\nOK (skipped=5)\n",
    "a quotation": "    5 passed in 0.10s\n> OK (3 tests)\n",
}


def written(directory: os.PathLike[str], text: str) -> str:
    path = os.path.join(directory, "output")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("runner", SUMMARIES)
def test_the_counts_of_each_runner_are_found(tmp_path: os.PathLike[str], runner: str) -> None:
    text, told = SUMMARIES[runner]
    assert counts(written(tmp_path, "some output\n" + text), whole=True) == told
    assert counts(written(tmp_path, text.replace("\n", "\r\n")), whole=True) == told


@pytest.mark.parametrize("what", WITHOUT_COUNTS)
def test_output_without_a_certain_summary_has_no_counts(
    tmp_path: os.PathLike[str], what: str
) -> None:
    assert counts(written(tmp_path, WITHOUT_COUNTS[what]), whole=True) is None


def test_incomplete_output_has_counts_only_with_a_single_summary(
    tmp_path: os.PathLike[str],
) -> None:
    noise = "a line of output\n" * (SEEN // 16)
    assert (
        counts(written(tmp_path, noise + SUMMARIES["pytest"][0]), whole=True)
        == SUMMARIES["pytest"][1]
    )
    assert counts(written(tmp_path, SUMMARIES["pytest"][0]), whole=False) == SUMMARIES["pytest"][1]
    for runner in ("cargo", "maven", "go test -v", "TAP", "dotnet"):
        assert counts(written(tmp_path, noise + SUMMARIES[runner][0]), whole=True) is None
        assert counts(written(tmp_path, SUMMARIES[runner][0]), whole=False) is None
    twice = SUMMARIES["pytest"][0] * 2
    assert counts(written(tmp_path, twice), whole=False) is None
    assert counts(written(tmp_path, twice), whole=True) == {"failed": 2, "passed": 24, "skipped": 4}


def test_binary_output_has_no_counts(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "output")
    with open(path, "wb") as file:
        file.write(bytes(range(256)) * 100)
    assert counts(path, whole=True) is None
