"""`python -m interlock` is the command `interlock`."""

from interlock.doors.cli import command

command()
