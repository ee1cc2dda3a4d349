from __future__ import annotations

from odps_nb.notebook.display.listing import MAX_ROWS, Listing

MARKUP = "<script>alert(1)</script>&\"'"


def test_everything_is_escaped():
    page = Listing(headers=(MARKUP,), rows=((MARKUP,),), caption=MARKUP, empty=MARKUP).html()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3
    assert "<script" not in Listing(headers=(), rows=(), empty=MARKUP).html()


def test_plain_text_is_aligned():
    listing = Listing(headers=("name", "type"), rows=(("id", "bigint"), ("a_long_name", None)))
    assert listing.text() == "name         type\nid           bigint\na_long_name"
    assert repr(listing) == listing.text()


def test_control_characters_do_not_reach_a_terminal():
    text = Listing(headers=("n",), rows=(("a\x1b[2Jb\nc",),)).text()
    assert text == "n\na [2Jb c"


def test_a_long_cell_and_a_long_list_are_cut():
    listing = Listing(headers=("n",), rows=(("x" * 10_000,),) * (MAX_ROWS + 5))
    assert "… and 5 more" in listing.text()
    assert "… and 5 more" in listing.html()
    assert max(len(line) for line in listing.text().splitlines()) <= 300


def test_no_rows_say_so():
    empty = Listing(headers=("n",), rows=(), empty="no table name matches x*")
    assert empty.text() == "no table name matches x*"
    assert "no table name matches x*" in empty.html()


def test_it_is_a_sequence_of_rows():
    listing = Listing(headers=("a", "b"), rows=((1, 2), (3, 4)))
    assert len(listing) == 2
    assert list(listing) == [(1, 2), (3, 4)]
    assert listing[1] == (3, 4)


def test_a_notebook_gets_html_and_text():
    bundle = Listing(headers=("a",), rows=((1,),))._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/html", "text/plain"}
