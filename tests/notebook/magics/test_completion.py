from __future__ import annotations

import threading
import time

import pytest

from odps_nb.errors import ConnectError
from odps_nb.notebook.magics.commands import COMMANDS
from odps_nb.notebook.magics.completion import Known, NameCache, complete
from tests.support.clocks import Clock
from tests.support.threads import wait_until


def names(kind, of):
    """Return cached names of tables, columns and partitions."""
    hostile = ["x\n!touch x", "x\u2028y", "x\x00"]  # would add lines to a cell
    known = {
        ("tables", ""): ["orders", "media", "Documents"],
        ("columns", "orders"): ["id", "amount", "ds", *hostile],
        ("columns", "media"): hostile,
        ("partitions", "orders"): ["ds=2024-01-01", "ds=2024-01-02"],
    }
    return known.get((kind, of), [])


def words(before: str, after: str = "") -> tuple[str, ...] | None:
    known = Known(
        commands=COMMANDS,
        names=names,
        variables=lambda: ["frame", "other"],
        profiles=lambda: ["prod"],
        names_of=lambda one: {"odps": (names, ""), "orders": (names, "orders")}.get(one),
    )
    found = complete(before, known, after)
    return None if found is None else found.words


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("%odps re", ("read",)),
        ("%odps ", tuple(COMMANDS)),
        ("df = %odps re", ("read",)),
        ("x = 1\n%odps re", ("read",)),
        ("%odps read or", ("orders",)),
        ("%odps read doc", ("Documents",)),
        ("%odps read ", ("orders", "media", "Documents")),
        ("%odps read orders --co", ("--columns",)),
        ("%odps blobs media --view ", ("grid", "list")),
        ("%odps write --index frame or", ("orders",)),
        ("%odps read orders -c am", ("amount",)),
        ("%odps read orders -c id,am", ("amount",)),
        ("%odps read media -c x", ()),
        ("%odps read orders -p ds=2024-01-02", ("ds=2024-01-02",)),
        ("%odps read orders -p ", ("ds=2024-01-01", "ds=2024-01-02")),
        ("%odps read orders -t ar", ("arrow",)),
        ("%odps read orders --decimals ", ("auto", "exact", "float")),
        ("%odps head orders --dtype-backend py", ("pyarrow",)),
        ("%odps read orders --text re", ("replace",)),
        ("%odps read --char-padding or", ("orders",)),
        ("%odps read orders -o fr", ("frame",)),
        ("%odps read -q or", ("orders",)),
        ("%odps read -n 5 or", ("orders",)),
        ("%odps connect lo", ("local",)),
        ("%odps connect p", ("prod",)),
        ("%odps write fr", ("frame",)),
        ("%odps write frame or", ("orders",)),
        ("%%odps read orders\nam", ("amount",)),
        ("%%odps read orders\nid > 3 and am", ("amount",)),
        ("%%odps sql\nselect * from or", ("orders",)),
        ("%%odps sql\nselect *\nfrom orders where am", ("amount",)),
        ("%%odps sql\nselect med", ("media", "median")),
        ("%%odps sql\nselect * from orders where ds = :fr", ("frame",)),
        ("%%odps sql\nselect * from {fr", ("frame",)),
        ("%%odps sql\nselect id from orders ORD", ("orders", "ORDER")),
        ("%%odps sql\nselect to_c", ("to_char",)),
        ("%%odps sql\nselect m.x from orders o join media as m on o.am", ("amount",)),
        ("%%odps sql\nselect m.x from orders o join media as m on m.am", ()),
        ("%%odps sql\nselect * from orders o where o.am", ("amount",)),
        ("%odps help re", ("read",)),
        ('%odps read orders -w "am', ("amount",)),
        ("%odps read -n 5 orders -w 'id > 3 and am", ("amount",)),
        ('%odps -w "am', ()),  # the name of the subcommand is missing
        ('%odps read orders --where="', ("id", "amount", "ds")),
        ('odps.table("or', ("orders",)),
        ("x = odps.table('", ("orders", "media", "Documents")),
        ('odps.sql("select * from or', ("orders",)),
        ('df = odps.sql(\n    """select *\nfrom orders\nwhere am', ("amount",)),
        ("odps.sql_cost(f'select max_", ("max_by",)),
        ('odps.table("orders").read(where="id > 3 and am', ("amount",)),
        ('orders.read(["id", "am', ("amount",)),
        ('orders.chart("am', ("amount",)),
        ("orders.read(columns=['am", ("amount",)),
        ("orders.read(partitions='ds=2024-01-02", ("ds=2024-01-02",)),
    ],
)
def test_tab_offers_names_that_fit_the_context(before, expected):
    assert words(before) == expected


