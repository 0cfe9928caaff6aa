"""Reads a stored ``triage.json`` so that the views can render it again.

A job directory may be writable by anyone, so nothing in the file is trusted: its shape is checked against the shipped
schema. Keys that an older version did not write are filled in, keys and words of a newer one are kept as they are, as
long as the words have the form of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.errors import TriageError
from slurm_triage.report.document import Document

SCHEMA_FILE = Path(__file__).parent / "schema" / "slurm-triage-1.json"

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
#: Words of the schema's lists, also those that a newer version may add. They are shown as they are.
_WORD = re.compile(r"[a-z][a-z0-9-]{0,31}")
#: What stands for a key that the writer did not know, by the key's type.
_BLANK: dict[str, Any] = {"array": [], "object": {}, "boolean": False}


class StoredReportError(TriageError):
    """A file is no report of this program, or was changed by hand."""


def load_document(content: bytes, name: str) -> Document:
    """The document in ``content``; ``name`` is what error texts call it. Raises StoredReportError."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise StoredReportError(f"{name!r} is not JSON ({error}); triage the job again.") from error
    wanted = _schema()["properties"]["schema"]["const"]
    if not isinstance(document, dict) or document.get("schema") != wanted:
        raise StoredReportError(f"{name!r} is no report of format {wanted}; triage the job again.")
    try:
        checked: Document = _checked(document, _schema(), "")
    except ValueError as error:
        raise StoredReportError(f"{name!r} is damaged ({error}); triage the job again.") from error
    return checked


@cache
def _schema() -> Mapping[str, Any]:
    schema: Mapping[str, Any] = orjson.loads(SCHEMA_FILE.read_bytes())
    return schema


def _checked(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    """``value`` if it has the type that the schema asks for, with missing keys filled in. Raises ValueError."""
    types = schema.get("type")
    if types is None:
        return value
    names = [types] if isinstance(types, str) else types
    if not isinstance(value, tuple(_flat(names))) or (isinstance(value, bool) and "boolean" not in names):
        raise ValueError(f"{path or 'the document'} should be {' or '.join(names)}")
    if "enum" in schema and isinstance(value, str) and _WORD.fullmatch(value) is None:
        raise ValueError(f"{path} is none of its words")
    if isinstance(value, dict):
        return _checked_object(value, schema, path)
    if isinstance(value, list):
        return [_checked(item, schema["items"], f"{path}[]") for item in value]
    return value


def _checked_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    known = schema.get("properties")
    if known is None:
        return {name: _checked(item, schema["additionalProperties"], f"{path}.{name}") for name, item in value.items()}
    rest = {name: item for name, item in value.items() if name not in known}
    return {
        name: _checked(value.get(name, _blank(inner)), inner, f"{path}.{name}".lstrip("."))
        for name, inner in known.items()
    } | rest


def _blank(schema: Mapping[str, Any]) -> Any:
    types = schema.get("type")
    return None if types is None or "null" in types else _BLANK.get(types)


def _flat(names: list[str]) -> list[type]:
    flat: list[type] = []
    for name in names:
        kind = _TYPES[name]
        flat.extend(kind if isinstance(kind, tuple) else (kind,))
    return flat
