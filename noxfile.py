"""What a release needs beside the gate: other versions of the dependencies, packages, an SBOM.

``nox --list`` names them; ``make versions``, ``make package`` and ``make release`` run them.
Each session has an environment of its own below ``.nox``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False

FRAMES = (
    "tests/convert",
    "tests/access",
    "tests/test_round_trip.py",
    "tests/notebook/magics/test_connecting.py",
    "tests/notebook/magics/test_reading.py",
    "tests/notebook/magics/test_writing.py",
)
LIBRARY, SPARK = "test,notebook,local,keyring", "test,lab,connect"
BUILD = "hatchling>=1.27"  # cluster tests build a wheel offline
# Stored results are of one Spark release; with others, each result is compared with plain Spark.
WITH_SPARK = ("tests/spark", "-k", "not stored_results_agree")
ROWS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "pandas-2": (LIBRARY, ("pandas<3",), FRAMES),
    # pyspark 3.5 and 4.0 are older than pandas 3. With 3.5, tests that need data sources or Connect
    # are expected to fail (tests/spark/conftest.py), and jobs of nightly tests use data sources.
    "spark-3.5": (
        "test,lab",
        ("pyspark>=3.5,<3.6", "pandas<3"),
        (*WITH_SPARK, "-m", "not nightly", "-rx"),
    ),
    "spark-4.0": (SPARK, ("pyspark>=4.0,<4.1", "pandas<3", BUILD), WITH_SPARK),
    "spark-4.1": (SPARK, ("pyspark>=4.1,<4.2", BUILD), WITH_SPARK),
    "polars": (LIBRARY, ("polars>=1",), ("tests/versions/polars_frames.py",)),
    "ray": (f"{LIBRARY},ray", (), ("tests/versions/ray_blocks.py",)),
    # The stock client's own tests, fetched from its repository; Cython lets them try its compiled
    # parts, too. They are older than pandas 3 and SQLAlchemy 2.1.
    "pyodps": (
        LIBRARY,
        ("cython", "mock", "pandas<3", "sqlalchemy<2.1"),
        ("tests/versions/pyodps_live.py",),
    ),
    # dbt's adapter with its own tests. dbt-core 1.12 installs a parser from GitHub, and the seeds
    # of dbt-tests-adapter 1.11 have a row that these tests do not expect.
    "dbt": (
        LIBRARY,
        ("dbt-maxcompute==1.12.0", "dbt-core<1.12", "dbt-tests-adapter==1.10.4"),
        ("tests/versions/dbt_live.py",),
    ),
    # the vendor's Java clients, built by Maven
    "java": (LIBRARY, (), ("tests/versions/java_clients.py",)),
    # the vendor's Go SDK; skipped, with the reason, where the module proxy lacks it
    "go": (LIBRARY, (), ("tests/versions/go_clients.py", "-rs")),
    # tools of other authors, each with an environment of its own below build/tools
    "tools": (LIBRARY, ("jupyter-client>=8",), ("tests/versions/python_tools.py", "-rs")),
    # the vendor's Spark connector, built for Spark 4.0; skipped without its jar
    "connector": (
        f"{LIBRARY},spark",
        ("pyspark>=4.0,<4.1", "pandas<3"),
        ("tests/versions/spark_connector.py", "-rs"),
    ),
    # torchdata beside our own loader, av for the frames of a video, and Spark, which starts ranks
    "torch": (
        f"{LIBRARY},torch,spark",
        ("torch==2.13.0", "torchdata==0.11.0", "av"),
        ("tests/versions/torch_loader.py", "tests/versions/torch_spark.py"),
    ),
}
"""Extras, pins and tests of each environment."""
HOSTS = (
    "ipywidgets_bokeh",
    "jupyterlab",
    "jupytext",
    "marimo",
    "myst-nb",
    "nbconvert",
    "nbsphinx",
    "panel",
    "papermill",
    "playwright",
    "solara==1.58.2",  # the version of the assets
    "solara-assets==1.58.2",
    "voila",
)
"""Programs that run or publish notebooks."""
PROGRAMS: dict[str, tuple[str, ...]] = {"java": ("java", "mvn"), "go": ("go",)}
"""Programs that a row needs; without them it is skipped."""


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def lowest() -> list[str]:
    """Return the lowest version that pyproject.toml permits of each dependency that tests use."""
    extras = project()["optional-dependencies"]
    wanted = [project()["dependencies"], *(extras[one] for one in ("notebook", "local", "keyring"))]
    wanted += [extras["previews"], extras["polars"], extras["dask"]]
    floors = re.compile(r"^([\w.\-]+(?:\[\w+\])?)>=([\d.]+)$")
    found = [floors.match(one.partition(",")[0]) for part in wanted for one in part]
    return sorted({f"{one[1]}=={one[2]}" for one in found if one})


def tested(
    session: nox.Session, extras: str, pins: tuple[str, ...], tests: tuple[str, ...]
) -> None:
    session.install("-e", f".[{extras}]", *pins)
    # child processes (the service, Spark's workers) load this checkout, too
    env = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": f"{session.bin}/python"}
    env["RECORD_CLIENTS"] = "1"  # the suites of clients write docs/results/clients.md
    session.run("pytest", *tests, *session.posargs, env=env)


@nox.session(reuse_venv=True, tags=["versions"])
@nox.parametrize("row", [nox.param(name, id=name) for name in ROWS])
def versions(session: nox.Session, row: str) -> None:
    """Run the tests of one row with its pins."""
    if missing := [name for name in PROGRAMS.get(row, ()) if shutil.which(name) is None]:
        session.skip(f"not installed: {' and '.join(missing)}")
    tested(session, *ROWS[row])


@nox.session(reuse_venv=True, tags=["versions"])
def oldest(session: nox.Session) -> None:
    """Run the tests with the lowest versions that pyproject.toml permits."""
    tests = (*FRAMES, "tests/http", "tests/wire", "tests/local")
    tested(session, LIBRARY, tuple(lowest()), tests)


@nox.session(reuse_venv=True, tags=["versions"], python=["3.12", "3.13", "3.14"])
def python(session: nox.Session) -> None:
    """Run the tests with another Python; skipped where the machine has none."""
    tested(session, LIBRARY, (), (*FRAMES, "tests/http", "tests/wire"))


@nox.session(reuse_venv=True)
def hosts(session: nox.Session) -> None:
    """Run notebooks in programs of other authors, and their pages in Chromium."""
    tested(session, LIBRARY, HOSTS, ("tests/hosts", "-rs"))


@nox.session(reuse_venv=True)
def package(session: nox.Session) -> None:
    """Build wheel and source distribution twice, compare their bytes and check their contents."""
    session.install("build", "check-wheel-contents", "hatchling", "twine")
    digests = []
    for _ in range(2):
        shutil.rmtree(DIST, ignore_errors=True)
        session.run("python", "-m", "build", "--no-isolation", "--outdir", "dist")
        digests.append(
            {one.name: hashlib.sha256(one.read_bytes()).digest() for one in DIST.iterdir()}
        )
    if digests[0] != digests[1]:
        session.error("the second build has other bytes than the first")
    session.run("check-wheel-contents", *map(str, DIST.glob("*.whl")))
    session.run("twine", "check", "--strict", *map(str, DIST.iterdir()))


@nox.session
@nox.parametrize("kind", [nox.param("whl", id="wheel"), nox.param("tar.gz", id="sdist")])
def installed(session: nox.Session, kind: str) -> None:
    """Install a package alone, outside of the checkout, and run the quickstart with it."""
    (path,) = DIST.glob(f"*.{kind}")
    session.install(f"{path}[lab]")
    session.run("python", "-m", "pip", "check")
    place = Path(session.create_tmp())
    shutil.copy(ROOT / "notebooks" / "01_quickstart.ipynb", place)
    shutil.copy(ROOT / "tools" / "try_installed.py", place)
    session.chdir(place)
    inherited = ("PYTHON", "ODPS_", "XDG_", "JUPYTER", "IPYTHON")
    env = {name: None for name in os.environ if name.startswith(inherited)}
    session.run("python", "try_installed.py", env={**env, "HOME": str(place)})


@nox.session
def sbom(session: nox.Session) -> None:
    """Write what the wheel with the extra `lab` installs today, as CycloneDX, beside it."""
    (wheel,) = DIST.glob("*.whl")
    session.install(f"{wheel}[lab]")
    for note in Path(session.virtualenv.location).glob(
        "lib/*/site-packages/odps_nb-*/direct_url.json"
    ):
        note.unlink()  # names the folder of this machine that the wheel came from
    target = DIST / f"odps_nb-{project()['version']}.cdx.json"
    tool = Path(session.create_tmp()) / "tool"  # beside the environment that it lists
    session.run("python", "-m", "venv", str(tool))
    session.run(f"{tool}/bin/pip", "install", "-q", "cyclonedx-bom>=7", external=True)
    program = (f"{tool}/bin/cyclonedx-py", "environment", f"{session.bin}/python")
    options = ("--output-reproducible", "--of", "JSON", "-o", str(target))
    session.run(*program, *options, external=True)


@nox.session(venv_backend="none")
def ready(session: nox.Session) -> None:
    """Check that the changelog, the date and the commit are those of a release."""
    version = project()["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased = changelog.partition("## Unreleased")[2].partition("\n## ")[0].strip()
    status = session.run("git", "status", "--short", external=True, silent=True)
    missing = [
        *(["CHANGELOG.md: *Unreleased* is not empty"] if unreleased else []),
        *(
            []
            if re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.M)
            else [f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)'"]
        ),
        *(["there are uncommitted changes"] if status else []),
    ]
    if missing:
        session.error("; ".join(missing))
