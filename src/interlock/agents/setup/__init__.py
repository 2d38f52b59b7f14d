"""Setting clients up: what each client's configuration looks like, written and taken back.

A change is thought out whole before anything is written, so it can be shown instead. What was there
before is kept in the workspace's home, with the digest of what was written: `undo` puts files back
byte for byte where nobody has changed them since, and takes out our entries alone where somebody
has. Entries are ours by what they call: they are found with or without a record. A client's facts
stand in a module of its own.
"""

from interlock.agents.setup.apply import Setting, git_shown, prepared, reversed_setting
from interlock.agents.setup.clients import CLIENTS, GIT, Caller, client_named
from interlock.agents.setup.detecting import detected
from interlock.agents.setup.places import Place, place_at

__all__ = [
    "CLIENTS",
    "GIT",
    "Caller",
    "Place",
    "Setting",
    "client_named",
    "detected",
    "git_shown",
    "place_at",
    "prepared",
    "reversed_setting",
]
