"""Prints a report in the form that the options ask for."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from slurm_triage.report.document import Document

if TYPE_CHECKING:
    from slurm_triage.model.report import Report


def print_view(source: Report | Document, args: argparse.Namespace) -> None:
    """``args``: json, markdown, html, share. Only the view that is wanted is imported (cold start)."""
    if args.json:
        from slurm_triage.report.to_json import to_json

        sys.stdout.buffer.write(to_json(source, share=args.share))
    elif args.markdown:
        from slurm_triage.report.markdown import to_markdown

        sys.stdout.write(to_markdown(source, share=args.share))
    elif args.html:
        from slurm_triage.report.to_html import to_html

        sys.stdout.write(to_html(source, share=args.share))
    else:
        from slurm_triage.report.terminal import to_terminal

        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size((100, 24)).columns
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        sys.stdout.write(to_terminal(source, width=width, color=color, share=args.share, ascii_only=ascii_only))
    sys.stdout.flush()
