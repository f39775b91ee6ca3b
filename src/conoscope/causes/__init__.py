"""Causes: a model's vectors are edited, and the answer watched."""
