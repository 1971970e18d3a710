"""Progress of long calls: what a listener is told, and the bars that terminals and notebooks show by default."""
