"""The user's machine: the workspace, the link to its node, windows, repositories, projects."""
