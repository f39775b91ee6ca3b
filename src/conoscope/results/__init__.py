"""Results: tables, their files and their provenance."""
