"""Allowed imports: every import, read with ``ast``, and the modules that are really loaded.

The layers are those of ``docs/architecture.md``. A module imports only from layers below its own;
`CROSSINGS` lists the exceptions with their reasons.
"""

from __future__ import annotations

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "odps_nb"
VALUES = {"errors", "terms", "schema", "secret", "type_facts"}
VALUES_AND_LIFE = VALUES | {"lifetime", "explained"}

# package -> the packages below it; a package can always import itself
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "lifetime": {"errors"},
    "child_process": set(),
    "secret": set(),
    "schema": set(),
    "type_facts": {"schema"},
    "terms": {"errors"},
    "explained": {"errors", "terms"},
    "sql_parser": set(),
    "wire": VALUES,
    "arrow": VALUES | {"wire"},
    "http": VALUES_AND_LIFE | {"wire"},
    "parsing": VALUES | {"child_process"},
    "html": {"errors"},
    "convert": VALUES | {"wire", "arrow", "parsing"},
    "formats": VALUES | {"html", "parsing", "convert", "arrow"},
    "filters": VALUES | {"sql_parser"},
    "client": VALUES_AND_LIFE | {"wire", "arrow", "http", "filters"},
    "access": VALUES_AND_LIFE | {"html", "wire", "http", "convert", "formats", "filters", "client"},
    "notebook": VALUES_AND_LIFE
    | {"html", "wire", "arrow", "http", "parsing", "convert", "formats", "client", "access"},
    "spark": VALUES_AND_LIFE
    | {"wire", "http", "convert", "filters", "client", "access", "sql_parser"},
    "probe": VALUES_AND_LIFE | {"wire", "http", "client"},
    "local": VALUES_AND_LIFE | {"wire", "arrow", "sql_parser", "child_process"},
    "stream_io": VALUES_AND_LIFE | {"wire", "http", "client"},
}
FACES = {"__init__", "cli", "torch", "types"}  # above all layers

# (importing module, imported package): why it is allowed
CROSSINGS = {
    ("odps_nb.notebook.magics.reading", "spark"): "a person asked for -t spark",
    ("odps_nb.notebook.magics.spark_sql", "spark"): "%%odps spark is odps_nb.spark.explain_sql",
    ("odps_nb.notebook.magics.commands", "__init__"): "%odps connect is odps_nb.connect",
    ("odps_nb.notebook.magics.context", "__init__"): "magics connect as odps_nb.connect does",
    ("odps_nb.probe.command", "local"): "--local starts the embedded service",
    ("odps_nb.spark.tasks.shipping", "__init__"): "names the version that executors need",
}

# The methods of `access` that use a higher layer, and therefore import it when they are called.
# (importing module, imported module): purpose
UPWARD = {
    ("odps_nb.access.blobs.column", "odps_nb.notebook.gallery.page"): "a column is displayed",
    (
        "odps_nb.access.blobs.column",
        "odps_nb.notebook.gallery.view",
    ): "a column in Jupyter",
    ("odps_nb.access.blob", "odps_nb.notebook.preview.tile"): "a blob is displayed",
    ("odps_nb.access.connect", "odps_nb.local.server.launch"): 'connect("local")',
    ("odps_nb.access.connection", "odps_nb.local.server.launch"): "the type of its service",
    ("odps_nb.access.displayed", "odps_nb.notebook.live.live_view"): "the type of a live view",
    ("odps_nb.access.pickling", "odps_nb.local.server.launch"): "keys of an embedded service",
    ("odps_nb.access.progress", "odps_nb.notebook.progress.cards"): "a card in a notebook",
    ("odps_nb.access.progress", "odps_nb.notebook.progress.spinner"): "a spinner in marimo",
    ("odps_nb.access.progress", "odps_nb.notebook.display.output"): "the end of a cell",
    ("odps_nb.access.progress", "odps_nb.notebook.progress.line"): "a line in a terminal",
    ("odps_nb.access.queries", "odps_nb.notebook.display.listing"): "queries are displayed",
    ("odps_nb.access.viewed", "odps_nb.notebook.explore.charts.chart"): "charts of rows",
    ("odps_nb.access.viewed", "odps_nb.notebook.explore.charts.choice"): "types of charts",
    ("odps_nb.access.viewed", "odps_nb.notebook.explore.explorer"): "an explorer of rows",
    ("odps_nb.access.row_forms", "odps_nb.notebook.explore.static"): "rows are displayed",
    ("odps_nb.access.scan", "odps_nb.spark.reading.dataframe"): "Scan.to_spark",
    ("odps_nb.access.sql", "odps_nb.spark.reading.dataframe"): "Result.to_spark",
    ("odps_nb.access.table", "odps_nb.notebook.display.listing"): "a table is displayed",
    ("odps_nb.access.table", "odps_nb.notebook.explore.static"): "first rows are displayed",
    ("odps_nb.access.writing.columns", "odps_nb.spark.writing.checks"): "columns of Spark",
    ("odps_nb.access.writing.rows", "odps_nb.spark.writing.dataframe"): "a DataFrame of Spark",
}

