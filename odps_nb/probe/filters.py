"""Questions about filters: blocks, accepted forms, meaning of conditions in SQL."""

from __future__ import annotations

from collections.abc import Callable

from odps_nb.client.sql.query import SQL_ZONE
from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import Observation, OneOf, Question
from odps_nb.probe.scratch import PLAIN_ROWS, TYPES
from odps_nb.probe.steps import SIZE, counted_session, open_session, read


def _kept(asker: Asker, text: str) -> Observation:
    """Count the rows that a filtered session with splits by size returns."""
    table = asker.tables["plain"]
    members = (
        open_session(
            asker,
            table,
            SplitOptions=dict(SIZE),
            RequiredDataColumns=["c1", "c2"],
            FilterPredicate=text,
        )
        .need()
        .members
    )
    rows = 0
    for index in range(int(members["SplitsCount"])):
        rows += read(asker, table, members["SessionId"], {"Index": index}).table().num_rows
    return {"rows": rows}


def _ranges(asker: Asker) -> Observation:
    table = asker.tables["plain"]
    session, counted = counted_session(asker, table, FilterPredicate="c1 = 20000")
    answer = read(asker, table, session, {"Offset": 20_000, "Count": 10})
    if answer.is_refusal:
        return {"record_count": counted, "range": "refused"}
    return {"record_count": counted, "range": answer.table()["c1"].to_pylist()}


FORMS = {
    "back_quotes": "`c1` = 1",
    "chr": "s = CHR(39)",
    "cast_date": "d >= CAST('2024-01-01' AS DATE)",
    "text_and_datetime": "ts >= '2024-01-01 00:00:00'",
    "in": "c1 in (1, 2)",
    "not": "not (c1 = 1)",
}


def _forms(asker: Asker) -> Observation:
    table = asker.tables["typed"]
    return {
        name: "refused" if open_session(asker, table, FilterPredicate=text).is_refusal else "taken"
        for name, text in FORMS.items()
    }


def _select(expressions: dict[str, str], zone: str) -> Callable[[Asker], Observation]:
    """Return a question that evaluates constants in SQL, one query each, since one may fail."""

    def ask(asker: Asker) -> Observation:
        seen: Observation = {}
        settings = {**TYPES, SQL_ZONE: zone} if zone else TYPES
        for name, text in expressions.items():
            try:
                rows = asker.select(f"select {text} as r;", settings)
            except ServiceError:
                seen[name] = "error"
            else:
                seen[name] = rows[0]["r"] if len(rows) == 1 else "no row"
        return seen

    return ask


def _sql(
    id: str,
    text: str,
    assumes: str,
    expected: dict[str, object],
    expressions: dict[str, str],
    *,
    embedded: bool = True,
    zone: str = "",
) -> Question:
    return Question(
        id=id,
        text=text,
        assumes=assumes,
        ask=_select(expressions, zone),
        sends="SQL",
        expected=expected,
        statements=len(expressions),
        embedded=embedded,
    )


