"""The documentation is true: commands work, links resolve, named files exist, samples are what the program prints."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from slurm_triage.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*$|\.\.\.|…|^<")
#: A Python module or script named in a table: ``diagnosis/stall.py``.
_NAMED_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+|[\w-]+\.(?:py|toml|sh|md))`")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_and_samples_are_up_to_date() -> None:
    pages = generator().pages()
    assert ROOT / "README.md" in pages, "the README has no sample of a report"
    stale = [name(path) for path, text in pages.items() if not path.exists() or path.read_text() != text]
    assert not stale, "run python docs/generate.py"


def commands() -> Iterator[tuple[str, str]]:
    """(page, command line) of every ``sh`` and ``console`` block; continued lines are joined, comments stay."""
    for page in PAGES:
        for language, body in _FENCE.findall(page.read_text()):
            if language not in {"sh", "console"}:
                continue
            for line in body.replace("\\\n", " ").splitlines():
                if language == "console" and not line.startswith(("$ ", "# ")):
                    continue
                yield name(page), line.removeprefix("$ ").removeprefix("# ") if language == "console" else line


def parts(line: str) -> Iterator[list[str]]:
    """The simple commands of a line: split at ``|``, ``&&``, ``;``, without redirections, assignments and sudo."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    redirected = False
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;"):
            while words and (words[0] == "sudo" or re.match(r"^\w+=", words[0])):
                words.pop(0)
            if words:
                yield words
            words = []
        elif set(word) <= set("<>"):
            redirected = True
        elif redirected:
            redirected = False
        else:
            words.append(word)


OWN = [(page, words) for page, line in commands() for words in parts(line) if Path(words[0]).name == "slurm-triage"]
OTHERS = [(page, words) for page, line in commands() for words in parts(line) if Path(words[0]).name != "slurm-triage"]


def parsed(words: list[str]) -> None:
    """What the entry point does with these arguments, up to running the command. SystemExit: it refuses them."""
    args = list(words[1:])
    if args in (["--version"], ["--help"]):
        return
    if args[0] not in COMMANDS:
        assert not args[0].startswith("-"), f"{args[0]} is no command"
        args.insert(0, "show")
    module = importlib.import_module(COMMANDS[args[0]][0])
    parser = argparse.ArgumentParser(allow_abbrev=False)
    module.add_arguments(parser)
    parser.parse_args(args[1:])


@pytest.mark.parametrize("page,words", OWN, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_own_command_is_accepted(page: str, words: list[str]) -> None:
    try:
        parsed(words)
    except SystemExit:
        pytest.fail(f"{page}: slurm-triage does not accept: {shlex.join(words)}")


@pytest.mark.parametrize("page,words", OWN, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_own_command_on_files_of_the_project_runs(page: str, words: list[str]) -> None:
    """Commands that name logs of the project are run; the others need a job or a cluster."""
    if not any(word.startswith("tests/") for word in words):
        parsed(words)
        return
    done = subprocess.run(
        [sys.executable, "-m", "slurm_triage", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("page,words", OTHERS, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_other_command_names_what_exists(page: str, words: list[str]) -> None:
    """Scripts of the project exist, may be executed, and know the options that the documentation gives them."""
    script = ROOT / words[0]
    if words[0].startswith("./") or script.exists():
        assert script.exists(), f"{page}: {words[0]} does not exist"
        source = script.read_text()
        for option in (word for word in words[1:] if word.startswith("--") and word != "--"):
            assert option.partition("=")[0] in source, f"{page}: {words[0]} has no option {option}"
        if words[0].startswith("./") or "/" in words[0]:
            assert script.stat().st_mode & 0o111, f"{page}: {words[0]} cannot be executed"
    for word in words[1:]:
        if word.startswith(("tests/", "docs/", "hooks/")) and not _PLACEHOLDER.search(word):
            assert (ROOT / word).exists(), f"{page}: {word} does not exist"


def test_the_documentation_has_commands() -> None:
    """The tests above would pass if nothing were found."""
    assert len(OWN) >= 10
    assert len(OTHERS) >= 5


def anchors(page: Path) -> set[str]:
    """As a Markdown viewer makes them from headings."""
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in _HEADING.findall(page.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    text = _FENCE.sub("", page.read_text())
    broken = []
    for target in _LINK.findall(text):
        if re.match(r"^[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def test_architecture_names_files_that_exist() -> None:
    text = _FENCE.sub("", (ROOT / "docs" / "architecture.md").read_text())
    places = (
        ROOT,
        ROOT / "slurm_triage",
        ROOT / "slurm_triage" / "rules",
        ROOT / "slurm_triage" / "rules" / "packs",
        ROOT / "docs",
        ROOT / "tests" / "corpus",
        ROOT / "tests" / "healthy",
    )
    names = [n for n in _NAMED_FILE.findall(text) if "*" not in n]
    assert len(names) > 40
    assert not [n for n in names if not any((place / n).exists() for place in places)]


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [p.name for p in (ROOT / "slurm_triage").iterdir() if (p / "__init__.py").exists()]
    assert not [room for room in rooms if f"`{room}/`" not in text]


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    # `show` is what a bare job id stands for.
    named = {command: "[0-9]+" if command == "show" else command for command in COMMANDS}
    assert not [c for c, word in named.items() if not re.search(rf"slurm-triage {word}\b|`{word}\b", text)]
