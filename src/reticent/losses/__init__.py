"""Convex losses: public functions of parameters and a record, on which models and their certificates depend."""
