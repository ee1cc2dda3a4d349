"""`make versions`: the named tests with other versions of what odps_nb stands on.

Each row of `ROWS` is an environment in ``build/versions/NAME``: the project, what its tests
need, and the pins of the row. Quick when nothing has changed: a stamp in each environment
remembers what was installed.

    python3 tools/versions.py [--missing] [NAME …]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from setup import create_venv, ensure_java, say, stop

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "versions"
LAST = PLACE / "last.json"  # how each row ended, and of which commit
ABSENT = "NOT RUN, this machine has no such interpreter"

FRAMES = (
    "tests/convert",
    "tests/access",
    "tests/test_round_trip.py",
    "tests/notebook/magics/test_connecting.py",
    "tests/notebook/magics/test_reading.py",
    "tests/notebook/magics/test_writing.py",
)


@dataclass(frozen=True)
class Row:
    """One environment: ``pins`` are requirements of pip, ``tests`` arguments of pytest."""

    name: str
    pins: tuple[str, ...]
    tests: tuple[str, ...]
    extras: str = "test,notebook,local,keyring"
    java: bool = False
    python: str = ""  # a version, like 3.12; the one that runs this where it is empty


SPARK = "test,lab,connect"  # a test runs a notebook
# What is noted is of the Spark that development has; here each answer is compared with its own.
WITH_SPARK = ("tests/spark", "-k", "not what_is_noted")

# The lowest that pyproject.toml allows; on Python 3.11, where all of them have wheels.
OLDEST = (
    "anywidget==0.11.0",
    "av==16.0.0",
    "cramjam==2.8.0",
    "crc32c==2.7",
    "dask[dataframe]==2025.1.0",
    "duckdb==2.0.0",
    "fastavro==1.9.0",
    "h11==0.16.0",
    "ipython==8.12.0",
    "ipywidgets==8.1.0",
    "keyring==25.0.0",
    "lz4==4.3.0",
    "nh3==0.2.18",
    "numpy==1.24.0",
    "pandas==2.1.0",
    "pillow==11.3.0",
    "pillow-heif==0.18.0",
    "platformdirs==4.0.0",
    "polars==2.0.0",
    "pyarrow==19.0.0",
    "pydicom==3.0.1",
    "pygments==2.15.0",
    "pypdfium2==4.30.0",
    "python-calamine==0.3.0",
    "requests==2.31.0",
    "sqlglot==30.20.0",
    "starlette==0.37.0",
    "tqdm==4.66.0",
    "urllib3==2.6.3",
    "uvicorn==0.34.2",
    "zstandard==0.22.0",
)

ROWS = (
    Row("oldest", pins=OLDEST, tests=(*FRAMES, "tests/http", "tests/wire", "tests/local")),
    Row("pandas-2", pins=("pandas<3",), tests=FRAMES),
    # pyspark 4.0 is older than pandas 3
    Row(
        "spark-4.0",
        pins=("pyspark>=4.0,<4.1", "pandas<3"),
        tests=WITH_SPARK,
        extras=SPARK,
        java=True,
    ),
    Row("spark-4.1", pins=("pyspark>=4.1,<4.2",), tests=WITH_SPARK, extras=SPARK, java=True),
    Row("polars", pins=("polars>=1",), tests=("tests/versions/polars_frames.py",)),
    Row(
        "ray",
        pins=(),
        tests=("tests/versions/ray_blocks.py",),
        extras="test,notebook,local,keyring,ray",
    ),
    # The stock client's own tests, which are fetched from its repository; Cython lets them try its
    # compiled parts, too. They are older than pandas 3 and SQLAlchemy 2.1.
    Row(
        "pyodps",
        pins=("cython", "mock", "pandas<3", "sqlalchemy<2.1"),
        tests=("tests/versions/pyodps_live.py",),
    ),
    # torchdata beside our own loader, av for the frames of a video, and Spark, which starts ranks
    Row(
        "torch",
        pins=("torch==2.13.0", "torchdata==0.11.0", "av"),
        tests=("tests/versions/torch_loader.py", "tests/versions/torch_spark.py"),
        extras="test,notebook,local,keyring,torch,spark",
        java=True,
    ),
    *(
        Row(f"python-{one}", pins=(), tests=(*FRAMES, "tests/http", "tests/wire"), python=one)
        for one in ("3.12", "3.13", "3.14")
    ),
)


def find_python(version: str) -> str | None:
    """Path of an interpreter of this version that runs: on the PATH, or one of pyenv's."""
    kept = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    places = [shutil.which(f"python{version}"), *kept.glob(f"{version}.*/bin/python{version}")]
    for place in filter(None, places):
        told = subprocess.run([place, "--version"], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.startswith(f"Python {version}."):
            return str(place)
    return None


def ensure_environment(row: Row) -> Path:
    """Make the environment unless it is there; return its Python."""
    place = PLACE / row.name
    python, stamp = place / "bin" / "python", place / ".installed"
    if stamp.exists() and stamp.read_text() == fingerprint(row):
        return python
    say(f"installing {', '.join(row.pins) or 'the newest'} into {place.relative_to(ROOT)} …")
    shutil.rmtree(place, ignore_errors=True)
    create_venv(place, (row.python and find_python(row.python)) or sys.executable)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, "-e", f"{ROOT}[{row.extras}]", *row.pins]).returncode:
        stop(f"pip could not install {row.name}; the lines above say why")
    stamp.write_text(fingerprint(row))
    return python


