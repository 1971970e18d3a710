"""Mechanisms: each yields its noisy release and its price from one object."""
