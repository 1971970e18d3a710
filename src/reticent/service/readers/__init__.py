"""Reader processes: free answers from the ledger's public events."""
