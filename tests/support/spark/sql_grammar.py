"""Random Spark queries over three small tables, for the comparison with plain Spark.

The same seed generates the same query. Queries are nested and unusual on purpose; rejections by
Spark are also compared. A limit is combined with an order by all columns, so there is only one
result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "q1": "id:int a:int s:str k:dec d:date g:bool ds:str h:int",
    "q2": "id:int a:int s:str d:date k:int",
    "q3": "id:int x:int tags:list st:struct",
}


@dataclass(frozen=True)
class Col:
    name: str
    kind: str


@dataclass(frozen=True)
class Made:
    """The text of a relation; ``total``: the query defines the order of all rows."""

    text: str
    columns: tuple[Col, ...]
    total: bool = False
    alias: str = ""


def columns_of(table: str) -> tuple[Col, ...]:
    return tuple(Col(*one.split(":")) for one in KINDS[table].split())


@dataclass
class Grammar:
    """Generates one query after another."""

    seed: int
    dice: random.Random = field(init=False)
    most: int = field(init=False)  # maximum depth
    wild: bool = field(init=False)  # whether row positions matter, so that little can be omitted
    number: int = 0
    products: int = 0
    doubtful: bool = False  # whether a name may refer to several columns
    entries: list[Made] = field(default_factory=list)  # entries of WITH: the text is the name

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.most = self.one(1, 1, 1, 2, 2, 3)
        self.wild = self.maybe(20)

    # -- choices ------------------------------------------------------------------------------

    def one(self, *choices: Any) -> Any:
        return self.dice.choice(choices)

    def maybe(self, percent: int) -> bool:
        return self.dice.random() * 100 < percent

    def doubts(self) -> bool:
        """Whether to use a name that several columns have; rarely, because Spark rejects it."""
        taken = self.maybe(2)
        self.doubtful |= taken
        return taken

    def alias(self) -> str:
        self.number += 1
        return f"t{self.number}"

    def query(self) -> Made:
        """A whole query."""
        if self.maybe(30):
            return self.with_entries()
        made = self.any_query(self.most)
        if self.maybe(12):
            made = Made(self.disguised(made.text), made.columns, made.total)
        return made

    def disguised(self, text: str) -> str:
        """The same query, written with comments, line breaks or capitals."""
        return self.one(
            lambda: text.replace(" where ", " -- where a = 1 \n where "),
            lambda: text.replace(" where ", " -- goes on \\\n where "),
            lambda: text.replace(" from ", " /* from /* q3 */ where id = 1 */ from "),
            lambda: text.replace("select ", "SELECT ").replace(" a ", " A "),
            lambda: text.replace(" from q1", " from `q1`"),
            lambda: f"({text})",
        )()

    def with_entries(self) -> Made:
        parts = []
        for _ in range(self.dice.randint(1, 2)):
            inner = self.any_query(self.most - 1)
            name = self.one("q1", "q3") if not parts and self.maybe(30) else f"w{len(parts)}"
            columns = inner.columns
            shown = name
            if columns and self.maybe(15):
                columns = tuple(Col(f"c{i}", one.kind) for i, one in enumerate(columns))
                shown = f"{name}({', '.join(one.name for one in columns)})"
            parts.append(f"{shown} as ({inner.text})")
            self.entries.append(Made(name, columns))
        body = self.any_query(self.most - 1)
        return Made(f"with {', '.join(parts)} {body.text}", body.columns, body.total)

    def any_query(self, depth: int) -> Made:
        if depth > 1 and self.maybe(14):
            return self.set_operation(depth)
        return self.limited(self.select(depth), depth)

    # -- FROM ---------------------------------------------------------------------------------

    def table(self) -> Made:
        if self.entries and self.maybe(60):
            return self.dice.choice(self.entries)
        name = self.one("q1", "q1", "q2", "q2", "q3")
        hidden = [one for one in self.entries if one.text == name]
        return hidden[-1] if hidden else Made(name, columns_of(name))

    def source(self, depth: int) -> Made:
        """A source of rows; its alias is part of its text."""
        alias = self.alias()
        if depth > 0 and self.maybe(50):
            inner = self.any_query(depth - 1)
            text = f"({inner.text})"
            if inner.columns and self.maybe(8):
                columns = tuple(Col(f"c{i}", one.kind) for i, one in enumerate(inner.columns))
                names = ", ".join(one.name for one in columns)
                return Made(f"{text} as {alias}({names})", columns, alias=alias)
            if self.maybe(5):
                text = f"({text} {self.one('limit 1000', 'order by 1', 'order by all')})"
            return Made(f"{text} {self.one('', 'as ')}{alias}", inner.columns, alias=alias)
        if self.maybe(4):
            columns = (Col("id", "int"), Col("s", "str"))
            return Made(f"values (1, 'a'), (3, null) as {alias}(id, s)", columns, alias=alias)
        found = self.table()
        text, columns = found.text, found.columns
        kinds = {one.name: one.kind for one in columns}
        if self.wild and self.maybe(8):
            text += self.one(" tablesample (1000 rows)", " tablesample (60 percent) repeatable (5)")
        if {"a", "id"} <= kinds.keys() and text == found.text and self.maybe(5):
            text += " pivot (count(id) for a in (1 as p1, 2 as p2))"
            left = tuple(one for one in columns if one.name not in ("a", "id"))
            columns = (*left, Col("p1", "int"), Col("p2", "int"))
        elif (
            self.maybe(5)
            and {"a", "k"} <= kinds.keys()
            and kinds["k"] == "int"
            and text == found.text
        ):
            text += " unpivot (v for w in (a, k))"
            left = tuple(one for one in columns if one.name not in ("a", "k"))
            columns = (*left, Col("w", "str"), Col("v", "int"))
        return Made(f"{text} {self.one('', 'as ')}{alias}", columns, alias=alias)

    def from_(self, depth: int) -> tuple[str, list[tuple[str, tuple[Col, ...]]]]:
        """The text after FROM, and the columns in scope by their aliases."""
        first = self.source(depth)
        text, scope = first.text, [(first.alias, first.columns)]
        for _ in range(self.one(0, 0, 0, 1, 1, 2)):
            more = self.source(depth - 1)
            text, scope = self.joined(text, scope, more.text, (more.alias, more.columns))
        lists = [f"{name}.{one.name}" for name, some in scope for one in some if one.kind == "list"]
        if lists and self.maybe(50):
            name = self.alias()
            outer = self.one("", "outer ")
            text += (
                f" lateral view {outer}explode({lists[0]}) {name} as {self.one('tag', 'tag', 's')}"
            )
        return text, scope

    def joined(self, text: str, scope: Any, more: str, other: tuple[str, Sequence[Col]]) -> Any:
        kind = self.one(
            *("join", "inner join", "left join", "right join", "full join", "left semi join"),
            *("left anti join", "cross join", ",", "natural join", "lateral"),
        )
        both = [*scope, other]
        keeps = scope if "semi" in kind or "anti" in kind else both
        if kind == "lateral":
            star = self.one(f"{scope[0][0]}.*", f"struct({scope[0][0]}.*) as st", "1 as one")
            return f"{text}, lateral (select {star}) {other[0]}", [*scope, (other[0], ())]
        on = self.equal(scope, other)
        if kind in ("cross join", ",") or on == "true":
            self.products += 1
        if self.products > 1:  # a higher limit would take too long
            return text, scope
        if kind in ("cross join", ","):
            return f"{text} {kind} {more}", both
        if kind == "natural join":
            side = self.one("", "left ", "full outer ")
            return f"{text} natural {side}join {more}", keeps
        names = {one.name for one in other[1]} & {one.name for one in scope[0][1]}
        if names and len(scope) == 1 and self.maybe(20):
            return f"{text} {kind} {more} using ({self.dice.choice(sorted(names))})", keeps
        if self.maybe(60):
            on += f" and {self.condition(both, 0)}"
        return f"{text} {kind} {more} on {on}", keeps

    def equal(self, scope: Any, other: tuple[str, Sequence[Col]]) -> str:
        left = self.pick(scope, "int", bare=False)
        right = self.pick([other], "int", bare=False)
        return f"{left} = {right}" if left and right else "true"

    # -- expressions --------------------------------------------------------------------------

    def pick(self, scope: Any, kind: str | None = None, *, bare: bool = True) -> str:
        """A column of a kind, or None."""
        found = [
            (alias, one.name)
            for alias, columns in scope
            for one in columns
            if (kind is None or one.kind == kind)
            and ([other.name for other in columns].count(one.name) == 1 or self.doubts())
        ]
        if not found:
            return ""
        alias, name = self.dice.choice(found)
        names = [one.name for _, columns in scope for one in columns]
        bare = bare and names.count(name) == 1 and self.maybe(60 if len(scope) == 1 else 10)
        return name if bare else f"{alias}.{name}"

    def value(self, kind: str) -> str:
        if kind == "int":
            return self.one("0", "1", "2", "3", "-1", "20", "1")
        if kind == "str":
            texts = ("'a'", "'A'", "'a '", "''", "'it\\'s'", "'ü'", "'20240101'", "'20240102'")
            return self.dice.choice(texts)
        if kind == "dec":
            return self.one("0.10", "0.2", "0", "1", "0.125")
        if kind == "date":
            return self.one("date '2024-01-01'", "date'2024-01-03'", "cast('2024-01-02' as date)")
        return self.one("true", "false")

    def condition(self, scope: Any, depth: int) -> str:
        """A condition in one of many spellings."""
        if self.maybe(25):
            parts = [self.condition(scope, depth - 1) for _ in range(2)]
            glue = self.one("{} and {}", "({} or {})", "{} or {}", "not ({} and {})", "({}) and {}")
            return str(glue).format(*parts)
        if depth > 0 and self.maybe(14):
            return self.subquery_condition(scope, depth)
        kind = self.one("int", "int", "int", "str", "str", "dec", "date", "bool")
        column = self.pick(scope, kind)
        if not column:
            kind, column = "int", self.pick(scope, "int") or "1"
        value, other = self.value(kind), self.value(kind)
        sign = self.one("=", "=", "<>", "<", ">=", "!=", "<=>")
        return str(
            self.one(
                *([f"{column} {sign} {value}"] * 8),
                f"{value} {sign} {column}",
                f"{column} in ({value}, {other})",
                f"{column} not in ({value}, {other})",
                f"{column} is null",
                f"{column} is not null",
                f"{column} between {value} and {other}",
                f"not {column} = {value}",
                f"not {column} = {value} is null",
                f"{column} = {value} = true",
                f"{column} = {value} is not null",
                f"! ({column} = {value})",
                f"coalesce({column}, {value}) = {other}",
                f"({column}) = ({value})",
                f"{column} = {value} or {column} is null",
                f"{column} in ({value}, null)",
                f"case when {column} = {value} then true else {column} = {other} end",
                f"if({column} = {value}, true, false)",
                f"{column} = {value} and rand() < 2",
                *([f"rand(4) < 0.6 and {column} = {value}"] * (3 * self.wild)),
                f"nullif({column}, {value}) is null",
                f"{column} {sign} {value} and {column} is not null",
                *([f"{column} like '{self.one('a%', '%', '2024%1', 'a')}'"] * (kind == "str")),
                *([column, f"not {column}", f"{column} is true"] * (kind == "bool")),
            )
        )

    def subquery_condition(self, scope: Any, depth: int) -> str:
        inner = self.select(depth - 1)
        names = [one.name for one in inner.columns]
        ints = [n for n in names if names.count(n) == 1 and _kind(inner.columns, n) == "int"]
        column = self.pick(scope, "int")
        alias = self.alias()
        if not ints or not column:
            return f"exists ({inner.text})"
        name = ints[0]
        return str(
            self.one(
                f"exists ({inner.text})",
                f"exists (select * from ({inner.text}) {alias} where {alias}.{name} = {column})",
                f"not exists (select 1 from ({inner.text}) t where t.{name} = {column})",
                f"{column} in (select {name} from ({inner.text}) {alias})",
                f"{column} not in (select {name} from ({inner.text}) {alias})",
                f"{column} = (select max({name}) from ({inner.text}) {alias})",
                f"(select count(*) from ({inner.text}) {alias}) > {column}",
            )
        )

    def projection(self, scope: Any) -> tuple[str, Col]:
        """An expression with its name, which may be that of a column."""
        kind = self.one("int", "int", "str", "dec", "date", "bool")
        column = self.pick(scope, kind)
        if not column:
            self.number += 1
            return f"1 as n{self.number}", Col(f"n{self.number}", "int")
        name = self.one(column.rpartition(".")[2], "id", "a", "s", f"n{self.dice.randint(1, 9)}")
        if self.maybe(60):
            return f"{column} as {name}", Col(name, kind)
        text = {
            "int": (f"{column} + 1", f"abs({column})", f"coalesce({column}, 7)", f"-{column}"),
            "str": (f"upper({column})", f"trim({column})", f"concat({column}, 'x')"),
            "dec": (f"round({column}, 1)", f"{column} * 2"),
            "date": (f"date_add({column}, 1)", f"coalesce({column}, current_date())"),
            "bool": (f"not {column}", f"coalesce({column}, false)"),
        }[kind]
        chosen = self.dice.choice(text)
        if self.wild and self.maybe(25):
            made: str = self.one(
                *("rand(3)", "monotonically_increasing_id()", "spark_partition_id()"),
                *("randn(1)", "rand(3) < 0.5", "length(uuid())", "count(*) over ()"),
            )
            return f"{made} as {name}", Col(name, "other")
        return f"{chosen} as {name}", Col(name, kind)

    # -- SELECT -------------------------------------------------------------------------------

    def select(self, depth: int) -> Made:
        text, scope = self.from_(depth)
        where = f" where {self.condition(scope, depth)}" if self.maybe(55) else ""
        form: Callable[..., Made] = self.one(
            *([self.starred] * 5), *([self.listed] * 4), *([self.grouped] * 4), self.windowed
        )
        return form(text + where, scope)

    def starred(self, tail: str, scope: Any) -> Made:
        columns = tuple(one for _, some in scope for one in some)
        shown = "*"
        if self.maybe(25):
            alias, some = self.dice.choice(scope)
            shown, columns = f"{alias}.*", tuple(some)
        elif columns and self.maybe(10):
            gone = columns[0].name
            shown = f"* except ({gone})"
            columns = tuple(one for one in columns if one.name != gone)
        if self.maybe(15):
            extra, col = self.projection(scope)
            shown, columns = f"{shown}, {extra}", (*columns, col)
        words = self.one(*([""] * 6), "distinct ", "/*+ repartition(2) */ ")
        after = self.one(
            *([""] * 8), " group by all", " having true", " sort by 2", " order by 1",
            " distribute by id", " cluster by 1", " order by all desc",
        )  # fmt: skip
        return Made(f"select {words}{shown} from {tail}{after}", columns)

    def listed(self, tail: str, scope: Any) -> Made:
        made = [self.projection(scope) for _ in range(self.dice.randint(1, 4))]
        shown = ", ".join(text for text, _ in made)
        columns = tuple(col for _, col in made)
        if self.maybe(10):
            shown += f", {columns[0].name} as again"  # an alias in the same select, or a column
            columns = (*columns, Col("again", columns[0].kind))
        words = self.one(*([""] * 5), "distinct ")
        return Made(f"select {words}{shown} from {tail}", columns)

    def grouped(self, tail: str, scope: Any) -> Made:
        keys = list(dict.fromkeys(filter(None, [self.pick(scope) for _ in range(2)])))
        keys = keys[: self.one(1, 2)] or ["1 + 1"]
        names = [f"{self.one('g', 'id', 'a')}{i}" if self.maybe(30) else "" for i in (0, 1)]
        shown = [
            f"{key} as {name}" if name else key for key, name in zip(keys, names, strict=False)
        ]
        kinds = {f"{a}.{c.name}": c.kind for a, some in scope for c in some}
        kinds |= {c.name: c.kind for _, some in scope for c in some}
        plain = [key.rpartition(".")[2] for key in keys]
        columns = [
            Col(name or own, kinds.get(key, "int"))
            for key, name, own in zip(keys, names, plain, strict=False)
        ]
        number = self.pick(scope, "int") or "1"
        count = self.one(
            *("count(*)", f"sum({number})", f"max({number})", f"count(distinct {number})"),
            *(f"count({number})", f"count(*) filter (where {number} = 1)"),
        )
        by = self.one(
            *([", ".join(keys)] * 4), "all", ", ".join(map(str, range(1, len(keys) + 1))),
            f"rollup ({', '.join(keys)})", f"cube ({', '.join(keys)})", f"{keys[0]} with rollup",
            f"grouping sets (({', '.join(keys)}), ({keys[0]}), ())",
            f"{keys[0]}, rollup ({', '.join(keys)})",
        )  # fmt: skip
        having = self.one(*([""] * 4), " having count(*) > 1", f" having {keys[0]} is not null")
        if self.maybe(8):  # all rows are one group
            return Made(f"select {count} as c from {tail}", (Col("c", "int"),))
        text = f"select {', '.join(shown)}, {count} as c from {tail} group by {by}{having}"
        return Made(text, (*columns, Col("c", "int")))

    def windowed(self, tail: str, scope: Any) -> Made:
        columns = [one for _, some in scope for one in some if one.kind not in ("struct", "other")]
        order = ", ".join(f"{alias}.{one.name}" for alias, some in scope for one in some)
        key = self.pick(scope) or "1"
        call = self.one(
            f"row_number() over (partition by {key} order by {order})",
            f"rank() over (order by {self.pick(scope) or 1})",
            f"count(*) over (partition by {key})",
            f"max({self.pick(scope, 'int') or 1}) over (partition by {key})",
        )
        name = self.one("rn", "id", "a")
        if self.maybe(30) and columns:
            return Made(f"select * from {tail} qualify {call} = 1", tuple(columns))
        text, col = self.projection(scope)
        return Made(f"select {text}, {call} as {name} from {tail}", (col, Col(name, "int")))

    # -- the end of a select ------------------------------------------------------------------

    def limited(self, made: Made, depth: int) -> Made:
        """The query with an order by all columns and a limit, unchanged, or summarized."""
        names = [one.name for one in made.columns]
        sortable = names and not {"struct", "list", "other"} & {one.kind for one in made.columns}
        if self.maybe(40) and made.text[-30:].count(" by") == 0 and sortable:
            places = list(range(1, len(names) + 1))
            self.dice.shuffle(places)
            by = self.one("all", ", ".join(map(str, places)), "all desc")
            if len(set(names)) == len(names) and self.maybe(30):
                by = ", ".join(f"{name} {self.one('', 'desc')}" for name in names)
            size = self.one("3", "5", "2 + 3", "1 * 4", "(2)", "cast(2 as int)", "all", "0", "1000")
            offset = self.one("", "", " offset 2")
            tail = self.one("", f" limit {size}{offset}", *([f" limit {size}"] * 3), offset)
            made = Made(f"{made.text} order by {by}{tail}", made.columns, total=True)
        if depth > 0 and self.maybe(45 if made.total else 25):
            return self.summary(made)
        return made

    def summary(self, made: Made) -> Made:
        """A small part of a query, so that columns can be omitted."""
        alias = self.alias()
        names = [one.name for one in made.columns]
        sums = [f"sum({n}) as s{i}" for i, n in enumerate(names)
                if names.count(n) == 1 and made.columns[i].kind in ("int", "dec")]  # fmt: skip
        self.dice.shuffle(sums)
        sums = sums[:1]
        shown = ", ".join(["count(*) as c", *(sums if self.maybe(60) else [])])
        columns = [Col("c", "int"), *([Col(sums[0].rpartition(" ")[2], "int")] if sums else [])]
        where = ""
        if self.maybe(40):
            where = f" where {self.condition([(alias, _unique(made.columns))], 0)}"
        text = f"select {shown} from ({made.text}) {alias}{where}"
        return Made(text, tuple(columns[: shown.count(" as ")]))

    def set_operation(self, depth: int) -> Made:
        kind = self.one("union all", "union", "except", "intersect", "minus", "union all by name")
        left, right = self.select(depth - 1), self.select(depth - 1)
        if self.maybe(70):  # two that fit
            name = self.one("q1", "q2")
            parts = [
                self.one(f"select * from {name} where {self.condition([(name, some)], 0)}",
                         f"select * from {name}", f"select * from {name} order by 2 limit 100")
                for some in (columns_of(name),) * 2
            ]  # fmt: skip
            parts = [f"({one})" if " order by" in one else one for one in parts]
            left, right = (Made(one, columns_of(name)) for one in parts)
        made = Made(f"{left.text} {kind} {right.text}", left.columns)
        return self.summary(made) if self.maybe(40) else made


def _kind(columns: Sequence[Col], name: str) -> str:
    return next(one.kind for one in columns if one.name == name)


def _unique(columns: Sequence[Col]) -> list[Col]:
    names = [one.name for one in columns]
    return [one for one in columns if names.count(one.name) == 1]
