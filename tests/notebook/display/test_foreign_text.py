"""Text of the service or of files in outputs has no terminal commands, reordering or formulas."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odps_nb
from odps_nb import errors, html
from odps_nb.client.calls.progress import Phase, ProgressSnapshot
from odps_nb.errors import InvalidRequestError, OdpsNbError, explain, visible
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.gallery.page import GalleryPage
from odps_nb.notebook.magics.context import Context
from odps_nb.notebook.preview.tile import mimebundle
from odps_nb.notebook.progress.cards import CardListener, card_text
from odps_nb.notebook.progress.line import _what
from odps_nb.notebook.progress.operations import Options
from tests.support.previews import Value

FORMULA = r"$\href{https://example.org}{N}$"
UNSEEN = [
    *(chr(n) for n in (*range(9), 11, 12, 13, *range(14, 32), *range(127, 160))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ud800",
]
# printable characters without a shape of their own
BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
IMAGE = "![](https://example.org)"
HOSTILE = f"a\x1b]0;x\x07b\u202egpj\u2066.exe\x9b31m\r{FORMULA}\n\n{IMAGE}\r\n \t\r\n\n{IMAGE}"
KINDS = sorted(
    (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)),
    key=lambda kind: kind.__name__,
)
KINDS = [kind for kind in KINDS if issubclass(kind, OdpsNbError)]


def is_clean(text: str) -> bool:
    signs = set(text.replace("\r\n", "\n"))
    return not set(UNSEEN) & signs and not any("\ud800" <= sign <= "\udfff" for sign in signs)


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
def test_each_character_that_hides_or_reorders_text_is_escaped(sign: str) -> None:
    shown = visible(f"a{sign}b")
    assert is_clean(shown)
    assert ast.literal_eval(f'"{shown}"') == f"a{sign}b"


@given(st.text(st.characters() | st.sampled_from(UNSEEN)))
def test_other_characters_stay_and_no_character_is_escaped_twice(text: str) -> None:
    shown = visible(text)
    assert is_clean(shown)
    assert visible(shown) == shown
    if re.sub(r"\r?\n|\t", "", text).isprintable() and not BLANK.search(text):
        assert shown == text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_contain_no_terminal_commands(kind: type[Exception]) -> None:
    facts = dict.fromkeys(kind.fact_names, HOSTILE)
    try:
        raise kind(HOSTILE, **facts)
    except kind as caught:
        error = caught
    error.add_note(HOSTILE)
    for one in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        said = [str(one), repr(one), *explain(one), *traceback.format_exception(one)]
        assert all(map(is_clean, said))
        assert (str(one), one.hint, one.notes) == (visible(HOSTILE), visible(HOSTILE), error.notes)
    assert "gpj" in str(error)


def test_a_detail_set_later_is_shown_escaped() -> None:
    error = InvalidRequestError("x")
    error.code = HOSTILE
    assert all(map(is_clean, explain(error)))


def bundles(shown: list, shell) -> list[dict[str, str]]:
    snapshot = ProgressSnapshot(
        operation="read", title=HOSTILE, phase=Phase.FAILED, message=HOSTILE, session_id=HOSTILE
    )
    card = CardListener(options=Options(progress="html"), delay=0)
    card._draw(snapshot)
    Context.show_note(HOSTILE)
    Context.show_text(HOSTILE)
    listing = Listing(headers=(HOSTILE,), rows=((HOSTILE,),), caption=HOSTILE)
    empty = Listing(headers=(HOSTILE,), rows=(), caption=HOSTILE, empty=HOSTILE)
    assert is_clean(_what(snapshot))
    assert is_clean(visible(card_text(snapshot)))
    return [
        *(output["data"] for output in shown),
        listing._repr_mimebundle_(),
        empty._repr_mimebundle_(),
        mimebundle(Value(f"{FORMULA}\n\n{IMAGE}".encode(), "text/plain", HOSTILE)),
    ]


def test_every_output_is_protected_from_mathjax_markdown_and_terminals(shell, shown) -> None:
    made = bundles(shown, shell)
    assert len(made) >= 6
    for bundle in made:
        assert all(map(is_clean, bundle.values()))
        if "text/html" in bundle:
            assert bundle["text/html"].startswith('<div class="mathjax_ignore tex2jax_ignore">')
            assert bundle["text/html"].endswith("</div>")
            assert "" not in map(str.strip, bundle["text/html"].splitlines())
    assert any(IMAGE in bundle.get("text/html", "") for bundle in made)
    assert any(FORMULA in bundle.get("text/html", "") for bundle in made)


def test_only_one_function_creates_html_outputs() -> None:
    """MathJax would typeset the text of any other output."""
    assert GalleryPage.bundle
    for path in Path(odps_nb.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "text/html" not in text or path.as_posix().endswith("odps_nb/html.py"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                assert "text/html" not in keys, path
    assert html.bundle("<b>", "\x1b") == {
        "text/html": '<div class="mathjax_ignore tex2jax_ignore"><b></div>',
        "text/plain": r"\x1b",
    }


def test_a_table_comment_contains_no_terminal_commands(odps, new_name) -> None:
    name = new_name("comment")
    odps.sql(f"create table {name} (id bigint comment 'a\u202eb') comment 'x\u2066{FORMULA}'")
    table = odps.table(name)
    bundle = table._repr_mimebundle_()
    assert is_clean(repr(table))
    assert r"x\u2066" in bundle["text/plain"]
    assert all(map(is_clean, bundle.values()))
    assert "mathjax_ignore" in bundle["text/html"]
