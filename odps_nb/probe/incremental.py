"""Questions about incremental reads of primary-key tables."""

from __future__ import annotations

from collections.abc import Mapping

from odps_nb.probe.asking import Answer, Asker
from odps_nb.probe.question import Observation, OneOf, Question
from odps_nb.probe.steps import columns_of, open_session

OFF = -1


def _bounds(mode: str, start: int, end: int = OFF) -> dict[str, object]:
    """Encode the options as the C++ client does."""
    return {
        "EnableIncrementalRead": True,
        "StartVersion": start,
        "EndVersion": end,
        "StartTimeStamp": "-1",
        "EndTimeStamp": "-1",
        "Mode": mode,
    }


def _open(asker: Asker, options: Mapping[str, object]) -> Answer:
    return open_session(
        asker,
        asker.tables["keys"],
        SplitOptions={"SplitMode": "Bucket"},
        IncrementalRead=True,
        IncrementalReadOptions=dict(options),
    )


def _latest(asker: Asker) -> int:
    """Return the current version of the table."""
    return int(_open(asker, _bounds("cdc", 0)).need().members["LatestVersion"])


def _forms(asker: Asker) -> Observation:
    forms = {
        "cdc": _bounds("cdc", 1),
        "append": _bounds("append", 1),
        "version": _bounds("version", 1),
        "from_to": {"Mode": "cdc", "From": 1, "To": 2},
    }
    return {
        name: "refused" if _open(asker, options).is_refusal else "taken"
        for name, options in forms.items()
    }


def _start(asker: Asker) -> Observation:
    latest = _latest(asker)
    nothing = _open(asker, _bounds("cdc", latest)).need()
    one = _open(asker, _bounds("cdc", latest - 1)).need()
    return {
        "from_latest": len(nothing.members.get("SplitBucketId") or []),
        "from_before": len(one.members.get("SplitBucketId") or []),
    }


def _system(asker: Asker) -> Observation:
    seen: Observation = {}
    for mode in ("append", "cdc"):
        found = columns_of(_open(asker, _bounds(mode, 1)).need().members)
        seen[mode] = [f"{name} {kind}" for name, kind, _ in found if name.startswith("__")]
    names = [str(one).split()[0] for one in _list(seen["cdc"])]
    return {**seen, "has_operation": "__meta_op_type" in names}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _replaced(asker: Asker) -> Observation:
    before = _latest(asker)
    asker.run(f"INSERT OVERWRITE TABLE {asker.tables['keys']} VALUES (1, 'c');")
    answer = _open(asker, _bounds("cdc", before))
    return answer.outcome()


QUESTIONS = (
    Question(
        id="incremental-options",
        sends="TableCreateReadSession",
        text="Which spellings and modes of IncrementalReadOptions are taken?",
        assumes="StartVersion and EndVersion with the modes cdc and append.",
        ask=_forms,
        expected={"cdc": "taken", "append": "taken"},
        needs=("keys",),
    ),
    Question(
        id="incremental-start",
        sends="TableCreateReadSession",
        text="Is the version where an incremental read starts left out?",
        assumes="It is: from the latest there is nothing, from the one before there is one split.",
        ask=_start,
        expected={"from_latest": 0, "from_before": 1},
        needs=("keys",),
    ),
    Question(
        id="incremental-columns",
        sends="TableCreateReadSession",
        text="Which system columns has an incremental read?",
        assumes="__meta_op_type is one of them; the others are left alone.",
        ask=_system,
        expected={"has_operation": True},
        needs=("keys",),
    ),
    Question(
        id="incremental-replaced",
        sends="TableCreateReadSession, SQL",
        text="What does an incremental read answer of a version that replaced rows?",
        assumes="A refusal, or changes; a stream passes the refusal on.",
        ask=_replaced,
        expected={"refused": OneOf((True, False))},
        needs=("keys",),
        statements=1,
    ),
)
