"""Report or stored document to document.

Showing a stored report needs nothing but this, so neither the data model nor the redaction is imported until a view is
asked for a fresh report (a look-up by job id has 150 ms, and the model alone takes a third of that).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_triage.report.document import Document

if TYPE_CHECKING:
    from slurm_triage.model.report import Report


def as_document(source: Report | Document, *, share: bool = False) -> Document:
    """The document of a report, or a stored document as it is; without private names for ``share``."""
    if not isinstance(source, dict):
        from slurm_triage.report.build_document import report_document

        return report_document(source, share=share)
    if not share:
        return source
    from slurm_triage.report.redact import redact

    return redact(source, share=True)
