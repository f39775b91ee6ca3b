"""measure() and merge(): the whole pipe."""
