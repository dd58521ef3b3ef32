"""List, fork and delete with the client that openapi-python-client makes from openapi.json; `test_clients` runs it."""

import json
import os

from ramet_client import AuthenticatedClient  # type: ignore[import-not-found]
from ramet_client.api.services import (  # type: ignore[import-not-found]
    delete_service,
    fork_service,
    get_service,
    get_services,
)
from ramet_client.models import ForkServiceCreate, ForkStrategy, Service, Status  # type: ignore[import-not-found]

key = f"{os.environ['RAMET_PUBLIC_KEY']}:{os.environ['RAMET_SECRET_KEY']}"
client = AuthenticatedClient(base_url=os.environ["RAMET_BASE_URL"], token=key, raise_on_unexpected_status=True)
project_id = os.environ["RAMET_PROJECT_ID"]

listed = get_services.sync(project_id, client=client)
assert isinstance(listed, list), listed
parent = listed[0]
wanted = ForkServiceCreate(fork_strategy=ForkStrategy.NOW, name="from-python")
fork = fork_service.sync(project_id, parent.service_id, client=client, body=wanted)
assert isinstance(fork, Service), fork
assert fork.forked_from.service_id == parent.service_id
assert isinstance(fork.initial_password, str)
status = fork.status
while status is not Status.READY:
    found = get_service.sync(project_id, fork.service_id, client=client)
    assert isinstance(found, Service), found
    assert found.status is not Status.UNSTABLE, found.metadata
    status = found.status
deleted = delete_service.sync_detailed(project_id, fork.service_id, client=client)
print(json.dumps({"forked": fork.service_id, "deleted": deleted.status_code}))
