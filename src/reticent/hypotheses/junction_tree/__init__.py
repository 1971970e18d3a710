"""A distribution over many attributes, exact on a junction tree."""
