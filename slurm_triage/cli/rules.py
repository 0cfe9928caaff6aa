"""Look at the rules in force, test them on text, check packs, and see what a change of rules would change."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from slurm_triage.cli.text_table import Column, Style, bold, dim, parse_fields, print_table, printable
from slurm_triage.errors import NotFoundError, PartialResultError, UsageError
from slurm_triage.logs.source import ByteSource, open_source
from slurm_triage.model.rule import FACT, FailureClass, Rule, RuleSet, StepDialect
from slurm_triage.rules.load import load_rules, overlay_dirs
from slurm_triage.rules.match_text import LineMatch, explain_stream
from slurm_triage.rules.matcher import Matcher

if TYPE_CHECKING:
    from slurm_triage.backtest import Comparison, Verdict
    from slurm_triage.ledger.record import LedgerRecord

LIST_FIELDS = ("id", "class", "role", "priority", "domain", "stage", "retry", "pack", "fact", "title", "patterns")
LIST_DEFAULT = "id,class,role,priority,pack,title"
_COLUMNS = {name: Column(name.title(), shrinks=name in ("title", "patterns")) for name in LIST_FIELDS}
DIALECT_CLASS = "step-dialect"
_SINCE = "now-7days"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")

    listing = actions.add_parser("list", help="table of the rules in force (the default)")
    listing.add_argument("--class", dest="cls", metavar="CLASS", help="only this class (also: harmless, fact)")
    listing.add_argument("--pack", help="only this pack")
    listing.add_argument("-o", "--format", metavar="FIELDS", help=f"fields, comma separated: {','.join(LIST_FIELDS)}")
    listing.add_argument("-P", "--parsable2", action="store_true", help="fields between bars")
    listing.add_argument("-n", "--noheader", action="store_true")
    listing.add_argument("--json", action="store_true")
    parser.set_defaults(action="list", **vars(listing.parse_args([])))

    show = actions.add_parser("show", help="everything about one rule, step dialect or class")
    show.add_argument("id", metavar="ID")
    show.add_argument("--json", action="store_true")

    test = actions.add_parser("test", help="which lines of a file match which rules")
    test.add_argument("files", nargs="+", metavar="FILE", help="a text file, or - for standard input")
    test.add_argument("--class", dest="cls", metavar="CLASS", help="only rules of this class")
    test.add_argument("--rule", metavar="ID", help="only this rule")
    test.add_argument("--facts", action="store_true", help="also rules of class fact")
    test.add_argument("--rejected", action="store_true", help="also lines that verify or unless turned away")
    test.add_argument("-c", "--count", action="store_true", help="only how many lines match each rule")
    test.add_argument("--json", action="store_true", help="one JSON object per match and line")

    check = actions.add_parser("lint", help="check packs; exit status 1 if there are problems")
    check.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="packs or directories (default: all)")

    backtest = actions.add_parser("backtest", help="which verdicts would change with other rules")
    backtest.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="logs, job directories or outputs trees")
    backtest.add_argument(
        "--ledger",
        nargs="?",
        const="",
        metavar="DIR",
        help="logs of the ledger's past jobs; without --rules: what was said then against the rules in force",
    )
    backtest.add_argument(
        "-S", "--since", metavar="TIME", help="with --ledger: only jobs that were there after TIME (default now-7days)"
    )
    backtest.add_argument(
        "--rules",
        type=Path,
        metavar="DIR",
        help="packs to add to those in force (default: compare the built-in packs alone with those in force)",
    )
    backtest.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    actions = {"list": _list, "show": _show, "test": _test, "lint": _lint, "backtest": _backtest}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    ruleset = load_rules(samples=args.json)
    rules = [r for r in ruleset.rules if args.cls in (None, r.cls) and args.pack in (None, r.pack)]
    dialects = [d for d in ruleset.dialects if args.cls in (None, DIALECT_CLASS) and args.pack in (None, d.pack)]
    if not rules and not dialects:
        raise NotFoundError(f"no rule is of {_wanted(args)}; see: slurm-triage rules list")
    if args.json:
        _print_json([*map(_as_json, rules), *map(_as_json, dialects)])
        return 0
    columns = parse_fields(args.format or LIST_DEFAULT, _COLUMNS)
    rows = [_row(rule) for rule in rules] + [_dialect_row(dialect) for dialect in dialects]
    cells = [[row[column.name.lower()] for column in columns] for row in rows]
    print_table(columns, cells, Style(parsable=args.parsable2, header=not args.noheader))
    return 0


def _wanted(args: argparse.Namespace) -> str:
    return " and ".join(f"{k} '{v}'" for k, v in (("class", args.cls), ("pack", args.pack)) if v is not None)


def _row(rule: Rule) -> dict[str, str]:
    return {
        "id": rule.id,
        "class": rule.cls,
        "role": rule.role,
        "priority": str(rule.priority),
        "domain": rule.domain,
        "stage": rule.stage or "",
        "retry": rule.retry or "",
        "pack": rule.pack,
        "fact": rule.fact or "",
        "title": rule.title,
        "patterns": "  ".join(rule.patterns),
    }


def _dialect_row(dialect: StepDialect) -> dict[str, str]:
    row = dict.fromkeys(LIST_FIELDS, "")
    row |= {"id": dialect.id, "class": DIALECT_CLASS, "pack": dialect.pack, "patterns": dialect.pattern}
    return row | {"title": f"step line, {dialect.unit}"}


def _show(args: argparse.Namespace) -> int:
    ruleset = load_rules(samples=True)
    everything: list[Rule | StepDialect | FailureClass] = [*ruleset.rules, *ruleset.dialects, *ruleset.classes]
    entries = [entry for entry in everything if entry.id == args.id]
    if not entries:
        raise NotFoundError(f"no rule, step dialect or class is called '{args.id}'; see: slurm-triage rules list")
    if args.json:
        _print_json([_as_json(entry) for entry in entries] if len(entries) > 1 else _as_json(entries[0]))
        return 0
    for number, entry in enumerate(entries):
        print("\n" * (number > 0) + bold(entry.id, sys.stdout))
        for key, value in _as_json(entry).items():
            if key != "id" and value not in (None, [], "", False):
                _print_field(key, value)
        if isinstance(entry, FailureClass):
            _print_field("rules", [r.id for r in ruleset.rules if r.cls == entry.id])
    return 0


def _print_field(key: str, value: object) -> None:
    values = value if isinstance(value, list) else [value]
    for number, item in enumerate(values):
        lines = str(item).split("\n")
        print(f"  {key if number == 0 else '':14} {printable(lines[0])}")
        for line in lines[1:]:
            print(f"  {'':14} {dim('|', sys.stdout)} {printable(line)}")


def _as_json(entry: Rule | StepDialect | FailureClass) -> dict[str, Any]:
    table = dataclasses.asdict(entry)
    if "cls" in table:
        table = {"id": table.pop("id"), "class": table.pop("cls"), **table}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _test(args: argparse.Namespace) -> int:
    ruleset = load_rules()
    if args.rule is not None and ruleset.by_id(args.rule) is None:
        raise NotFoundError(f"no rule is called '{args.rule}'; see: slurm-triage rules list")
    matcher = Matcher.load(ruleset)
    counts: Counter[tuple[str, str]] = Counter()
    for name in args.files:
        with _opened(name) as file:
            for match in _wanted_matches(args, explain_stream(file, ruleset, matcher)):
                counts[(match.rule.id, match.rule.cls)] += 1
                if not args.count:
                    _print_match(name, match, args)
    if args.count:
        rows = [{"lines": str(n), "id": rule, "class": cls} for (rule, cls), n in counts.most_common()]
        if args.json:
            _print_json([{**row, "lines": int(row["lines"])} for row in rows])
        else:
            columns = [Column("Lines"), Column("Id"), Column("Class")]
            print_table(columns, [list(row.values()) for row in rows], Style())
    return 0


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    if Path(name).is_file():
        # Compressed logs and those inside records are read as a triage reads them.
        with open_source(os.path.realpath(name)) as source:
            yield cast("BinaryIO", _Lines(source))
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 (closed below; only opening it may fail as "cannot read")
    except OSError as error:
        raise NotFoundError(f"cannot read {name}: {error.strerror}") from error
    with file:
        yield file


class _Lines:
    """What a triage reads of a log, as a file."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self._source.readinto(memoryview(buffer))])


