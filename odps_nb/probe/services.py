"""The first question of the probe: which services transfer rows."""

from __future__ import annotations

from odps_nb.client.transfer_check import choice_among
from odps_nb.probe.asking import Asker, answer_of
from odps_nb.probe.question import ANY, Observation, Questions
from odps_nb.terms import Transfer, TransferMode

QUESTIONS = Questions()
asks = QUESTIONS.asks


@asks(
    "Which services transfer rows, and does transfer='auto' find one of them?",
    {"auto": tuple(str(transfer) for transfer in Transfer)},
    ANY,
)
def _transfer_services(asker: Asker) -> Observation:
    """Open a session by each service; only their status and error code are recorded."""
    checks = asker.check_transfers(ANY)
    seen: Observation = {str(check.service): answer_of(check) for check in checks}
    chosen = choice_among(checks, TransferMode.AUTO)
    return {**seen, "auto": str(chosen.service) if chosen.ok else "none"}


def as_line(seen: Observation) -> str:
    """Format the observation: each service with its result."""
    return ", ".join(f"{name}: {answer}" for name, answer in seen.items() if name != "auto")
