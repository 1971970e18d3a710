"""The ledger: events in a hash chain, the store that keeps them, and the anchor that detects a rollback."""
