"""A real Slurm cluster on one machine, for tests: ``python -m tests.cluster --help``."""
