"""Asks the sources of settings in their order of precedence (``docs/howto/keys-and-profiles.md``).

1. arguments, 2. the profile file, 3. ``ODPS_*``, 4. the keyring, 5. ``ALIBABA_CLOUD_*``, 6. pyodps'
own variables, 7. ``~/.aliyun/config.json``, 8. a role. `choice` describes what may be combined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from odps_nb.client.auth import sources, vendor
from odps_nb.client.auth.choice import OVERRIDDEN, Offer, SettingsChoice
from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden

_SHOWN = 8


def resolve(
    name: str | None,
    arguments: Hidden,
    environ: Mapping[str, str],
    *,
    first: Offer | None = None,
    everything: bool = False,
) -> tuple[str | None, SettingsChoice]:
    """Return the name of the profile in use, if any, and the choice among all sources.

    ``first`` takes precedence over the other sources. Sources after the environment are read only
    while a setting is missing; with ``everything``, all are read, except a keyring that is not
    needed.
    """
    choice = SettingsChoice(arguments)
    if first is not None:
        choice.take(first)
    requested = name or environ.get("ODPS_PROFILE", "").strip() or None
    profile_name, offer = sources.from_file(requested, environ)
    choice.has_profile = profile_name is not None
    choice.take(offer)
    choice.take(sources.from_environment(environ))
    for ask in (_keyring, *_VENDOR):
        if everything or not (choice.has_place and choice.has_account):
            for candidate in ask(profile_name, choice, environ):
                choice.take(candidate)
    return profile_name, choice


def _keyring(
    name: str | None, choice: SettingsChoice, environ: Mapping[str, str]
) -> Iterator[Offer]:
    # Opening a keyring may prompt the user, so it is opened only if the key alone is missing.
    if choice.has_place and not choice.has_account and not choice.arguments.get("access_key"):
        yield sources.from_keyring(name, choice.settings.get("access_id"))


_VENDOR = tuple(
    lambda name, choice, environ, read=read: iter((read(environ),))
    for read in (
        vendor.from_alibaba_variables,
        vendor.from_pyodps_variables,
        vendor.from_config,
        vendor.from_role,
    )
)


def missing(
    options: list[str], choice: SettingsChoice | None, environ: Mapping[str, str]
) -> ConfigError:
    """Return the error for missing settings; its hint lists what was found, but not used."""
    listed = " and ".join(options) if len(options) < 3 else ", ".join(options)
    ways = " and ".join(f"{option}= or ODPS_{option.upper()}" for option in options)
    ways = ways.replace("endpoint= or", "endpoint=, region= or")
    if "access_key" in options:
        ways += " (or store the key in a keyring: keyring set odps_nb:PROFILE ACCESS_ID)"
    hint = f"set {ways}, or name a profile in ~/.config/odps_nb/profiles.toml"
    if choice is not None:
        if not choice.has_profile and (names := sources.profile_names(environ)):
            hint = (
                f"connect with the name of a profile ({', '.join(names[:_SHOWN])}), or set {ways}"
            )
        if unused := _unused(choice):
            hint += f"; found, but not used: {'; '.join(unused)}"
    return ConfigError(
        f"{listed} {'is' if len(options) == 1 else 'are'} missing",
        option=options[0],
        hint=f'{hint}; connect("local") needs no settings',
    )


def _unused(choice: SettingsChoice) -> list[str]:
    unused = [
        f"{finding.source}: {reason}"
        for finding in choice.findings
        for reason in finding.reasons()
        if OVERRIDDEN not in reason
    ]
    if Path(".env").is_file():
        unused.append(".env in this folder (load it, e.g. with python-dotenv's load_dotenv())")
    return unused
