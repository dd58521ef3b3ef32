"""An import into a storage that gets nearly full is stopped, with the reason, and nothing of it is left."""

import pytest

from harness.instance import running_instance
from tests.crash.test_space import ballast
from tests.imports.test_real_imports import failed, stuck
from tests.sources import Source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_LEFT_MIB = 100


def test_an_import_is_stopped_before_other_services_become_read_only(plain_source: Source) -> None:
    with running_instance(RAMET_IMAGE_GBS="1", RAMET_STORAGE_DRIVER="reflink") as ramet:
        with ballast(ramet.backend.pool.path, _LEFT_MIB) as fill:
            accepted = stuck(ramet, plain_source, lambda _: fill())
            reason = failed(ramet, accepted)
        assert "MiB left, and other services need 128 MiB to go on, so the import was stopped" in reason
