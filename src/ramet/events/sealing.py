"""Secrets of webhooks as the store has them."""

from ramet.errors import Failed
from ramet.machine import sealing
from ramet.model.passwords import Secret

_PURPOSE = "webhook secrets"


def seal(root_key: bytes, webhook_id: str, secret: Secret) -> str:
    """Encrypt a secret of a webhook; what is sealed for one cannot be used for another."""
    return sealing.seal(root_key, _PURPOSE, webhook_id, secret)


def unseal(root_key: bytes, webhook_id: str, sealed: str) -> Secret:
    """Decrypt a secret of a webhook. Raises Failed when the store and the root key do not belong together."""
    try:
        return sealing.unseal(root_key, _PURPOSE, webhook_id, sealed)
    except ValueError as error:
        raise Failed(
            "WEBHOOK_SECRET_UNREADABLE",
            f"The secret of webhook {webhook_id} was not sealed with this installation's root key",
            "Restore secrets/root.key from the backup of the store, or delete the webhook.",
        ) from error