def test_columns_of_a_query_are_taken_from_tables_after_the_cursor():
    assert words("%%odps sql\nselect am", " from orders where ds = '1'") == ("amount",)
    assert words("%%odps sql\nselect am", "\nfrom media") == ()
    assert words('odps.sql("select am', ' from orders")') == ("amount",)


@pytest.mark.parametrize(
    "before",
    [
        *("", "import o", "odps re", "%odpsx ", "%odps", "x = 1\nor", "%odps read orders -w am"),
        *('frame.table("or', 'odps.table("orders")', 'table("or', 'frame.sql("select or'),
        *('odps.sql("select 1"); or', 'orders.sql("sel', 'odps.read("am', "orders.read(am"),
    ],
)
def test_outside_of_our_magics_ipython_completes(before):
    assert words(before) is None


class SlowSource:
    """A service that responds only when the test allows it."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_answer = threading.Event()
        self.fails = False

    def __call__(self, kind, of):
        if kind != "tables":
            return [f"{of}_c"]
        self.calls += 1
        assert self.may_answer.wait(10)
        if self.fails:
            raise ConnectError("nobody listens")
        return [f"t{self.calls}"]


@pytest.fixture
def cache():
    source, clock = SlowSource(), Clock(0.0)
    cache = NameCache(source, ttl=60, clock=clock)
    yield cache, source, clock
    source.may_answer.set()
    cache.close()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "odps-nb-names"])


def test_a_lookup_never_waits_for_the_service(cache):
    names, source, _ = cache
    assert names.look_up("tables") == ()  # the source does not respond yet
    assert names.look_up("tables") == ()
    source.may_answer.set()
    wait_until(lambda: names.look_up("tables") == ("t1",))
    assert source.calls == 1


def test_cached_names_are_returned_while_new_names_are_fetched(cache):
    names, source, clock = cache
    source.may_answer.set()
    names.look_up("tables")
    wait_until(lambda: names.look_up("tables") == ("t1",))
    source.may_answer.clear()
    clock.now = 61
    assert names.look_up("tables") == ("t1",)
    source.may_answer.set()
    wait_until(lambda: names.look_up("tables") == ("t2",))


def test_a_failed_lookup_shows_no_error_and_is_retried_later(cache):
    names, source, clock = cache
    source.fails = True
    source.may_answer.set()
    names.look_up("tables")
    wait_until(lambda: source.calls == 1)
    assert names.look_up("columns", "a") == ()
    wait_until(lambda: names.look_up("columns", "a") == ("a_c",))
    assert names.look_up("tables") == ()
    source.fails, clock.now = False, 61
    names.look_up("tables")
    wait_until(lambda: names.look_up("tables") == ("t2",))


def test_a_closed_cache_starts_no_thread(cache):
    names, source, _ = cache
    names.close()
    names.close()
    assert names.look_up("tables") == ()
    assert source.calls == 0


def test_a_first_lookup_waits_briefly_and_only_once_for_a_hanging_service():
    source = SlowSource()
    cache = NameCache(source, patience=0.05)
    began = time.monotonic()
    assert cache.look_up("tables") == ()
    assert time.monotonic() - began < 5  # less than the 10 s that this service takes
    for _ in range(1000):
        assert cache.look_up("tables") == ()
    assert time.monotonic() - began < 20  # 1000 waits would take 50 seconds
    source.may_answer.set()
    cache.close()


def test_a_first_lookup_returns_the_names_of_a_responding_service():
    source = SlowSource()
    source.may_answer.set()
    cache = NameCache(source, patience=30)
    cache.prefetch()
    assert cache.look_up("columns", "t") == ("t_c",)
    assert cache.look_up("tables") == ("t1",)
    source.fails = True
    failing = NameCache(source, patience=30)
    assert failing.look_up("tables") == ()  # returns immediately, because the lookup failed before
    for one in (cache, failing):
        one.close()
