"""Sessions answer queries and losses one after another, under one ledger."""
