"""Guards in git: the hooks that ask Interlock before something happens, and what a push meets.

`hooks` puts them in place and takes them back, `committing` says which files a commit touches,
`pushing` reads what the hook was told and finds the guards that are in force. Whether a gate has
passed, and whose claim a file is under, is the node's to say.
"""

from interlock.agents.guards.committing import committed, named, staged, unpushed
from interlock.agents.guards.executable import this_interlock
from interlock.agents.guards.git import root
from interlock.agents.guards.hooks import install, undo
from interlock.agents.guards.pushing import Push, covering, guards_in_force, known_there, pushes

__all__ = [
    "Push",
    "committed",
    "covering",
    "guards_in_force",
    "install",
    "known_there",
    "named",
    "pushes",
    "root",
    "staged",
    "this_interlock",
    "undo",
    "unpushed",
]
