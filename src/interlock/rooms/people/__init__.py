"""People: invitations, passwords, the agents that a person owns, and the clients they connect."""