def _wanted_matches(args: argparse.Namespace, matches: Iterable[LineMatch]) -> Iterator[LineMatch]:
    for match in matches:
        rule = match.rule
        if args.rule not in (None, rule.id) or args.cls not in (None, rule.cls):
            continue
        if rule.cls == FACT and not (args.facts or args.rule or args.cls):
            continue
        if match.rejected is None or args.rejected:
            yield match


def _print_match(name: str, match: LineMatch, args: argparse.Namespace) -> None:
    if args.json:
        print(
            json.dumps(
                {
                    "file": name,
                    "line": match.line,
                    "offset": match.offset,
                    "rule": match.rule.id,
                    "class": match.rule.cls,
                    "rejected": match.rejected,
                    "captures": dict(match.captures),
                    "text": match.body,
                },
                ensure_ascii=False,
            )
        )
        return
    where = dim(f"{printable(name)}:{match.line}:", sys.stdout)
    captures = " ".join(f"{key}={value}" for key, value in match.captures.items())
    why = f" not: {match.rejected}" if match.rejected else ""
    about = bold(f"{match.rule.id} ({match.rule.cls})", sys.stdout)
    print(f"{where} {about}{why} {printable(match.body[:400])}" + (f" [{printable(captures)}]" if captures else ""))


def _lint(args: argparse.Namespace) -> int:
    from slurm_triage.rules.lint import lint

    problems = lint(args.paths)
    for problem in problems:
        print(problem)
    if not problems:
        print("no problems", file=sys.stderr)
    return 1 if problems else 0


