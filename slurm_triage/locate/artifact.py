"""The copy of the launcher that a job ran from, and the submit command that is recorded in it."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.locate.trust import is_directory, own_link, read_beneath

#: The longest command line that Linux accepts for one argument is 128 KiB; the recorded line quotes it.
_SUBMIT_CMD_BYTES = 256 << 10

_STORE = ".artifacts"
_SUBMIT_CMD = "submit_cmd.txt"


def find_artifact(job_dir: Path, outputs: Path) -> tuple[Path | None, str | None]:
    """(artifact directory, content of its ``submit_cmd.txt``) of a job directory.

    ``artifact`` is a link ``../.artifacts/<artifact>[/<subdir>]``; only its part below ``.artifacts`` counts, and that
    is looked up in this outputs directory, so a link cannot lead out of it. A copied job directory may hold the
    artifact itself.
    """
    link = job_dir / "artifact"
    if is_directory(link):
        return link, _submit_cmd(link, ())
    try:
        parts = link.readlink().parts
    except OSError:
        return None, None
    if _STORE in parts:
        inside = parts[parts.index(_STORE) + 1 :]
        store = outputs / _STORE
        if inside and ".." not in inside and _reachable(store, inside):
            return store.joinpath(*inside), _submit_cmd(store, inside)
    target = own_link(link)
    return (target, _submit_cmd(target, ())) if target is not None and is_directory(target) else (None, None)


def _reachable(store: Path, inside: tuple[str, ...]) -> bool:
    return is_directory(store) and all(is_directory(store.joinpath(*inside[: n + 1])) for n in range(len(inside)))


def _submit_cmd(top: Path, inside: tuple[str, ...]) -> str | None:
    """The command is recorded at the top of the artifact, also when the link leads to a subdirectory."""
    for depth in range(len(inside), min(len(inside), 1) - 1, -1):
        content = read_beneath(top, (*inside[:depth], _SUBMIT_CMD), _SUBMIT_CMD_BYTES)
        if content is not None:
            return content.decode("utf-8", errors="replace").strip("\n") or None
    return None
