"""Recognise Gemini CLI in a terminal."""

import re

from interlock.agents.wake.looks import MENU, RULE, Look, any_of

LOOK = Look(
    programs=re.compile(r"gemini"),
    marker=re.compile(r"\s*(?:│\s)?[>*](?=\s|$)"),
    above=RULE,
    below=RULE,
    blocks=3,
    hints=("Type your message or @path/to/file",),
    busy=any_of(r"esc to (?:cancel|interrupt)"),
    asking=any_of(
        MENU,
        r"waiting for user confirmation",
        r"action required",
        r"allow (?:once|execution|for this session)",
        r"apply this change\?",
    ),
)
