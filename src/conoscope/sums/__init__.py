"""Statistics that add up."""
