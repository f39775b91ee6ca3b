"""measure() and merge(): the whole pipeline."""
