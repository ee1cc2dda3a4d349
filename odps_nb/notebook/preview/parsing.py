"""Has the bytes of a blob parsed for a preview, in the parser process of this kernel."""

from __future__ import annotations

from dataclasses import asdict

from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.client import Parsed, Parser, at_exit

_parser = at_exit(Parser())


def parse(parser: str, data: bytes, size: Size, **options: str) -> Parsed:
    """Parse ``data`` with one of `parsers`, or of an installed package."""
    return _parser.parse(parser, data, {**options, "size": asdict(size)})
