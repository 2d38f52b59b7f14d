"""Recognise Claude Code in a terminal."""
# ruff: noqa: RUF001 - the signs are the client's

import re

from interlock.agents.wake.looks import MENU, RULE, Look, any_of

LOOK = Look(
    # On macOS the name of the process is the version, because the program's file has that name.
    programs=re.compile(r"claude|\d+(?:\.\d+)+"),
    marker=re.compile(r"\s*(?:│\s)?[❯>](?=\s|$)"),
    above=RULE,
    below=RULE,
    blocks=9,
    hints=(),
    busy=any_of(r"esc to interrupt", r"^\s*[·✢✳✶✻✼✽*]\s\S.*…\s*\("),
    asking=any_of(
        MENU,
        r"do you want to (?:proceed|make this edit|create|allow)",
        r"enter to (?:select|confirm)",
        r"esc to cancel",
        r"trust this folder",
    ),
)