# library -> the packages that may import it at run time (not only for type checkers)
ONLY_IN = {
    "requests": {"http"},
    "urllib3": {"http"},
    "pandas": {"convert"},
    "pyspark": {"spark"},
    "IPython": {"notebook"},
    "anywidget": {"notebook"},
    "ipywidgets": {"notebook"},
    "traitlets": {"notebook"},
    "ipykernel": {"notebook"},
    "tqdm": {"notebook"},
    "keyring": {"client"},
    "duckdb": {"local"},
    "sqlglot": {"local", "spark", "filters", "sql_parser"},
    "starlette": {"local"},
    "uvicorn": {"local"},
    "sqlite3": {"local", "formats"},
    "odps": set(),
    "torch": {"torch"},
    "matplotlib": set(),
}
NOT_PURE = {
    *("asyncio", "concurrent", "http", "logging", "multiprocessing", "os", "pathlib", "pyarrow"),
    *("queue", "random", "requests", "secrets", "select", "selectors", "shutil", "signal"),
    *("socket", "socketserver", "ssl", "subprocess", "tempfile", "threading", "time"),
    *("urllib.request", "uuid", "weakref"),
}


@dataclass(frozen=True)
class Import:
    """One import: the importing module, the imported name, and whether it is only for types."""

    importer: str
    imported: str
    for_types: bool
    deferred: bool = False
    """Whether it runs when a function is called."""

    @property
    def package(self) -> str:
        return package_of(self.importer)

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return every module of the package, parsed on first use, because most workers need none."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def is_for_types(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports_in(
    node: ast.AST, module: str, *, for_types: bool = False, deferred: bool = False
) -> Iterator[Import]:
    deferred = deferred or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for child in ast.iter_child_nodes(node):
        typing_only = for_types
        if isinstance(child, ast.If) and is_for_types(child):
            typing_only = True
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, alias.name, typing_only, deferred)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module}: use absolute imports"
            source = child.module or ""
            for alias in child.names:
                inner = f"{source}.{alias.name}"
                found = inner if inner in FILES else source
                yield Import(module, found, typing_only, deferred)
        else:
            yield from imports_in(child, module, for_types=typing_only, deferred=deferred)


@functools.cache
def imports() -> list[Import]:
    return [found for name, tree in trees().items() for found in imports_in(tree, name)]


def ours() -> list[Import]:
    return [found for found in imports() if found.imported.split(".")[0] == "odps_nb"]


def foreign() -> list[Import]:
    return [found for found in imports() if found.imported.split(".")[0] != "odps_nb"]


def test_every_module_has_a_layer() -> None:
    assert {package_of(name) for name in FILES} - FACES == set(BELOW)


