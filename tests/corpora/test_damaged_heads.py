"""2,000 damaged heads of other projects' files: a tile never raises an exception."""

import pytest

from tests.support.corpora import VERSIONS, NoNetworkError, files
from tests.support.damaged import damaged_heads, escaped

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("seed", range(10))
def test_a_tile_of_a_damaged_file_raises_no_error(seed):
    try:
        paths = [path for name in VERSIONS for _, path in files(name)]
    except NoNetworkError as error:
        pytest.skip(str(error))
    assert [found for data in damaged_heads(paths, seed, 200) if (found := escaped(data))] == []
