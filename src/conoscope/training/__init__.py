"""Training of classifiers, optionally with penalties on attention."""
