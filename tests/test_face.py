"""The public package: the cost of `import odps_nb`, its exports, and the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import odps_nb

HEAVY = (
    "pandas",
    "numpy",
    "pyarrow",
    "requests",
    "IPython",
    "pyspark",
    "odps",
    "duckdb",
    "keyring",
)


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_odps_nb_loads_no_large_library():
    loaded = json.loads(run("import odps_nb, sys, json; print(json.dumps(sorted(sys.modules)))"))
    assert "odps_nb" in loaded
    assert not [name for name in HEAVY if name in loaded]
    assert not [name for name in loaded if name.startswith("odps_nb.") and name != "odps_nb.errors"]


def test_importing_odps_nb_loads_fewer_modules_than_asyncio():
    def loaded(module: str) -> int:
        return int(
            run(
                f"import sys; has = len(sys.modules); import {module}; "
                "print(len(sys.modules) - has)"
            )
        )

    assert loaded("odps_nb") < loaded("asyncio")


def test_types_for_annotations_can_be_imported():
    """At run time and for annotations; each type is the class that its function returns."""
    code = (
        "import odps_nb\n"
        "def f(a: odps_nb.Connection, b: odps_nb.Table, c: odps_nb.Scan, d: odps_nb.Result,\n"
        "      e: odps_nb.Blob, g: odps_nb.BlobColumn, h: odps_nb.Profile, i: odps_nb.Receipt,\n"
        "      j: odps_nb.Compression, k: odps_nb.ProgressListener) -> None: ...\n"
        "odps = odps_nb.connect(endpoint='http://127.0.0.1:9/api', project='p', access_id='i', "
        "access_key='k')\n"
        "assert type(odps) is odps_nb.Connection\n"
        "assert type(odps.profile) is odps_nb.Profile\n"
        "assert type(odps.table('t')) is odps_nb.Table\n"
        "assert type(odps.table('t').read()) is odps_nb.Scan\n"
        "assert type(odps.blob('aGk=')) is odps_nb.Blob\n"
        "print(len(f.__annotations__))"
    )
    assert run(code).split() == ["11"]


def test_connecting_imports_neither_notebook_nor_spark_modules():
    loaded = run(
        "import odps_nb, sys\n"
        "odps_nb.connect(endpoint='http://127.0.0.1:9/api', project='p', access_id='i', "
        "access_key='k').table('t')\n"
        "print(*sorted(sys.modules))"
    ).split()
    assert not [
        name for name in ("pandas", "IPython", "pyspark", "odps", "duckdb") if name in loaded
    ]
    assert not [name for name in loaded if name.startswith(("odps_nb.notebook", "odps_nb.spark"))]


def test_every_exported_name_exists():
    for name in odps_nb.__all__:
        assert getattr(odps_nb, name) is not None
    assert set(odps_nb.__all__) <= set(dir(odps_nb))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = odps_nb.nothing


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert odps_nb.__version__ == version("odps-nb")


def test_subpackages_are_available_as_attributes():
    assert odps_nb.stream_io.__name__ == "odps_nb.stream_io"
    assert odps_nb.spark.__name__ == "odps_nb.spark"


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odps_nb.cli", *words], capture_output=True, text=True, check=False
    )


def test_the_command_line_shows_its_usage():
    assert cli().returncode == 2
    assert "serve" in cli("--help").stdout
    assert cli("--version").stdout.strip() == f"odps-nb {odps_nb.__version__}"


def test_the_help_of_serve_lists_its_options():
    helped = cli("serve", "--help")
    assert helped.returncode == 0
    assert "--root" in helped.stdout


def test_doctor_suggests_fixes_and_sets_the_exit_status(tmp_path: Path):
    told = cli("doctor", "no_such_profile", "--offline")
    assert told.returncode == 1
    assert "!! Profile: there is no profile 'no_such_profile'" in told.stdout
    assert "ok Checksums" in told.stdout
    assert cli("doctor", "--offline").returncode == 0
