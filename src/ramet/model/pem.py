"""Certificates in PEM as users send them. Whether they verify anything is seen when they are used."""

PEM_BEGIN = "-----BEGIN CERTIFICATE-----"


def is_pem(text: str) -> bool:
    """Tell whether a text can have certificates: OpenSSL reads ASCII only, and PostgreSQL's json no character zero."""
    return text.isascii() and "".join(text.split()).isprintable() and PEM_BEGIN in text
