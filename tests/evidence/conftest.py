"""What is known of the real service, asked of the embedded one by raw requests.

Each test names the fact by its number in the list of facts that this project keeps, and the public
source that shows it. Sources: C++ is aliyun/aliyun-odps-sdk-cpp, ``test/max_storage_api`` (live
tests) and ``max_storage_api`` (code); Python is aliyun/aliyun-odps-python-sdk; Java is
aliyun/aliyun-odps-java-sdk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from raw import Raw


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    """Speaks to a service of this module's own, started without options."""
    from raw import Raw

    from odps_nb.local.launch import start

    with start(samples=False) as running, Raw(running) as raw:
        yield raw
