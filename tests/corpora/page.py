"""Writes `docs/results/corpora.md` from the notes of a run: `make corpora`.

PYTHONPATH=tools python -m tests.corpora.page FILE
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nightly import state

from tests.corpora.agreed import CONVERSIONS, is_disputed
from tests.corpora.references import EQUAL, REFUSES
from tests.support.corpora import ROOT, VERSIONS

PAGE = ROOT / "docs" / "results" / "corpora.md"
_FEW = 3
_HEAD = """# Files of other projects

Written by `make corpora` ({date}, commit {commit}) from {count:,} files of {corpora}.
Each file is shown as a tile and converted (`to_pil`, `to_numpy`, `to_text`, `to_table`) in a child
process. Of these files,
{ended} crashed that process, {untyped} raised an undocumented class of error, and {internal} put an
address, an error number or an object's repr into a message.

## Formats

- **compared**: another library reads the same values: Pillow (pictures), pandas (CSV and
  TSV), pyarrow (Parquet, Arrow), fastavro (rows in tiles) and numpy (arrays).
- **right**: the file is shown, and no comparison finds a difference.
- **refused**: the tile gives the reason; most of these files are damaged on purpose. "too" means
  that the other library refuses the file as well. In the reasons, N stands for a number.
- **wrong**: a value differs from the other library's, or the kind differs from libmagic's without
  a reason in [the list of exceptions](../../tests/corpora/agreed.py).

"""
_TEXTS = """
## Text encodings

For {right} of {all} samples of chardet ({share:.0%}), in {encodings} encodings, `to_text` detects
the encoding and returns the same text as with the encoding in the name of the sample's folder.
{rest}
"""
_MEMORY = """
## Memory of malicious files

The table shows peak resident memory minus the memory before the job, in MB. For the parser
process, this includes the library pages that it touches. A dash means that the process was not
used, or was killed. The kernel's bound is twice the size of the blob, plus the parser's longest
response, plus a tile. The bound of the parser process is `Limits.memory`; for conversions,
`blob_conversion` computes it.

| file | bytes | kernel | bound | parser | bound | how it ends |
|---|--:|--:|--:|--:|--:|---|
"""


def page(notes: Iterable[str]) -> str:
    """Return the page for these notes (one JSON document each); the last note for a file counts."""
    corpora: dict[str, list[dict[str, Any]]] = {}
    hostile: dict[str, dict[str, Any]] = {}
    texts: dict[str, list[int]] = {}
    for line in notes:
        found = json.loads(line)
        if "corpus" in found:
            corpora[found["corpus"]] = found["files"]
            for file in found["files"]:
                if "mime" in file:
                    file["is_agreed"] = f"{found['corpus']}/{file['name']}" in CONVERSIONS
                    file["is_disputed"] = is_disputed(found["corpus"], file)
        if "hostile" in found:
            hostile[found["hostile"]["name"]] = found["hostile"]
        texts = found.get("texts", texts)
    if missing := VERSIONS.keys() - corpora.keys():
        raise SystemExit(f"the notes contain no results of {', '.join(sorted(missing))}")
    every = [file for files in corpora.values() for file in files]
    files = [file for file in every if "mime" in file]
    head = _HEAD.format(
        date=dt.datetime.now(dt.UTC).date(),
        commit=state(),
        count=len(every),
        corpora=", ".join(f"{name} {VERSIONS[name]}" for name in sorted(corpora)),
        ended=len(every) - len(files),
        untyped=sum("untyped" in file["ends"].values() for file in files),
        internal=sum(bool(file["internal"]) for file in files),
    )
    return head + _formats(files) + _of_texts(texts) + _of_memory(hostile.values())


def _formats(files: list[dict[str, Any]]) -> str:
    by_label: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        by_label[file["label"]].append(file)
    lines = ["| format | tried | right | compared | refused | wrong | reasons |"]
    lines.append("|---|--:|--:|--:|--:|--:|---|")
    for label, several in sorted(by_label.items(), key=lambda one: (-len(one[1]), one[0])):
        wrong = [file for file in several if is_wrong(file)]
        refused = [file for file in several if file["refused"] and file not in wrong]
        equal = sum(said == EQUAL for file in several for said in file["compared"].values())
        too = sum(
            any(said.startswith(REFUSES) for said in file["compared"].values()) for file in refused
        )
        reasons = Counter(_reason(file["said"]) for file in refused).most_common(_FEW)
        told = f"{len(refused)}" + (f" ({too} too)" if too else "")
        right = len(several) - len(refused) - len(wrong)
        words = "; ".join(
            f"{reason} ({count} file{'s' if count != 1 else ''})" for reason, count in reasons
        )
        lines.append(
            f"| {label} | {len(several)} | {right} | {equal or '–'} | {told} | {len(wrong)} "
            f"| {words.replace('|', '/')} |"
        )
    return "\n".join(lines) + "\n"


def is_wrong(file: dict[str, Any]) -> bool:
    """Whether a test fails because of this file."""
    differ = [s for s in file["compared"].values() if s != EQUAL and not s.startswith(REFUSES)]
    return bool((differ and not file["is_agreed"]) or file["internal"] or file["is_disputed"])


def _reason(said: str) -> str:
    """Return the reason in a tile's text, with numbers replaced, because they differ."""
    reason = said.split(" · ")[-1].split("; ")[0]
    return re.sub(r"\b\d[\d,.]*", "N", reason.removeprefix("not decoded here: "))[:70]


def _of_texts(texts: dict[str, list[int]]) -> str:
    right, every = (sum(one) for one in zip(*texts.values(), strict=True))
    wrong = [f"{name} ({of - done} of {of})" for name, (done, of) in texts.items() if done < of]
    rest = f"It fails for samples in these encodings: {', '.join(wrong)}." if wrong else ""
    return _TEXTS.format(
        right=right, all=every, share=right / every, encodings=len(texts), rest=rest
    )


def _of_memory(hostile: Iterable[dict[str, Any]]) -> str:
    rows = [
        f"| {one['name']} | {one['size']:,} | {_mb(one['kernel'])} | {_mb(one['bound'])} "
        f"| {_mb(one['child'])} | {_mb(one['memory'])} | {_end(one['said'])} |"
        for one in hostile
    ]
    return _MEMORY + "\n".join(rows) + "\n"


def _mb(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:,.1f}"


def _end(said: str) -> str:
    last = said.split("; ")
    return (last[1] if len(last) > 1 else last[0].split(" · ")[-1])[:90].replace("|", "/")


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    with Path(sys.argv[1]).open() as notes:
        PAGE.write_text(page(notes), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
