"""The certificate authority of this installation."""

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from ramet.control.plane import Plane
from ramet.errors import Invalid


@dataclass(frozen=True)
class CertificateAuthority:
    """An authority as clients need it: its certificate as PEM, and the fingerprint to compare."""

    certificate: str
    sha256_fingerprint: str


def certificate_authority(plane: Plane) -> CertificateAuthority:
    """Return the authority. Raises Invalid where the backend has none for all services."""
    authority = plane.backend.authority
    if not authority:
        raise Invalid(
            "NO_AUTHORITY",
            "This backend has no authority that the certificates of all services are of",
            "On Kubernetes each service has its own: kubectl get secret ramet-SERVICE_ID-ca --namespace NAMESPACE "
            "-o jsonpath='{.data.ca\\.crt}' | base64 --decode",
        )
    digest = x509.load_pem_x509_certificate(authority.encode()).fingerprint(hashes.SHA256())
    return CertificateAuthority(authority, digest.hex(":").upper())
