"""Private discovery of the edges and categories of undeclared columns, paid from a ledger."""
