"""Facts about this machine: processes, git, host names."""
