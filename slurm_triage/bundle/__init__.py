"""A redacted archive of one job that gives the same verdict elsewhere."""
