"""What may come in and go out: the same on every port (S24, S29)."""

import pytest

from duenotice.bounds import FORM_FIELDS, form_fields
from duenotice.errors import Malformed


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", []),
        (b"a=1&b=&a=2", [("a", "1"), ("b", ""), ("a", "2")]),
        (b"name=x%20y+z%zz", [("name", "x y z%zz")]),
        (b"\xff=%ff", [("\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}")]),
        (b"&".join(b"a=%d" % number for number in range(FORM_FIELDS)), [("a", str(n)) for n in range(FORM_FIELDS)]),
    ],
)
def test_a_form_is_read_whatever_its_bytes_are(body: bytes, fields: list[tuple[str, str]]) -> None:
    """An odd encoding is an odd value, and not an error."""
    assert form_fields(body) == fields


@pytest.mark.parametrize("body", [b"&" * FORM_FIELDS, b"a=1&" * FORM_FIELDS + b"a=1", b"%=%&" * 250_000])
def test_a_form_of_too_many_fields_is_refused_before_they_are_decoded(body: bytes) -> None:
    """S29: also when the fields are empty; the refusal says how many there may be."""
    with pytest.raises(Malformed, match="more than 20 fields"):
        form_fields(body)
