"""Message types and their schemas, addresses, tokens, and other shared vocabulary."""
