"""Knowledge: what was measured and certified, and the free answers that follow from it."""
