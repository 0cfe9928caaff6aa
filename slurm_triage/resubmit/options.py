"""sbatch's options taken apart the way getopt does it: which word is an option, and which is the value of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Long options that take no value, or one after "=" only (manual pages of sbatch 22.05 and 25.11).
_FLAGS = frozenset({
    "consolidate-segments", "contiguous", "exclusive", "get-user-env", "help", "hold", "ignore-pbs", "nice", "no-kill",
    "no-requeue", "oom-kill-step", "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue",
    "resv-ports", "share", "spread-job", "spread-segments", "stepmgr", "test-only", "usage", "use-min-nodes", "verbose",
    "version", "wait",
})  # fmt: skip
#: Letters of options that take a value, in the same word or the next.
_VALUE_LETTERS = frozenset("aAbBcCdDeFGiJLmMnNopqStwx")
#: The options that are replaced, by their shortest form that getopt still takes for them.
_SHORTEST = {"exclud": "exclude", "nodel": "nodelist", "nodes": "nodes", "ar": "array", "wr": "wrap"}
_LETTERS = {"x": "exclude", "w": "nodelist", "N": "nodes", "a": "array"}
#: Between the components of a heterogeneous job.
COMPONENT = ":"


@dataclass(frozen=True, slots=True)
class Option:
    """``name``: long where this module knows it, else as it was given. ``words``: as they stood in the command."""

    name: str
    value: str | None
    words: tuple[str, ...]


def take_apart(words: Sequence[str]) -> tuple[list[Option], list[str]]:
    """(options of sbatch, the script and its arguments). A lone ``--`` belongs to neither."""
    options: list[Option] = []
    at = 0
    while at < len(words):
        word = words[at]
        following = words[at + 1 : at + 2]
        if word == "--":
            return options, list(words[at + 1 :])
        if word == COMPONENT:
            options.append(Option(COMPONENT, None, (word,)))
        elif word.startswith("--"):
            given, assigned, value = word[2:].partition("=")
            name = _long_name(given)
            if assigned or name in _FLAGS:
                options.append(Option(name, value if assigned else None, (word,)))
            else:
                options.append(Option(name, "".join(following), (word, *following)))
                at += len(following)
        elif word.startswith("-") and len(word) > 1:
            taken, used = _letters(word, following)
            options += taken
            at += used
        else:
            return options, list(words[at:])
        at += 1
    return options, []


def _letters(word: str, following: Sequence[str]) -> tuple[list[Option], int]:
    """Options of one word of letters (``-HN2``), and how many of the next words are values of theirs."""
    options: list[Option] = []
    for at, letter in enumerate(word[1:], 1):
        if letter not in _VALUE_LETTERS:
            options.append(Option(letter, None, (f"-{letter}",)))
            continue
        rest = word[at + 1 :]
        name = _LETTERS.get(letter, letter)
        if rest:
            return [*options, Option(name, rest, (f"-{letter}{rest}",))], 0
        return [*options, Option(name, "".join(following), (f"-{letter}", *following))], len(following)
    return options, 0


def _long_name(given: str) -> str:
    """getopt takes a name for whole when it fits only one option."""
    for shortest, name in _SHORTEST.items():
        if given.startswith(shortest) and name.startswith(given):
            return name
    return given


def components(options: Iterable[Option]) -> list[list[Option]]:
    """Of each component of a heterogeneous job; one list for any other."""
    found: list[list[Option]] = [[]]
    for option in options:
        if option.name == COMPONENT:
            found.append([])
        else:
            found[-1].append(option)
    return found


def words_of(options: Iterable[Option]) -> list[str]:
    return [word for option in options for word in option.words]
