"""Set up the checkout: ``.venv`` with the project, Java for Spark, Chromium for browser tests.

The Makefile runs it with the machine's ``python3``, so it uses only the standard library. It is
fast if nothing has changed: a stamp file in ``.venv`` records the installation.

    python3 tools/setup.py EXTRA [--java] [--chromium]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import older_pyodps

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
JAVA_PACKAGE = "openjdk-17-jre-headless"
# Extras that contain others: installing the larger one includes the smaller one.
CONTAINS = {"dev": ("dev", "lab"), "lab": ("lab",), "docs": ("docs", "lab")}


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def stop(text: str) -> None:
    sys.exit(f"set-up: {text}")


def fingerprint() -> str:
    pins = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(pins + sys.version.encode() + str(ROOT).encode()).hexdigest()[:16]


def ensure_venv(extra: str) -> None:
    """Create ``.venv`` and install the project with ``extra``, unless it is installed already."""
    wanted = fingerprint()
    if any(is_stamped(name, wanted) for name, parts in CONTAINS.items() if extra in parts):
        return
    if not PYTHON.exists():
        say("making .venv …")
        create_venv(VENV)
    say(f"installing odps-nb[{extra}] into .venv (a few minutes the first time) …")
    run(
        [
            str(PYTHON),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-warn-script-location",
            "--use-pep517",  # pip 23.0 prints a warning for PySpark without it
            "-e",
            f"{ROOT}[{extra}]",
        ],
        "pip could not install the project; the lines above say why",
    )
    (VENV / f".installed-{extra}").write_text(wanted)


def link_labextension() -> None:
    """Link this checkout's extension into ``.venv`` for JupyterLab; ``pip -e`` omits it."""
    place = VENV / "share" / "jupyter" / "labextensions" / "odps-nb"
    target = ROOT / "labextensions" / "odps-nb"
    if place.is_symlink() or not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def is_stamped(extra: str, wanted: str) -> bool:
    stamp = VENV / f".installed-{extra}"
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted


def create_venv(place: Path, python: str = sys.executable) -> None:
    made = subprocess.run([python, "-m", "venv", str(place)], capture_output=True, text=True)
    if made.returncode:
        shutil.rmtree(place, ignore_errors=True)
        stop(
            "this Python cannot make a virtual environment; on Debian: "
            "apt-get install python3-venv\n" + (made.stdout + made.stderr).strip()[-400:]
        )


def run(command: list[str], trouble: str) -> None:
    if subprocess.run(command).returncode:
        stop(trouble)


def java_version(java: Path) -> int:
    try:
        text = subprocess.run([str(java), "-version"], capture_output=True, text=True).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', text)
    return int(found.group(1)) if found else 0


def find_java() -> Path | None:
    """Find Java 17 or newer in JAVA_HOME, PATH, or Debian's folders."""
    places = [Path(os.environ["JAVA_HOME"]) / "bin/java"] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    places += [Path(on_path)] if on_path else []
    places += sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
    return next((java for java in places if java_version(java) >= 17), None)


def apt_install(*packages: str) -> bool:
    """Install Debian packages if this user may; print one line about it."""
    if not shutil.which("apt-get"):
        return False
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and (
        not shutil.which("sudo")
        or subprocess.run([*prefix, "true"], capture_output=True).returncode
    ):
        return False
    say(f"installing {' and '.join(packages)} from Debian …")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if prefix:
        prefix += ["env", "DEBIAN_FRONTEND=noninteractive"]
    subprocess.run([*prefix, "apt-get", "update", "-qq"], env=env, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        [*prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0


def ensure_older_pyodps() -> None:
    if not older_pyodps.HOME.exists():
        say(f"also installing pyodps {older_pyodps.VERSION} (tests/compat runs both versions) …")
    try:
        older_pyodps.ensure()
    except RuntimeError as error:
        stop(str(error))


def ensure_java() -> None:
    if find_java() is None and not (apt_install(JAVA_PACKAGE) and find_java()):
        stop(
            "Spark needs Java 17 or newer and none was found: install "
            f"{JAVA_PACKAGE} (or any JRE of version 17 or newer) and set JAVA_HOME, then try again"
        )


def ensure_chromium() -> None:
    if not any(
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    ) and not apt_install("chromium"):
        stop(
            "the browser tests need Chromium and none was found: "
            "install Debian's chromium, then try again"
        )
    if not runs_driver() and not (apt_install("libatomic1") and runs_driver()):
        stop("Playwright's Node.js does not start: install libatomic1 (Debian), then try again")


def runs_driver() -> bool:
    """Return whether Playwright's own Node.js starts; it needs a library that small images lack."""
    node = next(VENV.glob("lib/python*/site-packages/playwright/driver/node"))
    return subprocess.run([str(node), "--version"], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extra", choices=sorted(CONTAINS))
    parser.add_argument("--java", action="store_true", help="find or install Java 17 or newer")
    parser.add_argument("--chromium", action="store_true", help="find or install Chromium")
    wanted = parser.parse_args()
    if sys.version_info < (3, 11):
        stop(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; "
            "try: make PYTHON=python3.11 …"
        )
    ensure_venv(wanted.extra)
    link_labextension()
    if wanted.extra == "dev":
        ensure_older_pyodps()
    if wanted.java:
        ensure_java()
    if wanted.chromium:
        ensure_chromium()


if __name__ == "__main__":
    main()
