"""slurm-triage: explains why a Slurm job ended the way it did."""

__version__ = "0.1.0"
