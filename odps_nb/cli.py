"""The command line: ``odps-nb serve``, ``probe`` and ``doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from odps_nb import __version__

_MARKS = {"ok": "ok ", "optional": "-  ", "bad": "!! "}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0 for success, 1 for failure, 2 for a usage error."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"]:  # serve parses its own options
        return _serve(words[1:])
    if words[:1] == ["probe"]:
        from odps_nb.probe.command import main as probe

        return probe(words[1:], version=__version__)
    parser = argparse.ArgumentParser(
        prog="odps-nb", description="A data access kit for MaxCompute."
    )
    parser.add_argument("--version", action="version", version=f"odps-nb {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("serve", help="serve a local folder as a small MaxCompute project")
    commands.add_parser("probe", help="check how the real service behaves; write a report")
    doctor = commands.add_parser("doctor", help="check the installation and suggest fixes")
    doctor.add_argument("profile", nargs="?", help="profile name; default: as in connect()")
    doctor.add_argument("--offline", action="store_true", help="do not connect to the service")
    options = parser.parse_args(words)
    return _doctor(options.profile, online=not options.offline)


def _serve(words: list[str]) -> int:
    from odps_nb.errors import MissingDependencyError, explain

    try:
        from odps_nb.local.server.serve import main as serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("odps_nb"):
            raise
        missing = MissingDependencyError(
            f"the embedded service needs {error.name}",
            extra="local",
            hint="pip install 'odps-nb[local]'",
        )
        print("\n".join(explain(missing)), file=sys.stderr)
        return 1
    return serve(words)


def _doctor(profile: str | None, *, online: bool) -> int:
    from odps_nb.access.doctor import examine

    bad = 0
    for check in examine(profile, online=online):
        print(f"{_MARKS[check.verdict]}{check.name}: {check.found}")
        if check.to_do:
            print(f"     {check.to_do}")
        bad += check.verdict == "bad"
    if bad:
        print(f"{bad} check{'' if bad == 1 else 's'} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
