"""A query's cost estimate, returned by a ``SQLCost`` task, which does not run the query.

``docs/protocol.md`` section 9.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.errors import FramingError
from odps_nb.terms import format_bytes
from odps_nb.wire.json_fields import dump, parse_object

COST_TASK = "AnonymousSQLCostTask"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SqlCost:
    """The estimated cost of a query: input bytes, complexity, and number of UDF calls.

    A field is ``None`` if the service omits it. The service bills bytes times complexity.
    """

    input_bytes: int | None = None
    complexity: float | None = None
    udfs: int | None = None

    def __repr__(self) -> str:
        size = self.input_bytes
        read = "None" if size is None else f"{size:,} ({format_bytes(size)})"
        return f"SqlCost(input_bytes={read}, complexity={self.complexity}, udfs={self.udfs})"

    def encode(self) -> str:
        """Encode the result text."""
        sql = {"Complexity": self.complexity, "Input": self.input_bytes, "UDF": self.udfs}
        return dump({"Cost": {"SQL": sql}}).decode()

    @classmethod
    def decode(cls, text: str) -> SqlCost:
        """Decode the result text."""
        cost = parse_object(text.encode(), "estimate").inner("Cost")
        if "SQL" not in cost:
            raise FramingError("the estimate of a query has no Cost.SQL")
        sql = cost.inner("SQL")
        complexity = sql.simple("Complexity")
        try:
            return cls(
                input_bytes=sql.optional_integer("Input"),
                complexity=None if complexity is None else float(complexity),
                udfs=sql.optional_integer("UDF"),
            )
        except ValueError:
            raise FramingError("the complexity of a query is not a number") from None
