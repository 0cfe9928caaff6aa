"""Errors that a user sees: one sentence that says what to do, and the exit status that goes with it."""

from __future__ import annotations


class TriageError(Exception):
    """Base class. ``exit_status`` is the process's exit status when the error reaches the command line."""

    exit_status = 1

    def __str__(self) -> str:
        """On one line and without control characters: it may name a path that somebody else chose."""
        return "".join(c if c.isprintable() else " " if c in "\t\n" else "\ufffd" for c in super().__str__())


class UsageError(TriageError):
    exit_status = 2


class NotFoundError(TriageError):
    """A job or a file is not known."""

    exit_status = 3


class AccountingError(TriageError):
    """Accounting cannot be reached or answered nonsense."""

    exit_status = 4


class PartialResultError(TriageError):
    """Something was done, something was not."""

    exit_status = 5


class RuleError(TriageError):
    """A rule pack is wrong; the message names file and line."""

    exit_status = 2


class LedgerError(TriageError):
    """The ledger could not be read or written. Nothing that was not acknowledged before is lost by it."""

    exit_status = 5