QUESTIONS = (
    Question(
        id="filter-ranges",
        sends="TableCreateReadSession, TableRead",
        text="Do ranges of a filtered session address the rows stored or those kept?",
        assumes="The rows stored: 20,000 to 20,009 come.",
        ask=_ranges,
        expected={"record_count": PLAIN_ROWS, "range": list(range(20_000, 20_010))},
        needs=("plain",),
    ),
    Question(
        id="filter-block-size",
        sends="TableCreateReadSession, TableRead",
        text="How many rows come for a condition that one row meets?",
        assumes="Those of its block of 10,000; odps_nb relies on a superset alone.",
        ask=lambda asker: _kept(asker, "c1 = 20000"),
        expected={"rows": 10_000},
        needs=("plain",),
        rows=PLAIN_ROWS,
    ),
    Question(
        id="filter-conditions",
        sends="TableCreateReadSession, TableRead",
        text="Which rows come where each of two conditions is met in a block, but by no row both?",
        assumes="None; odps_nb relies on a superset alone.",
        ask=lambda asker: _kept(asker, "(c1 = 20000) and (c2 = 40002)"),
        expected={"rows": 0},
        needs=("plain",),
        rows=PLAIN_ROWS,
    ),
    Question(
        id="filter-forms",
        sends="TableCreateReadSession",
        text="Does a filter take back-quotes, CHR(39), CAST of a date, and the like?",
        assumes="All of them; one that is not taken is ignored by FilterPredicateFallback.",
        ask=_forms,
        expected=dict.fromkeys(FORMS, "taken"),
        needs=("typed",),
    ),
    _sql(
        "sql-text-number",
        "Is a text compared with a number as DOUBLE?",
        "It is: two whole numbers beyond 2^53 are equal then.",
        {"beyond_double": True, "same": True},
        {
            "beyond_double": "'9007199254740993' = 9007199254740992",
            "same": "'10' = 10.0",
        },
    ),
    _sql(
        "sql-bad-conversion",
        "What is a text that is no number, compared with one?",
        "An error, which stops the read.",
        {"word": "error"},
        {
            "word": "'abc' = 1",
        },
    ),
    _sql(
        "sql-decimal",
        "Is a DECIMAL compared with a number as it is written?",
        "It is: 0.10 and 0.1 are equal.",
        {"written": True, "sum": True},
        {
            "written": "cast('0.10' as decimal(10,2)) = 0.1",
            "sum": "0.1BD + 0.2BD = 0.3BD",
        },
    ),
    _sql(
        "sql-like",
        "Does a backslash in like take the wildcard's meaning away?",
        "It does; two in the text are one.",
        {"itself": True, "other": False},
        {
            "itself": r"'a%b' like 'a\\%b'",
            "other": r"'axb' like 'a\\%b'",
        },
    ),
    _sql(
        "sql-length",
        "Does LENGTH count characters?",
        "It does, also beyond the first plane.",
        {"three": 3, "high": 1},
        {
            "three": "length('\u00e4\u4e2dz')",
            "high": "length('\U0001f600')",
        },
    ),
    _sql(
        "sql-nan",
        "How does NaN compare?",
        "It equals itself and is larger than any number.",
        {"itself": True, "larger": True},
        {
            "itself": "cast('NaN' as double) = cast('NaN' as double)",
            "larger": "cast('NaN' as double) > 1e300",
        },
    ),
    _sql(
        "sql-char",
        "Do blanks at the end of a CHAR take part in comparisons?",
        "They do not; those of a STRING do.",
        {"char": True, "string": False},
        {
            "char": "cast('a ' as char(3)) = cast('a' as char(3))",
            "string": "'a ' = 'a'",
        },
        embedded=False,
    ),
    _sql(
        "sql-char-functions",
        "Do functions see the blanks with which a CHAR is padded?",
        "They do not.",
        {"length": True, "concat": True, "string": True},
        {
            "length": "length(cast('a' as char(3))) = 1",
            "concat": "concat(cast('a' as char(3)), 'b') = 'ab'",
            "string": "cast(cast('a' as char(3)) as string) = 'a'",
        },
        embedded=False,
    ),
    _sql(
        "sql-cast-length",
        "Does a cast to CHAR(n) or VARCHAR(n) cut a longer text?",
        "It does; odps_nb and the embedded service refuse such casts.",
        {"char": True, "varchar": True},
        {
            "char": "cast('abc' as char(2)) = 'ab'",
            "varchar": "cast('abc' as varchar(2)) = 'ab'",
        },
        embedded=False,
    ),
    _sql(
        "sql-clock-changes",
        "Which instant has a time that the clocks of New York repeat, or skip?",
        "The first one; the time after the gap, as if the clocks had not been changed.",
        {"repeated": 1_730_611_800, "skipped": 1_710_055_800},
        {
            "repeated": "unix_timestamp(cast('2024-11-03 01:30:00' as datetime))",
            "skipped": "unix_timestamp(cast('2024-03-10 02:30:00' as datetime))",
        },
        zone="America/New_York",
    ),
    _sql(
        "sql-union-text",
        "Is UNION of a text and a DATETIME refused?",
        "Refused, or the text is a DATETIME.",
        {"union": OneOf(("error", 3))},
        {
            "union": "(select max(day(v)) from (select cast('2024-01-02 00:00:00' as datetime) as v"
            " union all select '2024-01-03 00:00:00' as v) q)",
        },
    ),
    _sql(
        "sql-text-order",
        "In which order are texts?",
        "In that of their bytes in UTF-8, which is that of code points.",
        {"capitals_first": True, "beyond_ascii_last": True, "high_plane_last": True},
        {
            "capitals_first": "'Z' < 'a'",
            "beyond_ascii_last": "'\u00e4' > 'z'",
            "high_plane_last": "'\U0001f600' > '\uff5e'",
        },
    ),
    _sql(
        "sql-null",
        "What do null and lists with null choose?",
        "Null, which chooses no row.",
        {"null": None, "in": None},
        {
            "null": "null = null",
            "in": "1 in (2, null)",
        },
    ),
)
