"""How Claude Code looks in a terminal."""
# ruff: noqa: RUF001 - the signs are the client's

import re

from interlock.agents.wake.looks import MENU, RULE, Look, any_of

LOOK = Look(
    # On macOS the process goes by the version, which is the name of its file.
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
