"""Agent clients: their configuration, hook events and wake-ups, and the guards in git."""
