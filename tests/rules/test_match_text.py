"""Explaining lines and files: who matches, who is turned away and why, at any size."""

from __future__ import annotations

import io
import tracemalloc

import pytest

from slurm_triage.model.rule import Rule, RuleSet
from slurm_triage.rules import match_text
from slurm_triage.rules.match_text import explain_line, explain_stream, explain_text
from slurm_triage.rules.matcher import Matcher

RULES = RuleSet(
    (
        Rule("killed", "signal-kill", "Killed", ("Killed",), verify=("^Killed$",)),
        Rule(
            id="oom",
            cls="oom-gpu",
            title="OOM",
            patterns=("out of memory", "OUT_OF_MEMORY"),
            unless=("disk",),
            priority=2,
            extract=(r"(?P<bytes>\d+) bytes",),
        ),
        Rule("list", "heartbeat-timeout", "List", ("unhealthy",), block_lines=2, extract=(r"task:(?P<ranks>\d+)",)),
        Rule("setting", "fact", "Setting", ("NCCL_DEBUG=",), fact="env", on_echo=True),
        Rule("memory", "harmless", "Memory", ("memory",)),
    ),
    (),
    (),
    "",
)


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher.compile(RULES)


def names(text: str, matcher: Matcher) -> list[tuple[str, str | None]]:
    return [(m.rule.id, m.rejected) for m in explain_line(text, RULES, matcher)]


def test_accepted_first_then_by_priority(matcher: Matcher) -> None:
    assert names("out of memory: 77 bytes", matcher) == [("oom", None), ("memory", None)]
    assert names("out of memory on disk", matcher) == [("memory", None), ("oom", "unless disk")]
    assert explain_line("out of memory: 77 bytes", RULES, matcher)[0].captures == {"bytes": "77"}
    assert names("all is well", matcher) == []


def test_labels_and_colours_are_taken_off(matcher: Matcher) -> None:
    assert names("12: \x1b[36m(Actor pid=7)\x1b[0m Killed", matcher) == [("killed", None)]
    assert names("task 0: Killed", matcher) == [("killed", "no verify expression matches: ^Killed$")]


def test_echoes_count_only_where_wanted(matcher: Matcher) -> None:
    echo = "the line repeats a setting, an argument or a command"
    assert names("NCCL_DEBUG=out of memory", matcher) == [("setting", None), ("oom", echo), ("memory", echo)]
    assert names("0: + echo Killed", matcher) == [("killed", echo)]


def test_parts_of_a_progress_bar_are_judged_by_themselves(matcher: Matcher) -> None:
    assert names("10%|#   |\rKilled\r20%|##  |", matcher) == [("killed", None)]


def test_only_the_first_line_is_explained_the_rest_is_its_block(matcher: Matcher) -> None:
    text = "0: unhealthy tasks:\n1: task:9\n0: task:3\n0: task:4\n0: task:5\nKilled"
    (match,) = explain_line(text, RULES, matcher)
    assert match.captures == {"ranks": "3,4"}


def test_lines_and_offsets(matcher: Matcher) -> None:
    text = b"first\n0: Killed\n\nout of memory, really out of memory\nKilled"
    found = [(m.line, m.offset, m.rule.id) for m in explain_text(text, RULES, matcher)]
    assert found == [(2, 6, "killed"), (4, 17, "oom"), (4, 17, "memory"), (5, 53, "killed")]


@pytest.mark.parametrize("window", [64, 100, 1000])
def test_a_stream_says_the_same_as_the_whole_text(matcher: Matcher, window: int, monkeypatch) -> None:
    """Windows cut anywhere: no match is lost, doubled, or misses its block."""
    lines = [
        line
        for i in range(200)
        for line in (
            f"{i % 4}: step {i}",
            "1: unhealthy tasks:",
            f"1: task:{i}",
            f"1: task:{i + 1}",
            "Killed",
            "x" * (i % 50),
        )
    ]
    text = "\n".join(lines).encode()
    whole = list(explain_text(text, RULES, matcher))
    assert len(whole) == 400
    monkeypatch.setattr(match_text, "WINDOW_BYTES", window)
    monkeypatch.setattr(match_text, "LOOKAHEAD_BYTES", 60)
    assert list(explain_stream(io.BytesIO(text), RULES, matcher)) == whole


def test_a_stream_needs_little_memory(matcher: Matcher, monkeypatch) -> None:
    class Endless(io.RawIOBase):
        left = 40 << 20

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return b"y" * size

    monkeypatch.setattr(match_text, "WINDOW_BYTES", 1 << 20)
    tracemalloc.start()
    assert list(explain_stream(Endless(), RULES, matcher)) == []  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