def fingerprint(row: Row) -> str:
    facts = [(ROOT / "pyproject.toml").read_text("utf-8"), sys.version, str(ROOT), repr(row)]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def passes(row: Row) -> bool:
    """Run the tests of a row; pytest itself says what failed."""
    python = ensure_environment(row)
    if row.java:
        ensure_java()
    # Child processes (the service, Spark's workers) must load this checkout, and this Python.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    return not subprocess.run(
        [str(python), "-m", "pytest", *row.tests], cwd=ROOT, env=env
    ).returncode


def state() -> str:
    """Name the commit of this checkout, and say if anything but the nightly page was changed."""
    told = [
        subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in (
            ("rev-parse", "--short", "HEAD"),
            ("status", "--short", "--", ".", ":!docs/results/nightly.md"),
        )
    ]
    return told[0].strip() + (" and changes" if told[1] else "")


def last_ends() -> dict[str, str]:
    """How rows ended on this commit, by name."""
    known = json.loads(LAST.read_text("utf-8")) if LAST.exists() else {}
    return known["ends"] if known.get("of") == state() else {}


def main() -> None:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all")
    parser.add_argument("--missing", action="store_true", help="not what passed on this commit")
    given = parser.parse_args()
    wanted = given.names or names
    if unknown := set(wanted) - set(names):
        stop(f"no row is called {' or '.join(sorted(unknown))}; there are: {', '.join(names)}")
    now = state()
    ends = {} if "changes" in now else last_ends()  # other changes may have been there
    PLACE.mkdir(parents=True, exist_ok=True)
    for row in ROWS:
        if row.name not in wanted or (given.missing and ends.get(row.name) == "passed"):
            continue
        if row.python and find_python(row.python) is None:
            ends[row.name] = ABSENT
        else:
            say(f"{row.name}: {', '.join(row.pins)}")
            ends[row.name] = "passed" if passes(row) else "failed"
        LAST.write_text(json.dumps({"of": now, "ends": ends}, indent=1) + "\n")
    if absent := [name for name in wanted if ends[name] == ABSENT]:
        say(f"{ABSENT}: {', '.join(absent)}")
    if failed := [name for name in wanted if ends[name] == "failed"]:
        stop(f"tests failed with {', '.join(failed)}")


if __name__ == "__main__":
    main()
