"""The world of the tests: workspaces, people, servers, browsers and clients that tests share."""
