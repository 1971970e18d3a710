"""Answer unlimited questions about a sensitive table under one differential privacy budget."""
