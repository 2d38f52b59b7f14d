"""Guards in git: the hooks that ask Interlock, and the changes that a commit or push makes."""
