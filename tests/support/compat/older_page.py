"""Run the "before" blocks of ``docs/coming-from-pyodps.md``, and list the names that the page maps.

A script with the arguments of ``older_jobs.py``, because it needs pyodps 0.13.1. Writes three lines
of JSON: the version, the public names by class, and the results of the blocks.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from tests.support import pages

PAGE = Path(__file__).parents[3] / "docs" / "coming-from-pyodps.md"
PART = "odps.apis.storage_api_v2"


def part(heading: str) -> str:
    """Return the text of the page below a second-level heading."""
    _, _, text = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    assert text, heading
    return text.partition("\n## ")[0]


def blocks(heading: str) -> tuple[list[str], list[str]]:
    """Return the blocks of a section that show the code before the change, and those after it."""
    found = [m["text"] for m in pages.FENCE.finditer(part(heading)) if m["language"] == "python"]
    return found[::2], found[1::2]


def main(folder: str, *where: str) -> None:
    endpoint, project, access_id, access_key = where
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore")
    import odps
    from odps.apis.storage_api_v2 import stream_io

    from tests.support.compat.sdk_names import names_of

    print(json.dumps({"pyodps": odps.__version__}))
    kinds = [one for one in vars(stream_io).values() if isinstance(one, type)]
    own = [one for one in kinds if one.__module__ == stream_io.__name__]
    print(json.dumps({one.__name__: names_of(one, arguments=True) for one in own}))
    entry = odps.ODPS(access_id, access_key, project=project, endpoint=endpoint)
    names: dict[str, object] = {"entry": entry}
    for block in blocks(PART)[0]:
        exec(block, names)
    print(json.dumps({"rows": names["rows"], "sizes": names["sizes"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
