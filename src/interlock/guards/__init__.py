"""Guards in git: the hooks that ask Interlock before something happens, and what a push meets.

`hooks` puts them in place and takes them back, `committing` says which files a commit touches,
`pushing` reads what the hook was told and finds the guards that are in force. Whether a gate has
passed, and whose claim a file is under, is the node's to say.
"""

from interlock.guards.committing import committed, named, staged, unpushed
from interlock.guards.executable import this_interlock
from interlock.guards.git import root
from interlock.guards.hooks import install, undo
from interlock.guards.pushing import Push, covering, guards_in_force, known_there, pushes

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
