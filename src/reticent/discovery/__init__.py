"""Private discovery: edges and categories of columns that nobody declared, paid from a ledger."""