def test_modules_import_only_lower_layers() -> None:
    wrong = [
        str(found)
        for found in ours()
        if found.package not in FACES
        and package_of(found.imported) not in BELOW[found.package] | {found.package}
        and (found.importer, package_of(found.imported)) not in CROSSINGS
        and not ((found.importer, found.imported) in UPWARD and (found.deferred or found.for_types))
    ]
    assert wrong == []


def part_of(module: str) -> str:
    """Return the package of a module; a module next to sub-packages represents itself."""
    packages = {name for name, path in FILES.items() if path.name == "__init__.py"}
    own = module if module in packages else module.rpartition(".")[0]
    return module if any(name.startswith(f"{own}.") for name in packages) else own


@functools.cache
def cycles() -> list[set[str]]:
    """Return the sets of packages that import each other, including imports inside functions.

    Imports for types do not count, nor do those that `UPWARD` and `CROSSINGS` list.
    """
    graph: dict[str, set[str]] = {}
    for found in ours():
        crosses = (found.importer, found.imported) in UPWARD
        crosses |= (found.importer, package_of(found.imported)) in CROSSINGS
        if found.imported in FILES and not found.for_types and not crosses:
            graph.setdefault(part_of(found.importer), set()).add(part_of(found.imported))
    reached = {start: _reached(graph, start) for start in graph}
    together = [
        frozenset(other for other in there if start in reached.get(other, ()))
        for start, there in reached.items()
    ]
    return [set(one) for one in dict.fromkeys(together) if len(one) > 1]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    reached, waiting = set(), [start]
    while waiting:
        for one in graph.get(waiting.pop(), set()) - reached:
            reached.add(one)
            waiting.append(one)
    return reached


def test_packages_have_no_import_cycles() -> None:
    assert [sorted(one) for one in cycles()] == []


def test_every_listed_import_exception_is_used() -> None:
    real = {(found.importer, package_of(found.imported)) for found in ours()}
    unused = {crossing for crossing in CROSSINGS if crossing not in real}
    assert unused == set()
    assert set(UPWARD) - {(found.importer, found.imported) for found in ours()} == set()


def test_libraries_are_imported_only_by_their_packages() -> None:
    wrong = [
        str(found)
        for found in foreign()
        if (top := found.imported.split(".")[0]) in ONLY_IN
        and found.package not in ONLY_IN[top]
        and not found.for_types
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["errors", "terms", "schema", "type_facts", "wire"])
def test_the_lowest_layers_use_no_sockets_threads_or_environment(package: str) -> None:
    wrong = [
        str(found)
        for found in foreign()
        if found.package == package and {found.imported, found.imported.split(".")[0]} & NOT_PURE
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["errors", "terms", "schema", "type_facts", "wire"])
def test_the_lowest_layers_read_no_clock_and_open_no_file(package: str) -> None:
    asked = [
        f"{name}:{node.lineno} {ast.unparse(node.func)}"
        for name, tree in trees().items()
        if package_of(name) == package
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2]
        in {"now", "utcnow", "today", "open", "getenv", "print", "input"}
    ]
    assert asked == []


@pytest.mark.parametrize("package", ["errors", "terms", "schema", "type_facts", "wire"])
def test_the_lowest_layers_use_sys_only_for_constants(package: str) -> None:
    asked = {
        node.attr
        for name, tree in trees().items()
        if package_of(name) == package
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys"
    }
    assert asked <= {"byteorder", "maxsize", "version_info"}


def test_http_does_not_import_arrow() -> None:
    assert [
        str(f) for f in foreign() if f.package == "http" and f.imported.startswith("pyarrow")
    ] == []


# Packages whose own file collects names: public ones, and the calls.
GATHER = {"spark", "stream_io", "torch", "wire/calls", "wire/control"}


def test_init_files_below_the_public_api_are_empty() -> None:
    """A Spark executor that imports one module must not load a whole package."""
    full = {
        path.parent.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("__init__.py")
        if path.parent != ROOT and path.read_text(encoding="utf-8")
    }
    assert full == GATHER


