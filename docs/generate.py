"""Writes what the documentation takes from the program itself: docs/classes.md, and every sample of output.

    python docs/generate.py           rewrite
    python docs/generate.py --check   say what is out of date, and exit with 1

A sample stands between two comments; the command is run in the project's directory, 100 columns wide:

    <!-- output of: slurm-triage log tests/corpus/... -->
    ...
    <!-- end of output -->
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_triage.model.diagnosis import Diagnosis, Primary, Resubmit  # noqa: E402
from slurm_triage.model.facts import NO_FACTS  # noqa: E402
from slurm_triage.model.files import JobFiles  # noqa: E402
from slurm_triage.model.job import NO_JOB  # noqa: E402
from slurm_triage.model.progress import Cost, Progress, Throughput  # noqa: E402
from slurm_triage.model.report import Dashboards, Report  # noqa: E402
from slurm_triage.model.rule import FailureClass, RuleSet  # noqa: E402
from slurm_triage.report.next_steps import render_next_steps  # noqa: E402
from slurm_triage.rules.load import load_rules  # noqa: E402

CLASSES = ROOT / "docs" / "classes.md"
_SAMPLE = re.compile(r"(<!-- output of: (?P<command>[^\n]+?) -->\n).*?(<!-- end of output -->)", re.DOTALL)

_RETRY = {
    "same-nodes": "run it again, on the same nodes first",
    "other-nodes": "run it again, on other nodes",
    "after-fix": "fix the cause first",
    "pointless": "running it again does not help",
    "not-needed": "no need to run it again",
}
_KIND = {
    "specific": "names what broke",
    "generic": "says how a process ended; anything specific on the same rank explains it",
    "outcome": "says only that something ended badly; everything else explains it",
}
_INTRO = """# Classes

A class says what broke, not which text was seen. Each report has at most one primary class, the cause; whatever \
else was found is listed with its part in the story (how that is decided: \
[how-it-decides.md](how-it-decides.md)). This page is made from `slurm_triage/rules/packs/classes.toml` by \
`docs/generate.py`; `slurm-triage rules list --class CLASS` lists the rules that recognise one of them.

The steps under "What helps" are shown here without values; a report fills in nodes, ranks, limits and commands \
of its job.
"""


def classes_page(ruleset: RuleSet) -> str:
    """docs/classes.md: a table of all classes, then one section each."""
    parts = [_INTRO, "| class | what | where the fault lies | retry |", "|---|---|---|---|"]
    parts += [f"| [`{c.id}`](#{c.id}) | {_cell(c.title)} | {c.domain} | {_RETRY[c.retry]} |" for c in ruleset.classes]
    parts += [_section(c) for c in ruleset.classes]
    return "\n".join(parts) + "\n"


def _section(cls: FailureClass) -> str:
    lines = [
        f"\n## {cls.id}",
        f"\n**{cls.title}.** {cls.means}",
        f"\n* **Recognised by:** {cls.recognised}",
        f"* **Confused with:** {cls.confused_with}",
        f"* **Fault domain:** {cls.domain}. **Retry:** {_RETRY[cls.retry]}. **Kind:** {cls.kind} ({_KIND[cls.kind]}).",
    ]
    lines.append("\nWhat helps:\n")
    lines += [f"{n}. {step}" for n, step in enumerate(render_next_steps(cls, _blank(cls)), 1)]
    return "\n".join(lines)


def _blank(cls: FailureClass) -> dict[str, Any]:
    """A report that knows nothing but the class: templates leave out what they have no value for."""
    primary = Primary(cls.id, cls.title, None, cls.domain, None, (), None, None, "high", cls.retry)
    resubmit = Resubmit("none", "")
    diagnosis = Diagnosis("failed", primary, (), (), (), (), (), resubmit, (), "", (), ())
    report = Report(
        "", "", 0.0, NO_JOB, "other", False, 1, (), None, JobFiles(), NO_FACTS, diagnosis, (),
        Progress(), Throughput(), Cost(), Dashboards(),
    )  # fmt: skip
    known = {"job": NO_JOB, "p": report.progress, "primary": primary, "d": diagnosis, "report": report}
    return {**known, "config": {}, "env": {}, "maxtext": True, "capture": {}}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def with_samples(text: str) -> str:
    """The page with every sample as the program prints it now."""
    return _SAMPLE.sub(lambda m: f"{m[1]}```\n{output_of(m['command'])}```\n{m[3]}", text)


def output_of(command: str) -> str:
    """What a documented command prints, without colours. Raises CalledProcessError if it fails."""
    words = shlex.split(command)
    if words[0] != "slurm-triage":
        raise ValueError(f"a sample's command starts with slurm-triage, not {words[0]!r}")
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TZ": "UTC", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "slurm_triage", *words[1:]]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return "".join(line.rstrip() + "\n" for line in done.stdout.replace(f"{ROOT}/", "").splitlines())


def pages() -> dict[Path, str]:
    """Every generated page, or page with samples, as it should be."""
    wanted = {CLASSES: classes_page(load_rules(site_dirs=[]))}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if path != CLASSES and path.exists() and _SAMPLE.search(path.read_text()):
            wanted[path] = with_samples(path.read_text())
    return wanted


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is out of date: run python docs/generate.py' if check else 'written'}")
        if not check:
            path.write_text(pages()[path])
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
