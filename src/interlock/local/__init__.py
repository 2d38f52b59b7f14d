"""The user's machine: the workspace, the way to its node, windows, repositories, projects."""
