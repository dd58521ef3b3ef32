"""Where clients find the certificate authority that they verify endpoints with."""

import pytest

from ramet.backends.kubernetes import names
from ramet.control.authority import certificate_authority
from ramet.errors import Invalid
from tests.worlds import World


def test_where_each_service_has_an_authority_the_remedy_names_its_secret(world: World) -> None:
    with pytest.raises(Invalid) as refused:
        certificate_authority(world.plane)
    assert f" {names.authority_name('SERVICE_ID')} --namespace " in refused.value.details
