"""Hypotheses: public distributions over the universe, and the ways to move, query and sample them."""
