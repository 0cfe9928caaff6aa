"""Something that is broken for a while."""

from __future__ import annotations

import logging

log = logging.getLogger("slurm-triage")


class Trouble:
    """One kind of it. It is logged when it comes and when it changes, not every time it is met."""

    def __init__(self) -> None:
        self._text: str | None = None

    def note(self, text: str) -> None:
        if self._text != text:
            self._text = text
            log.warning("%s", text)

    def over(self) -> None:
        self._text = None
