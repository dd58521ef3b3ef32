"""The catalogue is written to the archive whenever it has changed, or is not there as it was written."""

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ramet import __version__
from ramet.archive import owner
from ramet.archive.object_store import Bucket
from ramet.control.plane import utc_now
from ramet.errors import Failed, Invalid, Unavailable
from ramet.recovery.catalogue import Catalogue
from ramet.recovery.collect import Content, collect
from ramet.recovery.sealed import RecoveryKey, note_use
from ramet.recovery.versions import read_catalogues, write_catalogue
from ramet.store.database import Store

_CHECK_SECONDS = 3600.0
_log = logging.getLogger(__name__)


@dataclass
class PublishCatalogue:
    """The duty. A fault of the object store is logged once; the next run tries again."""

    store: Store
    bucket: Bucket
    installation: str
    secrets_directory: Path
    key: RecoveryKey = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _written: Content | None = field(default=None, repr=False)
    _read_at: float = 0.0
    _problem: str = ""
    _note_problem: str = ""

    def publish(self) -> None:
        """Write another version if anything has changed since the last one, which is read when an hour has passed."""
        content = collect(self.store, self.secrets_directory, utc_now())
        if self.clock() - self._read_at >= _CHECK_SECONDS:
            self._written, self._read_at = None, self.clock()  # it may be lost, or altered
        if content == self._written:
            return
        try:
            owner.claim(self.bucket, self.installation)
            if content != (self._written or self._last_content()):
                write_catalogue(self.bucket, self._catalogue(content))
        except (Failed, Unavailable) as error:
            if str(error) != self._problem:
                _log.warning("the catalogue of the archive is not up to date: %s", error)
            self._problem = str(error)
            return
        self._written, self._problem = content, ""
        self._note_key()

    def _note_key(self) -> None:
        """Record which key was used, unless the secrets are mounted read-only, as on Kubernetes."""
        try:
            note_use(self.secrets_directory, self.key)
        except OSError as error:
            if str(error) != self._note_problem:
                _log.info("it is not recorded which key the catalogue of the archive is encrypted with: %s", error)
            self._note_problem = str(error)

    def _catalogue(self, content: Content) -> Catalogue:
        return Catalogue(
            installation=self.installation,
            host=socket.gethostname(),
            release=__version__,
            written_at=utc_now(),
            projects=content.projects,
            keys=content.keys,
            services=content.services,
            deleted=content.deleted,
            deleted_names=content.deleted_names,
            sealed=self.key.seal(content.secrets, self.installation),
        )

    def _last_content(self) -> Content | None:
        """Return what the newest version of this installation says; None when that is unknown."""
        for known in read_catalogues(self.bucket):
            if known.installation == self.installation:
                try:
                    secrets = self.key.unseal(known.sealed, self.installation)
                except Invalid:
                    return None
                return Content(known.projects, known.keys, known.services, known.deleted, secrets, known.deleted_names)
        return None
