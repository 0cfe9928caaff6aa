"""The settings in force, and where each came from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import orjson

from slurm_triage.settings import NAMES, PREFIX, load_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show",), default="show", help="show: print all settings as TOML")
    parser.add_argument("--origin", action="store_true", help="also where each value comes from")
    parser.add_argument("--config", metavar="FILE", type=Path, help="instead of /etc/slurm-triage/config.toml")


def run(args: argparse.Namespace) -> int:
    settings = load_settings(args.config)
    for name in NAMES:
        line = _toml(name, getattr(settings, name))
        if args.origin:
            line = f"{line:60}  # {settings.origin.get(name, 'default')}"
        print(line)
    if args.origin:
        print(f"# environment variables are called {PREFIX}NAME, such as {PREFIX}SPOOL")
    return 0


def _toml(name: str, value: Any) -> str:
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"{name} = {value}"
    # TOML's basic strings and arrays of them are written as JSON writes them.
    return f"{name} = {orjson.dumps(list(value) if isinstance(value, tuple) else str(value)).decode()}"
