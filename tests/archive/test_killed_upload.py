"""An upload whose process is killed in the middle of a part continues with that part; the base backup is complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from tests.archive.test_base_backups import INFO, content, download

_PART_BYTES = 20_000_000
# Waits for its end in the middle of the third part, when its first 16 MiB are sent.
_UPLOAD = f"""
import contextlib, sys, threading
from pathlib import Path
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from tests.archive.test_base_backups import INFO
usual, sent = Bucket.writer, 0

@contextlib.contextmanager
def writer(bucket, key):
    with usual(bucket, key) as file:
        write = file.write
        class Waiting:
            def write(self, content):
                global sent
                sent += len(content)
                if key.endswith("data_0002.tar.gz") and sent > 2 * {_PART_BYTES} + 18_000_000:
                    print("half", flush=True)
                    threading.Event().wait()
                return write(content)
        yield Waiting()

Bucket.writer = writer
BaseBackups(open_bucket(sys.argv[1]), INFO.server_name, part_bytes={_PART_BYTES}).upload(INFO, Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_an_upload_continues_after_its_process_was_killed(s3_bucket: Bucket, tmp_path: Path) -> None:
    tree = tmp_path / "data"
    tree.mkdir()
    for number in range(3):
        (tree / str(number)).write_bytes(os.urandom(_PART_BYTES))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "-c", _UPLOAD, s3_bucket.url, str(tree)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "half\n"
        finally:
            process.kill()
    second = layout.part_key(INFO.server_name, INFO.backup_id, 1)
    backups = BaseBackups(s3_bucket, INFO.server_name, part_bytes=_PART_BYTES)
    assert backups.complete() == []
    before = s3_bucket.read_version(second)
    backups.upload(INFO, tree)
    assert s3_bucket.read_version(second) == before
    assert backups.complete() == [INFO]
    download(backups, tmp_path / "restored")
    assert content(tmp_path / "restored") == content(tree)
