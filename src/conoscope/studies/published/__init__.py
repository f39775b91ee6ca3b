"""The published tables and claims, one file each."""
