"""How whatever is configured on this machine calls the Interlock that is running now."""

import os
import sys
import sysconfig


def this_interlock() -> tuple[str, ...]:
    """The words that start it, with absolute paths: clients and hooks have a PATH of their own."""
    script = os.path.join(sysconfig.get_path("scripts"), "interlock")
    if os.access(script, os.X_OK):
        return (script,)
    # Without -P a directory called interlock in the repository would be taken for us.
    return (sys.executable, "-P", "-m", "interlock")
