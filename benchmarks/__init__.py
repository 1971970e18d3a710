"""Benchmarks compare in one run: ours, the peers' real code, the machine; true errors live here only."""
