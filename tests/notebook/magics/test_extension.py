from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.utils.capture import capture_output

import odps_nb
from odps_nb import load_ipython_extension, unload_ipython_extension
from odps_nb.notebook.magics.commands import COMMANDS
from tests.support.shell import usage_error


def our_threads() -> list[str]:
    ours = {"odps-nb-flusher", "odps-nb-names", "odps-nb-background"}
    return [t.name for t in threading.enumerate() if t.name in ours]


def test_loading_the_extension_prints_nothing_and_adds_no_names(shell, shown, capsys):
    before = set(shell.user_ns)
    load_ipython_extension(shell)
    assert set(shell.user_ns) == before
    assert shown == []
    assert capsys.readouterr() == ("", "")
    assert our_threads() == []


def test_loading_the_extension_twice_has_no_additional_effect(shell):
    load_ipython_extension(shell)
    magics = shell.magics_manager.registry["OdpsMagics"]
    matchers = len(shell.Completer.custom_matchers)
    load_ipython_extension(shell)
    assert shell.magics_manager.registry["OdpsMagics"] is magics
    assert len(shell.Completer.custom_matchers) == matchers


def shell_state(shell) -> tuple:
    manager = shell.magics_manager
    return (
        {kind: dict(found) for kind, found in manager.magics.items()},
        set(manager.registry),
        list(shell.Completer.custom_matchers),
        list(shell.input_transformers_cleanup),
        list(shell.configurables),
        shell.custom_exceptions,
        shell.CustomTB,
    )


def test_unloading_the_extension_restores_the_state_of_the_shell(shell):
    before = shell_state(shell)
    load_ipython_extension(shell)
    assert shell_state(shell) != before
    unload_ipython_extension(shell)
    assert shell_state(shell) == before
    unload_ipython_extension(shell)
    assert shell_state(shell) == before


def test_an_earlier_magic_of_the_same_name_is_restored(shell):
    def odps(line):
        return "theirs"

    shell.register_magic_function(odps, "line", "odps")
    load_ipython_extension(shell)
    unload_ipython_extension(shell)
    assert shell.run_line_magic("odps", "") == "theirs"


def test_the_extension_loads_again_after_unloading(shell):
    for _ in range(3):
        load_ipython_extension(shell)
        unload_ipython_extension(shell)
    load_ipython_extension(shell)
    assert "odps" in shell.magics_manager.magics["line"]


def test_config_shows_and_sets_the_options(shell, capsys):
    load_ipython_extension(shell)
    shell.run_line_magic("config", "OdpsMagics")
    text = capsys.readouterr().out
    for name in ("result_type", "limit", "progress", "refresh_hz", "preview_rows", "traceback"):
        assert f"OdpsMagics.{name}=" in text
    shell.run_line_magic("config", "OdpsMagics.progress = 'none'")
    assert shell.magics_manager.registry["OdpsMagics"].options().progress == "none"


@pytest.mark.parametrize(
    "setting", ["result_type = 'csv'", "refresh_hz = 50", "limit = 0", "progress = 'loud'"]
)
def test_config_refuses_invalid_values(shell, setting):
    load_ipython_extension(shell)
    before = shell.magics_manager.registry["OdpsMagics"].options()
    shell.run_cell(f"%config OdpsMagics.{setting}")
    assert shell.magics_manager.registry["OdpsMagics"].options() == before


