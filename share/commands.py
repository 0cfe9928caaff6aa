"""The command line as data, read from the argparse parsers that the program itself uses."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from slurm_triage.cli.main import COMMANDS

#: What stands for a value decides how it is completed.
_FILE_WORDS = frozenset({"FILE", "PATH", "JOB|PATH"})


@dataclass(frozen=True)
class Argument:
    """One option or positional argument. ``value`` is the placeholder of its value, None for a switch."""

    names: tuple[str, ...]
    value: str | None
    help: str
    choices: tuple[str, ...] = ()
    repeats: bool = False
    required: bool = True

    @property
    def completes(self) -> str:
        """file | directory | words | nothing"""
        if self.choices:
            return "words"
        if self.value == "DIR":
            return "directory"
        return "file" if self.value in _FILE_WORDS or self.value == "path" else "nothing"

    @property
    def shown_value(self) -> str:
        return self.value or ""


@dataclass(frozen=True)
class Command:
    name: str
    title: str
    description: str
    options: tuple[Argument, ...]
    positionals: tuple[Argument, ...]
    actions: tuple[Command, ...] = field(default=())
    """Commands below this one (``ledger verify``)."""


def commands() -> tuple[Command, ...]:
    """All commands in the order in which ``slurm-triage --help`` shows them."""
    found = []
    for name, (module_name, title) in COMMANDS.items():
        module = importlib.import_module(module_name)
        parser = argparse.ArgumentParser(prog=f"slurm-triage {name}", description=module.__doc__, allow_abbrev=False)
        module.add_arguments(parser)
        found.append(_command(name, title, parser))
    return tuple(found)


def _command(name: str, title: str, parser: argparse.ArgumentParser) -> Command:
    options, positionals, below = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            titles = {choice.dest: _help(choice, parser) for choice in action._choices_actions}
            below = [_command(key, titles.get(key, ""), inner) for key, inner in action.choices.items()]
        elif action.help is not argparse.SUPPRESS:
            (options if action.option_strings else positionals).append(_argument(action, parser))
    return Command(name, title, parser.description or "", tuple(options), tuple(positionals), tuple(below))


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    choices = tuple(str(choice) for choice in action.choices) if action.choices is not None else ()
    value = None
    if action.nargs != 0:
        value = metavar or ("|".join(choices) if choices else action.dest.upper())
    return Argument(
        names=tuple(action.option_strings),
        value=value,
        help=_help(action, parser),
        choices=choices,
        repeats=action.nargs in ("*", "+"),
        required=action.nargs not in ("*", "?") if not action.option_strings else action.nargs != "?",
    )


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def every(found: tuple[Command, ...], above: str = "") -> Iterator[tuple[str, Command]]:
    """(full name, command) of each command and those below it."""
    for command in found:
        name = f"{above} {command.name}".strip()
        yield name, command
        yield from every(command.actions, name)
