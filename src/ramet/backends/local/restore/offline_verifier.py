"""The verifier of a role in the files of a server that was shut down cleanly, set without starting the server.

All verifiers that Ramet makes have the same length, so one takes the place of another within its page of pg_authid, and
only the page's checksum changes with it. Nothing is in the WAL then that would change the page again. A page is written
only if its own checksum confirms first that it is what PostgreSQL has written, and that this module computes checksums
as PostgreSQL does (src/include/storage/checksum_impl.h).
"""

import os
import struct
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.wal.segment import PAGE_BYTES
from ramet.model.secret import Secret

_CHECKSUM = struct.Struct("<H")
_CHECKSUM_AT = 8
_WORDS = struct.Struct(f"<{PAGE_BYTES // 4}I")
_PRIME = 16777619
_BITS = 0xFFFFFFFF
_MOST_BYTES = 1024 * 1024  # tenants decide how many roles there are
_BEGINNINGS = (
    0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
    0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
    0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
    0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
)  # fmt: skip


def replace_verifier(pg_authid: Path, earlier: Secret, verifier: Secret) -> bool:
    """Replace a verifier in the file of pg_authid wherever it is; False, with nothing changed, if that is not possible.

    It is not if the file does not have the earlier verifier, a verifier has another length, a page has no checksum or a
    wrong one, or the file is large. The server must have been shut down cleanly, and must not run. Nothing is flushed.
    """
    old, new = earlier.reveal().encode(), verifier.reveal().encode()
    content = bytearray(_content(pg_authid))
    if len(old) != len(new) or old not in content:
        return False
    changed = {}
    for number, start in enumerate(range(0, len(content), PAGE_BYTES)):
        page = content[start : start + PAGE_BYTES]
        if old in page:
            if _checksum_of(page) != checksum(page, number):
                return False
            page = page.replace(old, new)
            _CHECKSUM.pack_into(page, _CHECKSUM_AT, checksum(page, number))
            changed[start] = page
    with files.changed(pg_authid) as file:
        for start, page in changed.items():
            file.seek(start)
            file.write(page)
    return bool(changed)


def has_verifier(pg_authid: Path, verifier: Secret) -> bool:
    """Tell whether the file of pg_authid has a verifier, whether or not its server runs; False if it is large."""
    return verifier.reveal().encode() in _content(pg_authid)


def _content(pg_authid: Path) -> bytes:
    with files.plain(pg_authid) as file:
        return file.read() if os.fstat(file.fileno()).st_size <= _MOST_BYTES else b""


def checksum(page: bytes | bytearray, number: int) -> int:
    """Return the checksum of a page of a table, which depends on its number in the table too."""
    whole = bytearray(page)
    _CHECKSUM.pack_into(whole, _CHECKSUM_AT, 0)
    words, total = _WORDS.unpack(whole), number
    for lane, value in enumerate(_BEGINNINGS):
        for word in (*words[lane :: len(_BEGINNINGS)], 0, 0):
            mixed = value ^ word
            value = (mixed * _PRIME & _BITS) ^ (mixed >> 17)
        total ^= value
    return total % 65535 + 1


def _checksum_of(page: bytes | bytearray) -> int:
    found: int = _CHECKSUM.unpack_from(page, _CHECKSUM_AT)[0]
    return found