def test_every_folder_is_a_package() -> None:
    """A folder without ``__init__.py`` is missing from the wheel."""
    folders = {path.parent for path in ROOT.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_with_statement_takes_a_condition() -> None:
    """`Condition.__enter__` is Python code: Ctrl-C in it leaves the lock taken, for ever.

    A ``with`` on the condition's own lock, which is written in C, has no such moment.
    """
    found = []
    for name, tree in trees().items():
        nodes = list(ast.walk(tree))
        made = {
            ast.unparse(node.targets[0])
            for node in nodes
            if isinstance(node, ast.Assign)
            and ast.unparse(node.value).startswith(("threading.Condition(", "Condition("))
        }
        taken = (item for node in nodes if isinstance(node, ast.With) for item in node.items)
        found += [name for item in taken if ast.unparse(item.context_expr) in made]
    assert found == []


def test_every_module_has_a_docstring() -> None:
    silent = [
        name
        for name, tree in trees().items()
        if tree.body and not (ast.get_docstring(tree) or "").strip()
    ]
    assert silent == []


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_at_most_two_modules_are_named_catalog() -> None:
    assert [path.stem for path in FILES.values()].count("catalog") <= 2


def bound_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def exports(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign)
            found = ast.literal_eval(node.value)
            return [str(name) for name in found]
    return None


def imported_names(tree: ast.Module) -> set[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {(one.asname or one.name).split(".")[0] for node in imports for one in node.names}


PUBLIC = ("odps_nb", "odps_nb.spark", "odps_nb.torch", "odps_nb.stream_io", "odps_nb.errors")


@pytest.mark.parametrize("name", FILES)
def test_a_module_defines_dunder_all_if_it_is_public_or_exports_imported_names(name: str) -> None:
    """Elsewhere, an underscore marks what is private to a module."""
    listed = exports(trees()[name])
    if name in PUBLIC:
        assert listed is not None
    elif listed is not None:
        own = bound_names(trees()[name]) - imported_names(trees()[name])
        assert set(listed) - own, f"{name} exports only its own names: remove __all__"
    if listed is None:
        return
    assert len(set(listed)) == len(listed)
    if "__getattr__" in bound_names(trees()[name]):  # names that are imported on first use
        module = importlib.import_module(name)
        assert [export for export in listed if not hasattr(module, export)] == []
    else:
        assert set(listed) - bound_names(trees()[name]) == set()


# -- what really loads ------------------------------------------------------------------------

FOREVER_LAZY = ("pandas", "pyspark", "IPython", "ipywidgets", "duckdb", "starlette", "uvicorn")
LOADS = [
    ("odps_nb odps_nb.torch", ("numpy", "pyarrow", "requests", *FOREVER_LAZY)),
    ("odps_nb.errors odps_nb.terms odps_nb.schema", ("numpy", "pyarrow", "requests")),
    ("wire", ("pyarrow", "requests", *FOREVER_LAZY)),
    ("arrow", ("requests", *FOREVER_LAZY)),
    ("http", ("pyarrow", *FOREVER_LAZY)),
    ("client", FOREVER_LAZY),
    ("local", ("requests", "PIL", "pyspark", "IPython", "ipywidgets")),
]


def spelled_out(what: str) -> list[str]:
    if what.startswith("odps_nb"):
        return what.split()
    return [name for name in FILES if package_of(name) == what]


@pytest.mark.gate(3)
@pytest.mark.parametrize(("what", "unwanted"), LOADS, ids=[what for what, _ in LOADS])
def test_a_package_loads_no_library_of_other_packages(what: str, unwanted: tuple[str, ...]) -> None:
    code = (
        "import importlib, sys\n"
        "before = set(sys.modules)\n"
        f"for name in {spelled_out(what)!r}: importlib.import_module(name)\n"
        "print('\\n'.join(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    tops = {name.split(".")[0] for name in loaded}
    assert tops & set(unwanted) == set()
    assert set(spelled_out(what)) <= set(loaded)
