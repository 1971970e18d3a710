"""DualQuery: the game played from the query side."""
