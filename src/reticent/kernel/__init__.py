"""The kernel is the only code that sees rows or draws private noise; only priced numbers leave it."""
