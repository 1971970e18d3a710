"""Progress of long calls: the values that a listener receives, and the default bars of terminals and notebooks."""
