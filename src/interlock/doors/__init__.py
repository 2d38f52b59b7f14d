"""The doors: each decodes a request, calls one verb of the node, and encodes the answer."""
