"""Makes the manual page and the shell completions from the program's own parsers.

python share/generate.py          write them
python share/generate.py --check  exit with 1 if they are not what the parsers say
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from commands import commands  # noqa: E402
from completion import bash, zsh  # noqa: E402
from man import man  # noqa: E402


def made() -> dict[Path, str]:
    """Path and content of each file."""
    found = commands()
    return {
        HERE / "man" / "man1" / "slurm-triage.1": man(found),
        HERE / "bash-completion" / "completions" / "slurm-triage": bash(found),
        HERE / "zsh" / "site-functions" / "_slurm-triage": zsh(found),
    }


def stale() -> list[Path]:
    return [path for path, text in made().items() if not path.is_file() or path.read_text() != text]


def main(args: list[str]) -> int:
    if args == ["--check"]:
        for path in stale():
            print(f"{path.relative_to(HERE.parent)} is not in step: run python share/generate.py", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
