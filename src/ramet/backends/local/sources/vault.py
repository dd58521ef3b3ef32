"""Sealing secrets for the store: they can be read there only with the key of this data root."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from ramet.backends.interface.sources import SourceAddress
from ramet.errors import Failed
from ramet.machine.secret_files import kept_secret
from ramet.model.passwords import Secret


class KeptSource(msgspec.Struct, frozen=True):
    """What is kept of a source beside a server; the password is sealed."""

    source: SourceAddress
    sealed: str


@dataclass(frozen=True)
class Vault:
    """Seals with a key in a file, which is made when it is first needed."""

    key_file: Path

    def seal(self, secret: Secret) -> str:
        """Return a secret encrypted and authenticated."""
        return self._cipher().encrypt(secret.reveal().encode()).decode()

    def unseal(self, sealed: str) -> Secret:
        """Return a sealed secret. Raises Failed when another key sealed it."""
        try:
            return Secret(self._cipher().decrypt(sealed.encode()).decode())
        except InvalidToken as error:
            raise Failed(
                "SEALED_ELSEWHERE",
                f"The password of the source was sealed with another key than that in {self.key_file}",
                "Import again.",
            ) from error

    def _cipher(self) -> Fernet:
        return Fernet(kept_secret(self.key_file, Fernet.generate_key))
