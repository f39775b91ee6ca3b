"""Results: tables, their files and where they came from."""
