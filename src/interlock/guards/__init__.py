"""Guards in git: the hooks that ask Interlock before something happens, and what a push meets.

`hooks` puts them in place and takes them back, `pushing` reads what the hook was told and finds
the guards that are in force. Whether a gate has passed is the node's to say.
"""

from interlock.guards.hooks import install, undo
from interlock.guards.pushing import Push, covering, guards_in_force, pushes

__all__ = ["Push", "covering", "guards_in_force", "install", "pushes", "undo"]
