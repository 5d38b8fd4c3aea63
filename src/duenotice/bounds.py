"""Bounds that all ports share: what may come in and go out at the most (S24, S26, S29).

A bound is looked at before the work that it bounds: who asks first, then how large it is, and only then what it says.
"""

from urllib.parse import parse_qsl

from duenotice.errors import Malformed

FORM_FIELDS = 20
"""Fields of a form; the largest of ours has half as many."""

LARGE_BYTES = 64 * 1024
"""What is larger is decoded, encoded and joined off the loop that answers polls."""

PAGE_BYTES = 1024 * 1024
"""A page of a list ends here, or at its number of rows."""


def form_fields(body: bytes, most: int = FORM_FIELDS) -> list[tuple[str, str]]:
    """The fields of a form; its separators are counted before anything is decoded."""
    try:
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise Malformed(f"The form has more than {most} fields.", hint="Send only the fields of this form.") from None
