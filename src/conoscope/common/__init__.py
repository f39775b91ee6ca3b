"""Shared by all packages: errors, options, files, terminal and HTML text. Nothing here imports torch."""
