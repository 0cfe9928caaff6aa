"""Entry point: picks the command, imports only its module, turns errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO, cast

from slurm_triage import __version__
from slurm_triage.errors import NotFoundError, TriageError

#: command -> (module, one-line help). Modules are imported only when their command runs (cold start).
COMMANDS: dict[str, tuple[str, str]] = {
    "show": ("slurm_triage.cli.show", "report of jobs by id (also: slurm-triage 7877)"),
    "log": ("slurm_triage.cli.log", "triage a log, a job directory or an outputs tree"),
    "list": ("slurm_triage.cli.list", "table of triaged jobs"),
    "resubmit": ("slurm_triage.cli.resubmit", "the command line to run a job again"),
    "watch": ("slurm_triage.cli.watch", "progress and hang verdict of running jobs"),
    "nodes": ("slurm_triage.cli.nodes", "failure statistics per node"),
    "explain": ("slurm_triage.cli.explain", "why the verdict is what it is"),
    "ledger": ("slurm_triage.cli.ledger", "verify, repair, stats, export, mirror, retire"),
    "bundle": ("slurm_triage.cli.bundle", "a redacted archive of one job, to replay elsewhere"),
    "metrics": ("slurm_triage.cli.metrics", "numbers for Prometheus"),
    "rules": ("slurm_triage.cli.rules", "list, show, test, lint, backtest"),
    "worker": ("slurm_triage.cli.worker", "process the spool"),
    "hook": ("slurm_triage.cli.hook", "record one event, as a hook would"),
    "doctor": ("slurm_triage.cli.doctor", "check this installation"),
    "config": ("slurm_triage.cli.config", "settings and where they come from"),
}

EXIT_USAGE = 2
EXIT_PARTIAL = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status (see docs/operations.md)."""
    _prepare_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    if debug:
        args.remove("--debug")
    try:
        return _run_and_flush(args)
    except TriageError as error:
        if debug:
            raise
        print(f"slurm-triage: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        # The reader (head, less) has gone: nobody is left to tell.
        _discard_output()
        return 0
    except OSError as error:
        if debug:
            raise
        _discard_output()
        what = f"read or write {str(error.filename)[:200]!r}" if error.filename else "write the output"
        print(f"slurm-triage: cannot {what}: {error.strerror or error}", file=sys.stderr)
        return EXIT_PARTIAL
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {TriageError(error)}"
        print(f"slurm-triage: internal error ({what}); run again with --debug and report it", file=sys.stderr)
        return 70


def _prepare_streams() -> None:
    """A stream that the caller closed (``>&-``) becomes /dev/null, lest the next file opened take its descriptor."""
    # The annotations of sys do not know that a closed stream is None.
    if cast("TextIO | None", sys.stdout) is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files hold any bytes, and terminals do not show every character.
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """What could not be written would be tried again, and complained about, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_and_flush(args: list[str]) -> int:
    """A full disk shows when the last buffer is written: while errors are still turned into sentences."""
    try:
        return _run(args)
    finally:
        sys.stdout.flush()


def _run(args: list[str]) -> int:
    if args and args[0] not in COMMANDS and args[0] not in ("-h", "--help", "--version"):
        # Options may come first: slurm-triage -M other 7877
        is_word = not args[0].startswith("-") and args[0].replace("-", "").isalpha()
        if is_word and not os.path.lexists(args[0]):
            raise NotFoundError(f"{args[0]!r} is no command, and no file or directory here; see slurm-triage --help")
        args.insert(0, "show")
    command = args[0] if args and args[0] in COMMANDS else None
    if command is None:
        return _top_level(args)
    module = importlib.import_module(COMMANDS[command][0])
    parser = argparse.ArgumentParser(prog=f"slurm-triage {command}", description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args(args[1:]))
    return status


def _top_level(args: list[str]) -> int:
    lines = "\n".join(f"  {name:10} {text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="slurm-triage",
        usage="slurm-triage [--version] [--debug] JOB [JOB ...] | COMMAND [options]",
        description="Explains why a Slurm job ended the way it did.",
        epilog=f"commands:\n{lines}\n\nslurm-triage COMMAND --help shows the options of one command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"slurm-triage {__version__}")
    if not args:
        parser.print_help()
        return EXIT_USAGE
    parser.parse_args(args)
    parser.print_usage(sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
