"""Exact, non-private functions for the custodian; sessions and services cannot import them."""
