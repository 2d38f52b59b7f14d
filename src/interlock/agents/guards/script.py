"""The text of a hook: a few lines for the plain shell that every git has."""

import os
import shlex
from collections.abc import Sequence

MARK = b"#!/bin/sh\n# Put here by Interlock."

_SCRIPT = """\
{mark} To take it away: interlock guard install --undo
# Do not change it: a hook of your own is the file "$0{kept}", and runs first.
{take_input}if [ -f "$0{kept}" ] && [ -x "$0{kept}" ]; then
  {give_input}"$0{kept}" "$@" || exit
fi
set -- {words} "$@"
if [ -x {program} ]; then
  set -- {command} "$@"
elif command -v interlock >/dev/null 2>&1; then
  set -- interlock "$@"
else
  echo "This repository is guarded by Interlock, which is no longer at" {program} >&2
  echo "Install it and run: interlock guard install. To do without it, remove $0" >&2
  exit 1
fi
{give_input}"$@"
"""
# What git writes is read once and given to both. The dot saves the newlines at its end. A hook
# need not read it all, which is no error of whoever writes.
_TAKE_INPUT = "input=$(cat && echo .) || exit\ninput=${input%.}\n"
_GIVE_INPUT = 'printf %s "$input" 2>/dev/null | '


def written(words: str, command: Sequence[str], *, kept: str, has_input: bool) -> bytes:
    """The hook that runs the kept one, and then `command` with these words and git's own."""
    return os.fsencode(
        _SCRIPT.format(
            mark=MARK.decode(),
            kept=kept,
            words=words,
            program=shlex.quote(command[0]),
            command=shlex.join(command),
            take_input=_TAKE_INPUT if has_input else "",
            give_input=_GIVE_INPUT if has_input else "",
        )
    )
