"""Private minimisers of one convex loss, and the excess risk of public parameters."""
