"""Source code and Markdown: lines split into tokens, each with its syntactic class.

Runs in the parser process because Pygments may be very slow on some input.
"""

from __future__ import annotations

from typing import Any

from pygments import lex, lexers, token


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the lines of UTF-8 text as ``rows``, in which each token follows its class.

    Classes are ``word``, ``text``, ``number``, ``comment``, ``name``, ``title`` and empty.
    """
    lexer = lexers.get_lexer_by_name(options["language"], stripnl=False, ensurenl=False)
    classes = {
        token.Keyword: "word",
        token.Comment: "comment",
        token.String: "text",
        token.Number: "number",
        token.Name.Function: "name",
        token.Name.Class: "name",
        token.Name.Decorator: "name",
        token.Name.Tag: "word",
        token.Generic.Heading: "title",
        token.Generic.Subheading: "title",
        token.Generic.Strong: "title",
    }
    rows: list[list[str]] = [[]]
    for kind, words in lex(data.decode(), lexer):
        known = next((name for token_type, name in classes.items() if kind in token_type), "")
        for number, part in enumerate(words.split("\n")):
            if number:
                rows.append([])
            if part:
                rows[-1] += [known, part]
    return {"rows": rows}, b""
