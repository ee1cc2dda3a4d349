"""Arrow types of those MaxCompute types that always map to the same Arrow type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from odps_nb.type_facts import TYPE_FACTS

#: Without times and DECIMAL, which depend on unit and size, and BLOB, which differs in writes.
ARROW_TYPES: Final = {
    code: pa.type_for_alias(facts.arrow) for code, facts in TYPE_FACTS.items() if facts.arrow
}
#: The struct form of times and intervals.
SECONDS_AND_NANOS: Final = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
