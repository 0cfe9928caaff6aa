"""``python -m slurm_triage``."""

import sys

from slurm_triage.cli.main import main

sys.exit(main())
