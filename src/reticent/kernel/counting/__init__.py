"""Exact counting of encoded records: marginals, conjunctions and boxes."""
