"""One log on a database server that several nodes share: PostgreSQL, Redis or Valkey."""
