"""A release is a hypothesis with its public transcript; offline algorithms make it."""
