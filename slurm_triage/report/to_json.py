"""The text of ``triage.json``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from slurm_triage.report.as_document import as_document
from slurm_triage.report.document import Document

if TYPE_CHECKING:
    from slurm_triage.model.report import Report

#: UTF-8 of characters that act on a terminal or hide text when a person runs ``cat triage.json``: C1 controls, DEL,
#: zero-width and bidirectional formatting, line separators, byte order mark, tags.
_ACTIVE_UTF8 = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xf3\xa0[\x80\x81]."
)


def to_json(source: Report | Document, *, share: bool = False) -> bytes:
    """The text of ``triage.json``: indented, keys in the documented order, one newline at the end.

    ``share`` also replaces user, host names, addresses and paths (see ``redact``).
    """
    text = orjson.dumps(as_document(source, share=share), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return _ACTIVE_UTF8.sub(_json_escape, text)


def _json_escape(match: re.Match[bytes]) -> bytes:
    units = match[0].decode().encode("utf-16-be")
    return b"".join(b"\\u%04x" % int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
