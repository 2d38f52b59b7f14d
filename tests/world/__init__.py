"""Helpers that tests share: workspaces, people, servers, browsers and clients."""
