"""Training a classifier, with penalties on attention."""
