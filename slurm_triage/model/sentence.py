"""Clauses as sentences, where the first word may be a name that is written as it is."""

from __future__ import annotations

#: Programs that are written in small letters also where a sentence begins.
_PROGRAMS = frozenset(
    {"sbatch", "scancel", "slurmctld", "slurmd", "slurmstepd", "srun", "torchrun", "mpirun", "mpiexec", "prterun"}
)


def capitalised(clause: str) -> str:
    """With a capital first letter, unless the first word is a name: ``numpy.linalg.LinAlgError``, ``exit_code``."""
    word = clause.split(maxsplit=1)[0].rstrip(",.:;") if clause.strip() else ""
    return clause[:1].upper() + clause[1:] if word.replace("-", "").isalpha() and word not in _PROGRAMS else clause


def sentence(clause: str) -> str:
    """``clause`` with a capital first letter and a full stop."""
    return f"{capitalised(clause).removesuffix('.')}." if clause else ""


def located(title: str, place: str) -> str:
    """``title (place)``. A parenthesis at the end of the title takes the place in."""
    if not place:
        return title
    closed = title.endswith(")") and title.count("(") == title.count(")")
    return f"{title[:-1]}, {place})" if closed else f"{title} ({place})"
