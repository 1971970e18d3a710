"""The ledger: events in a hash chain, the store that keeps them, the anchor that notices a rollback."""
