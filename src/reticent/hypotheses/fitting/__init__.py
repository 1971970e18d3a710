"""Fits of a hypothesis to noisy measurements."""
