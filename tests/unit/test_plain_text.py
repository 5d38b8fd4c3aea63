"""Texts from outside: what acts on a terminal, hides or reorders is written out, everything else stays (S28)."""

import json
import random
import unicodedata

import pytest

from duenotice.escape import each_in_one_line, lines, one_line
from tests.support.seed import SEED

HARMLESS = (
    "",
    "web-0",
    "Grüße, 你好, Привет, नमस्ते",
    "10\u00a0000 \u202f €",
    "⚠\ufe0f reboot 🎉",
    "back\\slash [bold]",
    "é e\u0301",
)
ESCAPED = {
    "\x1b[31m": "\\u001b[31m",
    "a\rb\nc\td": "a\\rb\\nc\\td",
    "\x00\x07\x08\x7f": "\\u0000\\u0007\\u0008\\u007f",
    "\x85\x9b": "\\u0085\\u009b",
    "\u202eexe.txt\u202c": "\\u202eexe.txt\\u202c",
    "\u2066\u2067\u2068\u2069": "\\u2066\\u2067\\u2068\\u2069",
    "\u200e\u200f\u061c": "\\u200e\\u200f\\u061c",
    "\u2028\u2029": "\\u2028\\u2029",
    "ad\u200bmin\u2060\ufeff": "ad\\u200bmin\\u2060\\ufeff",
    "soft\u00adhyphen": "soft\\u00adhyphen",
    "\u3164\u115f\u034f": "\\u3164\\u115f\\u034f",
    "\U000e0041\U000e0100": "\\udb40\\udc41\\udb40\\udd00",
    "\ud800 \udfff": "\\ud800 \\udfff",
    "\ufffe\ue000": "\\ufffe\\ue000",
}
FORBIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert (one_line(text), lines(text)) == (text, text)


@pytest.mark.parametrize("text", ESCAPED)
def test_what_acts_hides_or_reorders_is_written_out(text: str) -> None:
    assert one_line(text) == ESCAPED[text]


def test_line_ends_and_tabs_stay_where_there_are_lines() -> None:
    assert lines("a\n\tb\r\x1b") == "a\n\tb\\r\\u001b"


def test_no_character_at_all_gets_through_that_cannot_be_seen() -> None:
    """Of the planes where letters are, and of the one with tags; the rest is like them."""
    shown = one_line("".join(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))))
    assert {unicodedata.category(character) for character in shown}.isdisjoint(FORBIDDEN)
    assert one_line(shown) == shown


def test_a_json_text_means_the_same_afterwards() -> None:
    """Also one of characters that JSON writes as two."""
    chance = random.Random(SEED)
    for _ in range(200):
        text = "".join(chr(chance.choice((chance.randrange(0x300), chance.randrange(0x110000)))) for _ in range(50))
        value = {text: [text, {"a": text}]}
        for indent in (None, 2):
            assert json.loads(lines(json.dumps(value, ensure_ascii=False, indent=indent))) == json.loads(
                json.dumps(value)
            )


def test_every_text_in_a_thing_is_one_line() -> None:
    thing = {"a\n": ["\x1b", ("\u202e", 1)], "b": None}
    assert each_in_one_line(thing) == {"a\\n": ["\\u001b", ["\\u202e", 1]], "b": None}
