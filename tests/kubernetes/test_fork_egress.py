"""What forks in the cluster may connect to: nothing before they are secured, then what the settings say."""

import pytest

from harness.kubernetes.contents import kubectl
from harness.kubernetes.layout import HOST_ADDRESS
from harness.kubernetes.objects import find, get
from harness.waiting import eventually
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from tests.kubernetes.ramets import login, running_in_cluster
from tests.kubernetes.reaching import listening_outside, reaches

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


def await_pod(name: str, at: str) -> None:
    """Wait until there is a pod, ready or not."""
    eventually(lambda: find("pod", name, at) is not None, f"the pod {name}", 0.1)


def test_a_dev_fork_reaches_nothing_outside_and_a_prod_fork_does_once_it_is_secured() -> None:
    with (
        running_in_cluster(RAMET_KUBERNETES_FORK_EGRESS="deny") as (ramet, namespace),
        ramet.client() as client,
        listening_outside() as port,
    ):
        asked = client.create_service("shop", environment=Environment.PROD)
        parent = client.wait_ready(asked.service_id)

        def can_leave(service_id: str) -> bool:
            return reaches(namespace, f"ramet-{service_id}-1", HOST_ADDRESS, port, "postgres")

        assert can_leave(parent.service_id)
        for environment in (Environment.DEV, Environment.PROD):
            forked = client.fork_service(parent.service_id, ForkStrategy.NOW, environment=environment)
            pod, policy = f"ramet-{forked.service_id}-1", f"ramet-{forked.service_id}-egress"
            await_pod(pod, namespace)
            found = find("networkpolicy", policy, namespace)
            ready = client.wait_ready(forked.service_id)
            assert found or environment is Environment.PROD  # a policy that was there before its pod, unless it went
            assert can_leave(forked.service_id) is (environment is Environment.PROD)
            assert forked.initial_password is not None
            with login(ready, forked.initial_password) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        policies = kubectl("get", "networkpolicies", f"--namespace={namespace}", "--output=name").split()
        assert len(policies) == 1
        egress = get("networkpolicy", policies[0].partition("/")[2], namespace)["spec"]["egress"]
        assert len(egress) == 3
