"""The doors. Each decodes a request, calls one verb of the node, and encodes the answer."""
