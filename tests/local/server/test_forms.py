"""Response formats that are selected when the service starts."""

from __future__ import annotations

import pytest

from odps_nb.errors import ConfigError
from odps_nb.local.forms import Forms


def test_forms_are_parsed_from_names_and_values() -> None:
    assert Forms.parse([]) == Forms()
    assert Forms.parse(["time_zone=none"]) == Forms(time_zone="none")
    assert Forms.parse(["time_zone=none", "time_zone=UTC"]) == Forms()


@pytest.mark.parametrize("text", ["time_zone=Mars", "time_zone", "other=1", ""])
def test_an_unknown_form_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Forms.parse([text])
    assert "time_zone=UTC|" in str(caught.value.hint)
