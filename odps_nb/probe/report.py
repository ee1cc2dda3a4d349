"""Formats findings as a JSON document and as a page of text. Its input is redacted already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from odps_nb.probe.question import AS_ASSUMED
from odps_nb.probe.running import Finding
from odps_nb.terms import shorten

FORMAT = 1
_SHOWN = 200


def as_document(findings: Iterable[Finding], *, facts: Mapping[str, object]) -> dict[str, Any]:
    """Return the whole report as plain JSON; ``facts`` describe the run."""
    return {
        "format": FORMAT,
        **facts,
        "findings": [
            {
                "id": one.question.id,
                "question": one.question.text,
                "verdict": one.verdict,
                "seen": one.seen,
                "requests": one.requests,
                "exchanges": one.exchanges,
            }
            for one in findings
        ],
    }


def as_page(document: Mapping[str, Any]) -> str:
    """Return the report as text: what differs first, then open questions, then the rest."""
    groups: dict[str, list[Any]] = {"differs": [], "cannot tell": [], AS_ASSUMED: []}
    for one in document["findings"]:
        groups[one["verdict"].partition(":")[0]].append(one)
    facts = [f"{key}: {value}" for key, value in document.items() if not isinstance(value, list)]
    counts = ", ".join(f"{len(some)} {name}" for name, some in groups.items())
    lines = ["odps-nb probe", *facts, f"{len(document['findings'])} questions: {counts}"]
    lines += document.get("left_behind", [])
    for name, some in groups.items():
        lines += ["", f"== {name} ({len(some)})"]
        for one in some:
            lines += ["", *_finding(one)]
    return "\n".join(lines) + "\n"


def _finding(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"{one['id']}: {one['verdict']}"
    yield f"  question: {one['question']}"
    if one["seen"] is not None:
        yield f"  seen: {_brief(one['seen'])}"
    for exchange in one["exchanges"]:
        request, answer = exchange["request"], exchange["answer"]
        said = [v for key, v in request.items() if key not in ("action", "target") and v]
        yield " ".join(["  >", request["action"], *map(_brief, said)])
        shown = {key: v for key, v in answer.items() if key not in ("headers", "members")}
        yield f"  < {_brief(shown)}"


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, _SHOWN)
