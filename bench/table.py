"""The printed table: one line for each measurement, with the ratio and the raw figures."""

import os
import platform
import sys
from typing import NamedTuple

import apsw

NAME, VALUE, GOAL, MARK = 44, 9, 8, 6


class Goal(NamedTuple):
    """A bound for the ratio. With `least`, the ratio must be at least the bound."""

    bound: float
    least: bool

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.bound:g}"

    def met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.least else ratio <= self.bound


def at_least(bound: float) -> Goal:
    return Goal(bound, True)


def at_most(bound: float) -> Goal:
    return Goal(bound, False)


class Table:
    """Prints each line at once, and records the measurements that miss their goal or are
    skipped."""

    def __init__(self) -> None:
        self.short: list[str] = []
        self.missing: list[str] = []

    def heading(self, disk_ms: float) -> None:
        print(
            f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
            f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
            f"fsync {disk_ms:.2f} ms\n"
        )
        print(_columns("", "ratio", "goal", "", "raw figures"))

    def doing(self, task: str) -> None:
        """Show the current measurement at a terminal. The next line replaces it."""
        if sys.stderr.isatty():
            print(f"{task} …", end="\r", file=sys.stderr, flush=True)

    def ratio(self, name: str, ratio: float, goal: Goal, raw: str) -> None:
        met = goal.met(ratio)
        if not met:
            self.short.append(name)
        self._line(name, f"{ratio:.2f}", str(goal), "ok" if met else "short", raw)

    def figure(self, name: str, value: str, raw: str) -> None:
        """A measurement without a goal."""
        self._line(name, value, "", "", raw)

    def skipped(self, name: str, why: str) -> None:
        self.missing.append(name)
        self._line(name, "-", "", "", f"skipped: {why}")

    def verdict(self) -> str:
        text = "All goals are met." if not self.missing else "All measured goals are met."
        if self.short:
            text = f"Goals not met: {'; '.join(self.short)}."
        if self.missing:
            text += f" Not measured: {'; '.join(self.missing)}."
        return text

    def _line(self, *parts: str) -> None:
        if sys.stderr.isatty():
            print("\x1b[2K", end="", file=sys.stderr, flush=True)
        print(_columns(*parts), flush=True)


def _columns(name: str, value: str, goal: str, mark: str, raw: str) -> str:
    return f"{name:<{NAME}}{value:>{VALUE}}  {goal:<{GOAL}}{mark:<{MARK}}{raw}".rstrip()
