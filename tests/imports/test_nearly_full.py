"""An import into a storage that gets nearly full is stopped, with the reason, and nothing of it is left."""

import pytest

from harness.instance import running_instance
from ramet.api.schemas.services import Service
from tests.crash.test_space import ballast, fill_up
from tests.imports.test_real_imports import failed, stuck
from tests.sources import Source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_FREE_MIB, _LEFT_MIB = 600, 100
_REASON = "MiB left, and other services need 128 MiB to go on, so the import was stopped"


def test_an_import_is_stopped_before_other_services_become_read_only(plain_source: Source) -> None:
    with running_instance(RAMET_IMAGE_GBS="1", RAMET_STORAGE_DRIVER="reflink") as ramet:
        pool = ramet.backend.pool.path

        def fill(accepted: Service) -> None:
            fill_up(pool / "more-ballast", _LEFT_MIB)
            assert _REASON in failed(ramet, accepted)

        with ballast(pool, _FREE_MIB):
            stuck(ramet, plain_source, fill)
