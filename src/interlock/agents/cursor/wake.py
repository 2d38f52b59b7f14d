"""Recognise Cursor in a terminal."""

import re

from interlock.agents.wake.looks import MENU, RULE, Look, any_of

LOOK = Look(
    programs=re.compile(r"cursor-agent|agent"),
    marker=re.compile(r"\s*(?:│\s)?→(?=\s|$)"),
    above=RULE,
    below=RULE,
    blocks=3,
    hints=("Plan, search, build anything", "Add a follow-up"),
    busy=any_of(r"ctrl\+c to stop", r"^\s*[⠀-⣿⬡⬢]+\s*\S+ing\b"),
    asking=any_of(
        MENU,
        r"run this command\?",
        r"not in allowlist",
        r"^\s*→?\s*(?:run|reject|skip|accept|allow|keep)\b.*\((?:y|n|enter|esc|tab)\b",
        r"trust this workspace",
    ),
)
