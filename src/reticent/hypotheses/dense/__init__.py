"""The universe as one tensor."""
