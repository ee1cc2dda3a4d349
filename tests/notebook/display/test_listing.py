from __future__ import annotations

import pytest

from odps_nb.errors import PositionError
from odps_nb.notebook.display.listing import MAX_ROWS, Listing

MARKUP = "<script>alert(1)</script>&\"'"


def test_a_listing_escapes_all_texts():
    page = Listing(headers=(MARKUP,), rows=((MARKUP,),), caption=MARKUP, empty=MARKUP).html()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3
    assert "<script" not in Listing(headers=(), rows=(), empty=MARKUP).html()


def test_the_columns_of_a_listing_in_plain_text_are_aligned():
    listing = Listing(headers=("name", "type"), rows=(("id", "bigint"), ("a_long_name", None)))
    assert listing.text() == "name         type\nid           bigint\na_long_name"
    assert repr(listing) == listing.text()


def test_control_characters_do_not_reach_a_terminal():
    text = Listing(headers=("n",), rows=(("a\x1b[2Jb\nc",),)).text()
    assert text == "n\na [2Jb c"


def test_a_long_cell_and_a_long_list_are_truncated():
    listing = Listing(headers=("n",), rows=(("x" * 10_000,),) * (MAX_ROWS + 5))
    assert "… and 5 more" in listing.text()
    assert "… and 5 more" in listing.html()
    assert max(len(line) for line in listing.text().splitlines()) <= 300


def test_an_empty_listing_shows_a_text():
    empty = Listing(headers=("n",), rows=(), empty="no table name matches x*")
    assert empty.text() == "no table name matches x*"
    assert "no table name matches x*" in empty.html()


def test_a_listing_is_a_sequence_of_rows():
    listing = Listing(headers=("a", "b"), rows=((1, 2), (3, 4)))
    assert len(listing) == 2
    assert list(listing) == [(1, 2), (3, 4)]
    assert listing[1] == (3, 4)


def test_a_listing_is_displayed_as_html_and_text():
    bundle = Listing(headers=("a",), rows=((1,),))._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/html", "text/plain"}


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (("1", "1,234", "404.4 MB"), True),
        (("1", "", "3"), True),
        (("1", "unknown until read (filtered)"), False),
        (("", ""), False),
    ],
)
def test_the_header_and_all_cells_of_a_column_have_the_same_alignment(cells, right):
    page = Listing(headers=("n",), rows=tuple((cell,) for cell in cells)).html()
    assert page.count("text-align:right") == (len(cells) + 1 if right else 0)


def test_a_missing_row_raises_a_typed_index_error():
    with pytest.raises(PositionError, match="there is no row 0: the sequence has no rows"):
        Listing(headers=("a",), rows=())[0]
    with pytest.raises(IndexError) as caught:
        Listing(headers=("a",), rows=((1,), (2,)))[2]
    assert caught.value.hint == "pass a position from 0 to 1"


def test_a_listing_needs_no_style_sheet():
    html = Listing(headers=("a",), rows=((1,),)).html()
    assert html.count("padding:") == 2
    assert "border-collapse:collapse" in html
