"""The certificate of the authority, as a file with which clients verify endpoints."""

from litestar import Response

from ramet.console.context import SignedIn, read
from ramet.console.rendering import HEADERS
from ramet.control.authority import certificate_authority


@read("/certificate-authority", operation="getCertificateAuthority", sync_to_thread=True)
def download(session: SignedIn) -> Response[str]:
    """Send the certificate as PEM."""
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="ramet-ca.crt"'}
    return Response(
        certificate_authority(session.plane).certificate, media_type="application/x-pem-file", headers=headers
    )
