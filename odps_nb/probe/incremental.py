"""Questions about incremental reads of primary-key tables."""

from __future__ import annotations

from collections.abc import Mapping

from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import Observation, Questions
from odps_nb.probe.steps import columns_of, open_session

QUESTIONS = Questions()
asks = QUESTIONS.asks


def _versions(mode: str, start: int) -> dict[str, object]:
    """Encode the options as the C++ client does."""
    return {
        "EnableIncrementalRead": True,
        "StartVersion": start,
        "EndVersion": -1,
        "StartTimeStamp": "-1",
        "EndTimeStamp": "-1",
        "Mode": mode,
    }


def _open(asker: Asker, options: Mapping[str, object]) -> Response:
    return open_session(
        asker,
        "keys",
        SplitOptions={"SplitMode": "Bucket"},
        IncrementalRead=True,
        IncrementalReadOptions=options,
    )


def _latest(asker: Asker) -> int:
    """Return the current version of the table."""
    return int(_open(asker, _versions("cdc", 0)).need().members["LatestVersion"])


@asks("Which IncrementalReadOptions are taken?", {"cdc": "taken", "append": "taken"}, "keys")
def _incremental_options(asker: Asker) -> Observation:
    forms = {mode: _versions(mode, 1) for mode in ("cdc", "append", "version")}
    forms["from_to"] = {"Mode": "cdc", "From": 1, "To": 2}
    return {name: _open(asker, options).word for name, options in forms.items()}


@asks("Is the first version left out?", {"from_latest": 0, "from_before": 1}, "keys")
def _incremental_start(asker: Asker) -> Observation:
    latest = _latest(asker)
    seen: Observation = {}
    for name, version in (("from_latest", latest), ("from_before", latest - 1)):
        members = _open(asker, _versions("cdc", version)).need().members
        seen[name] = len(members.get("SplitBucketId") or [])
    return seen


@asks("Which system columns has an incremental read?", {"has_operation": True}, "keys")
def _incremental_columns(asker: Asker) -> Observation:
    seen: Observation = {}
    for mode in ("append", "cdc"):
        columns = columns_of(_open(asker, _versions(mode, 1)).need().members)
        seen[mode] = [f"{name} {kind}" for name, kind in columns.items() if name.startswith("__")]
    return {**seen, "has_operation": "__meta_op_type" in columns}


@asks("Is a version that replaced rows refused?", {"refused": (True, False)}, "keys", statements=1)
def _incremental_replaced(asker: Asker) -> Observation:
    before = _latest(asker)
    asker.run(f"INSERT OVERWRITE TABLE {asker.tables['keys']} VALUES (1, 'c');")
    return _open(asker, _versions("cdc", before)).outcome()
