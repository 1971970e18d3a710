"""Mechanisms: each produces its noisy release and its price from one object."""