def _backtest(args: argparse.Namespace) -> int:
    judged = changed = unread = 0
    for result in _comparisons(args):
        if result.problem is not None:
            unread += 1
            print(f"slurm-triage: {printable(result.problem)}", file=sys.stderr)
            continue
        judged += 1
        changed += result.changed
        if args.json:
            print(json.dumps(_comparison_json(result), ensure_ascii=False))
        elif result.changed or result.gained or result.lost:
            _print_comparison(result)
    if not args.json:
        print(
            f"{judged} logs judged, {changed} verdicts change"
            + (f", {unread} could not be read" if unread and args.ledger is not None else "")
        )
    return PartialResultError.exit_status if unread else 0


def _comparisons(args: argparse.Namespace) -> Iterator[Comparison]:
    from slurm_triage.backtest import compare, compare_past
    from slurm_triage.pipeline import Engine

    if bool(args.paths) == (args.ledger is not None):
        raise UsageError("name either logs or --ledger: slurm-triage rules backtest PATH..., or --ledger [DIR]")
    if args.since is not None and args.ledger is None:
        raise UsageError("--since chooses jobs of the ledger; add --ledger")
    before: RuleSet | None = None
    if args.rules is not None:
        if not args.rules.is_dir():
            raise NotFoundError(f"{args.rules} is not a directory of rule packs")
        before, after = load_rules(), load_rules(site_dirs=[*overlay_dirs(), args.rules])
    else:
        after = load_rules()
    if args.ledger is not None:
        records = _past_records(args)
        return compare_past(records, None if before is None else Engine.load(before), Engine.load(after))
    return compare(args.paths, Engine.load(before or load_rules(site_dirs=[])), Engine.load(after))


def _past_records(args: argparse.Namespace) -> Iterator[LedgerRecord]:
    from slurm_triage.cli.source import roots
    from slurm_triage.ledger.query import Filter, select
    from slurm_triage.ledger.when import parse_when

    chosen = argparse.Namespace(ledger=Path(args.ledger) if args.ledger else None, clusters="")
    return select(roots(chosen), Filter(since=parse_when(args.since or _SINCE, time.time())))


def _print_comparison(result: Comparison) -> None:
    rules = " ".join([*(f"+{r}" for r in sorted(result.gained)), *(f"-{r}" for r in sorted(result.lost))])
    head = f"{printable(result.target)}: "
    if result.changed:
        print(head + bold(f"{result.before} -> {result.after}", sys.stdout) + (f" [{rules}]" if rules else ""))
        if result.before and result.after and result.before.title != result.after.title:
            print(dim(f"    {result.before.title or 'healthy'} -> {result.after.title or 'healthy'}", sys.stdout))
    else:
        print(head + dim(f"{result.after}, as before [{rules}]", sys.stdout))


def _comparison_json(result: Comparison) -> dict[str, Any]:
    def verdict(value: Verdict | None) -> dict[str, Any] | None:
        return None if value is None else {"status": value.status, "class": value.cls, "title": value.title}

    return {
        "log": result.target,
        "changed": result.changed,
        "before": verdict(result.before),
        "after": verdict(result.after),
        "rules_gained": sorted(result.gained),
        "rules_lost": sorted(result.lost),
    }
