"""What every view is rendered from: the document of ``triage.json`` as Python objects."""

from __future__ import annotations

from typing import Any

#: docs/json.md and schema/slurm-triage-1.json describe it.
Document = dict[str, Any]