LOAD = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "odps_nb")
print([m for m in ("pandas", "pyarrow", "requests", "ipywidgets", "pyspark") if m in sys.modules])
"""


def test_loading_the_extension_imports_no_large_library():
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def words(shell, text: str) -> list[str]:
    """Return the completions at the end of a cell, each as the complete new text."""
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return [text[: one.start] + one.text for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%odps rea", "%odps read"),
        ("%odps read orders --dry", "%odps read orders --dry-run"),
        ("%odps read orders -t ar", "%odps read orders -t arrow"),
        ("x = 1\n%odps write frame_of_m", "x = 1\n%odps write frame_of_mine"),
    ],
)
def test_tab_completes_in_a_real_completer(shell, text, expected):
    load_ipython_extension(shell)
    shell.user_ns["frame_of_mine"] = 1
    assert words(shell, text) == [expected]


def test_tab_offers_only_our_names(shell):
    load_ipython_extension(shell)
    start = "%odps read orders -t "
    assert words(shell, start) == [start + kind for kind in ("pandas", "arrow", "spark", "batches")]


@pytest.mark.parametrize("text", ["%odps read orders -c ", "%odps read orders -c zz"])
def test_tab_offers_no_other_words_before_our_names_are_fetched(shell, text):
    """IPython completes variables and files if a matcher returns no words."""
    load_ipython_extension(shell)
    assert words(shell, text) == [text]  # the text before the cursor


def test_tab_completion_outside_of_our_magics_is_unchanged(shell):
    before = words(shell, "import collectio")
    load_ipython_extension(shell)
    assert words(shell, "import collectio") == before


def run(shell, text: str) -> str:
    """Run a cell and return its output as text."""
    with capture_output() as shown:
        result = shell.run_cell(text)
    outputs = [output.data.get("text/plain", "") for output in shown.outputs]
    assert result.error_before_exec is None
    outputs += [] if result.result is None else [repr(result.result)]
    return "\n".join([*outputs, shown.stdout, shown.stderr])


def test_help_shows_one_subcommand(shell):
    load_ipython_extension(shell)
    by_mark, by_option = run(shell, "%odps read?"), run(shell, "%odps read --help")
    assert run(shell, "%%odps read?") == by_option
    assert by_mark == by_option
    assert by_mark.startswith("%odps read")
    assert "--dry-run" in by_mark
    assert "%odps cancel ID" in run(shell, "%odps cancel -h")


def test_the_subcommand_help_shows_the_help(shell):
    load_ipython_extension(shell)
    assert run(shell, "%odps help read") == run(shell, "%odps read --help")


def test_help_lists_all_subcommands(shell):
    load_ipython_extension(shell)
    text = run(shell, "%odps")
    assert "%%odps sql" in text
    assert run(shell, "%odps help") == text
    assert shell.find_line_magic("odps").__doc__ in text


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%odps raed", "%odps has no subcommand 'raed'; did you mean read?"),
        ("%odps chart", "%odps has no subcommand 'chart'; %odps help lists them"),
        (
            "%odps read t -w a = 'b'",
            """unexpected argument '='; quote the filter: -w "amount > 10\"""",
        ),
        (
            "%odps read t -c a, b",
            "unexpected argument 'b'; write the columns as a,b without spaces",
        ),
        (
            "%odps sql",
            "%odps sql needs a query: write it on the line or below %%odps sql",
        ),
        (
            "%%odps tables\nx",
            "%%odps tables takes no cell: write %odps tables on one line",
        ),
        ("%odps read", "the following arguments are required: TABLE"),
        ("%odps read t -o 1x", "-o 1x: not a valid variable name"),
        *(
            (
                f"%odps read t -o {name}",
                f"-o {name}: this name belongs to Python or IPython; pass another one",
            )
            for name in ("print", "__builtins__", "Out", "get_ipython", "__name__", "sum")
        ),
        *(
            (
                f"%odps {command} -o {name}",
                f"-o {name}: this variable holds a {kind}; pass another name",
            )
            for command, name, kind in (
                ("read t", "odps", "connection"),
                ("sql", "odps", "connection"),
                ("read t", "odps_nb", "module"),
                ("connect local", "odps_nb", "module"),
            )
        ),
        ("%odps read t -o for", "-o for: not a valid variable name"),
        ("%odps write frme t", "there is no variable 'frme'; did you mean frame?"),
        ("%odps cancel 7", "no operation has the id 7; see %odps status"),
        (
            "%odps read t -w 'a > :mi'",
            ":mi has no value: there is no variable 'mi'; assign it first: mi = …",
        ),
        (
            "%odps connect prod --root x",
            "--root is for local only: %odps connect local --root DIR",
        ),
    ],
)
def test_invalid_input_prints_one_line_in_an_error_output(shell, cell, message):
    load_ipython_extension(shell)
    key = odps_nb.AccessKey("me", "a key")
    odps = odps_nb.connect(endpoint="http://127.0.0.1:1/api", project="p", credentials=key)
    shell.user_ns |= {"frame": 1, "odps": odps, "odps_nb": odps_nb}
    assert usage_error(shell, cell) == message


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_subcommand_names_an_unknown_option(shell, name):
    load_ipython_extension(shell)
    count = len(COMMANDS[name].positionals()) if name != "spark" else 0
    cell = f"%odps {name} {'1 ' * count}--nonsense"
    if COMMANDS[name].cell == "required":
        cell = f"%{cell}\nx"
    assert usage_error(shell, cell) == f"odps {name} has no option --nonsense"


def test_status_without_operations_shows_a_text(shell):
    load_ipython_extension(shell)
    assert "no operations yet" in run(shell, "%odps status")


def test_a_key_on_a_line_is_refused_before_other_errors(shell):
    load_ipython_extension(shell)
    for line in ("connect --access-key=LTAIsecret", "nonsense --token LTAIsecret"):
        text = run(shell, f"%odps {line}")
        assert "a cell must not contain keys" in text
        assert "LTAIsecret" not in text
