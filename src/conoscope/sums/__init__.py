"""Statistics with +: they are updated per batch and merged across shards."""
