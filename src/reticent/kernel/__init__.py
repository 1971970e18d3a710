"""The kernel: the only code that reads counts of rows or draws private noise; it releases only priced numbers."""
