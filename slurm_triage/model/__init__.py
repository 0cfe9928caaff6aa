"""Frozen dataclasses that flow through the pipeline. No I/O in this package."""
