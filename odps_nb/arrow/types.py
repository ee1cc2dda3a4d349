"""The Arrow types of the MaxCompute types that have one, whatever the read."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from odps_nb.type_facts import TYPE_FACTS

#: Those of times and DECIMAL depend on the unit and the digits, that of BLOB on the direction.
ARROW_TYPES: Final = {
    code: pa.type_for_alias(facts.arrow) for code, facts in TYPE_FACTS.items() if facts.arrow
}
#: The extended form of times and intervals.
SECONDS_AND_NANOS: Final = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
