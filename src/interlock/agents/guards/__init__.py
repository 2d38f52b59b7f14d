"""Guards in git: the hooks that call Interlock, and the changes of a commit or a push."""
