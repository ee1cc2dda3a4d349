"""Tab completion for ``%odps``, and a cache of table, column and partition names.

A lookup returns the cached names and refreshes them in a background thread. It waits (at most
``patience`` seconds) only the first time that a name list is requested.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from odps_nb.errors import OdpsNbError
from odps_nb.lifetime import renew_after_fork

if TYPE_CHECKING:
    import argparse

    from odps_nb.notebook.magics.arguments import Command

MAX_SHOWN = 200
TIME_TO_LIVE = 60.0
MAX_NAMES = 20_000
_PATIENCE = 0.2

Lookup = Callable[[str, str], Sequence[str]]
"""Returns names by kind and table: ``"tables"`` (table ``""``), ``"columns"``, ``"partitions"``."""
_Key = tuple[str, str]

# Matches "%odps read ord", even after an assignment or on the first line of a cell.
_LINE = re.compile(r"^\s*(?:[\w.,\s]+=\s*)?%(?P<cell>%?)odps(?P<rest>\s.*)?$", re.DOTALL)
_WORD = re.compile(r"[^\s,(]*$")
_VALUE = re.compile(r"(?<!\w)[:{](\w*)$")  # a placeholder for the value of a variable
_FILTER = re.compile(r"""(?:-w|--where)[\s=]+(?P<quote>["'])(?P<text>(?:(?!(?P=quote)).)*)$""")
# a string that is the first argument of a method, as in odps.sql("select …
_CALL = re.compile(
    r"""\b(?P<variable>\w+)\.(?P<method>table|drop_table|sql|sql_cost)\(\s*[frFR]*"""
    r"""(?P<quote>\"{3}|'{3}|"|')(?P<text>(?:(?!(?P=quote)).)*)$""",
    re.DOTALL,
)
# a string in the arguments of a read, as in odps.table("orders").read(where="id > 3 and …
_READ_CALL = re.compile(
    r"""\b(?P<variable>\w+)(?:\.table\(\s*["'](?P<table>[\w.]+)["']\s*\))?"""
    r"""\.(?:read|head|blobs|chart|scan_polars)\([^()]*?"""
    r"""(?P<partitions>\bpartitions=\s*\[?)?(?P<quote>["'])(?P<text>(?:(?!(?P=quote)).)*)$"""
)
_SQL_TABLE = re.compile(r"\b(?:from|join|into|table)\s+[`\w.]*$", re.IGNORECASE)
_SQL_TABLES = re.compile(
    r"\b(?:from|join)\s+`?([\w.]+)`?(?:\s+(?:as\s+)?(?!(?:on|where|join|group)\b)(\w+))?",
    re.IGNORECASE,
)
_SQL_WORDS = (
    "select from where group by order by having join left join on and or not between like limit "
    "distinct case when then else end cast over partition by union all"
)
_SQL_FUNCTIONS = (
    "abs avg ceil coalesce collect_list collect_set concat concat_ws count cume_dist date_format "
    "dateadd datediff datepart datetrunc day dense_rank exp explode first_value floor "
    "from_unixtime get_json_object getdate greatest hour if initcap instr isnull lag last_day "
    "last_value lead least length ln log lower lpad ltrim max max_by md5 median min min_by month "
    "ntile nvl percent_rank percentile percentile_approx posexplode pow rank regexp_count "
    "regexp_extract regexp_instr regexp_replace regexp_substr replace reverse round row_number "
    "rpad rtrim size sort_array split split_part sqrt stddev substr substring sum to_char to_date "
    "tolower toupper trim trunc unix_timestamp upper var_samp weekday weekofyear wm_concat year"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Completions for ``fragment``, the text immediately before the cursor."""

    fragment: str
    words: tuple[str, ...] = ()
    kind: str = "param"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that can be completed; the callables are called only when needed.

    ``names_of`` returns the names of the connection that a variable holds, or of the connection
    and name of a table.
    """

    commands: Mapping[str, Command]
    names: Lookup
    variables: Callable[[], Iterable[str]] = tuple
    profiles: Callable[[], Iterable[str]] = tuple
    names_of: Callable[[str], tuple[Lookup, str] | None] = lambda _: None


def complete(before: str, known: Known, after: str = "") -> Candidates | None:
    """Return completions for a cursor between ``before`` and ``after``; ``None`` if none apply."""
    lines = before.split("\n")
    first = _LINE.match(lines[0])
    if first and first["cell"] and len(lines) > 1:
        return _in_cell(first["rest"] or "", "\n".join(lines[1:]), after, known)
    here = _LINE.match(lines[-1])
    if here is None or here["rest"] is None:
        return _in_python(before, after, known)
    if (quoted := _FILTER.search(here["rest"])) is not None:
        command, *args = here["rest"][: quoted.start()].split() or [""]
        table = _table_of(known.commands.get(command), args)
        fragment = _WORD.search(quoted["text"])
        return _among(
            fragment[0] if fragment else "", known.names("columns", table) if table else ()
        )
    words = here["rest"].split()
    typed = "" if here["rest"][-1].isspace() else words.pop()
    if not words:
        return _among(typed, known.commands, "magic")
    name, *args = words
    if name == "help":
        return _among(typed, known.commands, "magic")
    command = known.commands.get(name)
    if command is None:
        return None
    if typed.startswith("-"):
        return _among(typed, command.option_strings())
    last = args[-1] if args else ""
    if last.startswith("-") and command.takes_value(last):
        return _value_of(command.option(last), typed, _table_of(command, args), known)
    return _positional(command, len(command.given(args)), typed, known)


def _in_python(before: str, after: str, known: Known) -> Candidates | None:
    """Complete in a string of a call such as ``odps.sql("…`` or ``table.read(where="…``."""
    call = _CALL.search(before)
    if call is not None and (lookup := known.names_of(call["variable"])) and not lookup[1]:
        if call["method"].startswith("sql"):
            return _in_sql(call["text"], after.partition(call["quote"])[0], lookup[0])
        is_name = not call["text"].strip("._") or call["text"].replace(".", "_").isidentifier()
        return _among(call["text"], lookup[0]("tables", ""), "table") if is_name else None
    read = _READ_CALL.search(before.rpartition("\n")[2])
    if read is None or (lookup := known.names_of(read["variable"])) is None:
        return None
    names, table = lookup
    if not (table := table or read["table"] or ""):
        return None
    if read["partitions"]:
        return _among(read["text"], names("partitions", table))
    return _among(_word(read["text"]), names("columns", table))


def _value_of(
    option: argparse.Action | None, typed: str, table: str | None, known: Known
) -> Candidates | None:
    if option is None:
        return None
    if option.dest in ("columns", "column") and table:
        return _among(typed.rpartition(",")[2], known.names("columns", table))
    if option.dest == "partition" and table:
        return _among(typed, known.names("partitions", table))
    if option.dest == "output":
        return _among(typed, known.variables(), "variable")
    return _among(typed, option.choices) if option.choices else None


def _positional(command: Command, place: int, typed: str, known: Known) -> Candidates | None:
    match command.positionals()[place : place + 1]:
        case ["target"]:
            return _among(typed, ["local", *known.profiles()])
        case ["source"]:
            return _among(typed, known.variables(), "variable")
        case ["table"]:
            return _among(typed, known.names("tables", ""), "table")
    return None if typed else _among(typed, command.option_strings())


def _table_of(command: Command | None, args: Sequence[str]) -> str | None:
    if command is None:
        return None
    named = dict(zip(command.positionals(), command.given(args), strict=False))
    return named.get("table")


def _in_cell(rest: str, body: str, after: str, known: Known) -> Candidates | None:
    """Complete in a cell's body: column names in a filter, or any names in a SQL query."""
    words, fragment = rest.split(), _word(body)
    if not words or not fragment:
        return None
    if (value := _VALUE.search(body)) is not None:
        return _among(value[1], known.variables(), "variable")
    if words[0] == "read":
        table = _table_of(known.commands.get("read"), words[1:])
        return _among(fragment, known.names("columns", table)) if table else None
    return _in_sql(body, after, known.names) if words[0] in ("sql", "spark") else None


def _in_sql(body: str, after: str, names: Lookup) -> Candidates | None:
    """Complete names of tables, columns and functions in a query."""
    if not (fragment := _word(body)):
        return None
    if _SQL_TABLE.search(body):
        return _among(fragment, names("tables", ""), "table")
    # in "select am… from orders" the table comes after the cursor
    tables = {alias.casefold(): table for table, alias in _SQL_TABLES.findall(f"{body} {after}")}
    owner, _, typed = fragment.rpartition(".")
    if owner and (table := tables.get(owner.casefold())):
        return _among(typed, names("columns", table))
    read = dict.fromkeys(table for table, _ in _SQL_TABLES.findall(f"{body} {after}"))
    columns = [column for table in read for column in names("columns", table)]
    if owner:  # the name of a table, or an alias of a subquery
        return _among(typed, columns)
    candidates = _among(fragment, [*columns, *names("tables", "")])
    known = f"{_SQL_FUNCTIONS} {_SQL_WORDS}"
    keywords = _among(fragment, (known.upper() if fragment.isupper() else known).split())
    return replace(candidates, words=(*candidates.words, *keywords.words)[:MAX_SHOWN])


def _word(text: str) -> str:
    match = _WORD.search(text)
    return match[0] if match else ""


def _among(fragment: str, words: Iterable[str], kind: str = "param") -> Candidates:
    folded = fragment.casefold()
    fitting = (word for word in words if word.casefold().startswith(folded))
    # a name with a line break would insert an additional line into the cell
    matches = dict.fromkeys(word for word in fitting if word.isprintable())
    return Candidates(fragment=fragment, words=tuple(matches)[:MAX_SHOWN], kind=kind)


def matcher(completer: Any, ask: Callable[[str, str], Candidates | None]) -> Callable[..., Any]:
    """Return an IPython matcher (API 2) that passes the text around the cursor to ``ask``.

    IPython 7 (on Colab and Kaggle) has only API 1, in which ``ask`` gets the cursor's line.
    """
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:

        def odps_line_matcher(text: str) -> list[str]:
            candidates = ask(completer.text_until_cursor, "") or Candidates(fragment="")
            # IPython replaces ``text``, which may be longer or shorter than the fragment.
            return [text + word[len(candidates.fragment) :] for word in candidates.words]

        return odps_line_matcher

    @context_matcher(identifier="odps_nb")  # type: ignore[untyped-decorator]  # untyped
    def odps_matcher(context: Any) -> dict[str, Any]:
        lines = context.full_text.split("\n")
        before, after = lines[: context.cursor_line + 1], lines[context.cursor_line + 1 :]
        after.insert(0, before[-1][context.cursor_position :])
        before[-1] = before[-1][: context.cursor_position]
        candidates = ask("\n".join(before), "\n".join(after))
        if candidates is None:
            return {"completions": [], "suppress": False}
        # Suppress IPython's own completions (Python names and files). IPython ignores the
        # suppression if a matcher returns no words, so return the typed text.
        words = candidates.words or (candidates.fragment,)
        return {
            "completions": [SimpleCompletion(text=word, type=candidates.kind) for word in words],
            "matched_fragment": candidates.fragment,
            "suppress": True,
            "ordered": True,
        }

    return odps_matcher  # type: ignore[no-any-return]  # untyped in IPython


class NameCache:
    """A cache of table, column and partition names that refreshes names after ``ttl`` seconds."""

    def __init__(
        self,
        fetch: Lookup,
        *,
        ttl: float = TIME_TO_LIVE,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch, self._ttl, self._clock, self._patience = fetch, ttl, clock, patience
        self._answers: set[_Key] = set()
        self._waited: set[_Key] = set()
        self._known: dict[_Key, tuple[str, ...]] = {}
        self._asked: dict[_Key, float] = {}
        self._closed = False
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Reset the thread, which does not survive a fork; the next lookup starts a new one."""
        # for `with`, because Condition.__enter__ keeps the lock if Ctrl-C interrupts it
        self._lock = threading.RLock()
        self._answered = threading.Condition(self._lock)
        self._wanted: queue.SimpleQueue[_Key | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def look_up(self, kind: str, of: str = "") -> tuple[str, ...]:
        """Return the cached names; see `Lookup`."""
        key = (kind, of)
        with self._lock:
            self._ask(key)
            if self._patience and not self._closed and key not in self._waited:
                self._waited.add(key)  # a slow service must not delay every Tab
                self._answered.wait_for(lambda: key in self._answers, self._patience)
            return self._known.get(key, ())

    def prefetch(self) -> None:
        """Start fetching the table names, without waiting for them."""
        with self._lock:
            self._ask(("tables", ""))

    def known(self, kind: str, of: str) -> tuple[str, ...] | None:
        """Return names younger than ``ttl``, or ``None``; waits for a fetch that is running."""
        key = (kind, of)
        with self._lock:
            requested_at = self._asked.get(key)
            if requested_at is None or self._clock() - requested_at >= self._ttl:
                return None
            self._answered.wait_for(lambda: key in self._answers, self._patience)
            return self._known.get(key)

    def remember(self, kind: str, of: str, names: Sequence[str]) -> None:
        """Add names that were fetched elsewhere to the cache."""
        with self._lock:
            self._asked[kind, of] = self._clock()
            self._put((kind, of), names)

    def close(self) -> None:
        """Stop the thread; a running request is completed first. Idempotent."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wanted.put(None)
            thread.join(_PATIENCE)

    def _put(self, key: _Key, names: Sequence[str] | None) -> None:
        if names is not None:
            self._known[key] = tuple(names[:MAX_NAMES])
        self._answers.add(key)
        self._answered.notify_all()

    def _ask(self, key: _Key) -> None:
        """Queue a fetch if the names are missing or expired. The caller holds the lock."""
        now = self._clock()
        requested_at = self._asked.get(key)
        if self._closed or (requested_at is not None and now - requested_at < self._ttl):
            return
        self._asked[key] = now
        self._wanted.put(key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._refresh, name="odps-nb-names", daemon=True)
            self._thread.start()

    def _refresh(self) -> None:
        while (key := self._wanted.get()) is not None:
            try:
                names = self._fetch(*key)
            except OdpsNbError:
                names = None  # completion then offers no names; a command would show the error
            with self._lock:
                self._put(key, names)
