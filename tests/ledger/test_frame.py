"""The line format: whole lines are found whatever stands around them, damaged ones never pass."""

import google_crc32c
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.ledger.frame import Damage, Frame, encode, frames, parse_at, safe

JSON_VALUES = st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(0, 2**40), max_size=4)


def line(seq: int, payload: object = None) -> bytes:
    return encode("rec", seq, f"alpha/{seq}/s1", 5, orjson.dumps({"n": seq} if payload is None else payload))


def test_a_line_is_json_and_its_checksum_is_crc32c_of_all_bytes_behind_it() -> None:
    written = line(3)
    value = orjson.loads(written)
    assert (value["seq"], value["len"], value["key"], value["rev"], value["rec"]) == (3, 7, "alpha/3/s1", 5, {"n": 3})
    assert value["crc"] == f"{google_crc32c.value(written[17:-1]):08x}"


def test_crc32c_is_the_castagnoli_polynomial() -> None:
    # The check value that RFC 3720 and every CRC catalogue give for the digits 1 to 9.
    assert google_crc32c.value(b"123456789") == 0xE3069283


@given(JSON_VALUES)
def test_round_trip(payload: dict[str, object]) -> None:
    (found,) = frames(line(7, payload))
    assert isinstance(found, Frame)
    assert orjson.loads(found.payload) == payload


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error_and_every_byte_is_accounted_for(data: bytes) -> None:
    at = 0
    for item in frames(data):
        assert item.start == at
        at = item.end + 1 if isinstance(item, Frame) else item.end
        assert isinstance(item, Damage) or data[item.start : item.end].endswith(b"}")
    assert at >= len(data)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
def test_whole_lines_are_found_between_garbage(garbage: list[bytes]) -> None:
    data = b"".join(junk + line(seq) for seq, junk in enumerate(garbage))
    assert [f.seq for f in frames(data) if isinstance(f, Frame)] == list(range(len(garbage)))


@given(st.integers(0, 2**31), st.integers(0, 7))
def test_a_flipped_bit_hurts_one_line_only(position: int, bit: int) -> None:
    lines = [line(seq) for seq in range(5)]
    data = bytearray(b"".join(lines))
    hit = position % len(data)
    data[hit] ^= 1 << bit
    found = list(frames(bytes(data)))
    good = {f.seq for f in found if isinstance(f, Frame)}
    assert len(good) >= 4
    assert good <= set(range(5))
    assert any(isinstance(f, Damage) for f in found)


def test_a_mark_inside_a_string_is_not_taken_for_a_line() -> None:
    payload = {"name": 'x\n{"crc":"00000000","seq":1,"len":1,"key":"","rev":0,"rec":1}'}
    assert [type(f) for f in frames(line(1, payload))] == [Frame]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"len":7', b'"len":6'),
        (b'"seq":3', b'"seq":4'),
        (b'"rec":', b'"rec" :'),
        (b'"rec":', b'"seg":'),
        (b'{"n":3}', b'{"n":4}'),
        (b'"rev":5', b'"rev":05'),
        (b"/s1", b"/s2"),
    ],
)
def test_an_edited_line_is_damage(old: bytes, new: bytes) -> None:
    edited = line(3).replace(old, new)
    assert edited != line(3)
    assert not any(isinstance(f, Frame) for f in frames(edited))


def test_torn_is_only_the_end() -> None:
    data = line(1) + line(2)[:-20]
    *_, last = frames(data)
    assert isinstance(last, Damage)
    assert last.torn
    assert not any(isinstance(f, Damage) and f.torn for f in frames(line(1)[:-20] + b"\n" + line(2)))


def test_a_line_without_its_newline_counts_and_is_called_torn() -> None:
    first, second = frames(line(1)[:-1])
    assert isinstance(first, Frame)
    assert second == Damage(first.end, first.end, torn=True)


def test_parse_at_keeps_to_the_limit() -> None:
    data = line(1)
    assert parse_at(data, 0, len(data) - 2) is None
    assert parse_at(data, 0, len(data) - 1) is not None


@given(st.text(max_size=30))
def test_key_parts_are_plain_ascii_and_distinct(text: str) -> None:
    assert safe(text).isascii()
    assert not set(safe(text)) & set('/"\\\n ')
    assert (safe(text) == safe(text + "/")) is False
