"""A session answers queries and losses as they come, under one ledger."""
