"""What may be said: message models, addresses, acts, fact headers and their encoding."""
