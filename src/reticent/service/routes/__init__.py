"""The HTTP routes, by role."""
