"""Passwords, verifiers, and secrets that do not print."""

from ramet.model.passwords import Secret, derived_password, is_password_of, new_password, scram_verifier


def test_a_secret_does_not_print() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hunter2"


def test_passwords_are_long_and_differ() -> None:
    passwords = {new_password().reveal() for _ in range(100)}
    assert len(passwords) == 100
    assert all(len(password) == 24 and password.isalnum() for password in passwords)


def test_a_derived_password_depends_on_all_it_derives_from() -> None:
    same = derived_password(b"root", "service", "key")
    assert same == derived_password(b"root", "service", "key")
    others = {
        derived_password(b"toor", "service", "key"),
        derived_password(b"root", "ecivres", "key"),
        derived_password(b"root", "service", "yek"),
    }
    assert same not in others
    assert len(others) == 3


def test_the_verifier_is_the_one_of_rfc_7677() -> None:
    """RFC 7677, section 3: user 'user', password 'pencil', with its salt and 4096 iterations."""
    import base64
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = scram_verifier(Secret("pencil"), salt).reveal()
    mechanism, iterations, keys = verifier.split("$")
    assert (mechanism, iterations.split(":")[0]) == ("SCRAM-SHA-256", "4096")
    server_key = base64.b64decode(keys.split(":")[1])
    message = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,"
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(server_key, message.encode(), hashlib.sha256)
    assert base64.b64encode(signature).decode() == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_verifier_is_distinguished_from_those_of_other_passwords() -> None:
    verifier = scram_verifier(Secret("pass\u00e9"))
    assert is_password_of(Secret("pass\u00e9"), verifier)
    assert not is_password_of(Secret("passe"), verifier)
    for foreign in ("", "md5" + "0" * 32, "SCRAM-SHA-256$4096:???$a:b", "SCRAM-SHA-256$4096:AAAA$a:b"):
        assert not is_password_of(Secret("pass\u00e9"), Secret(foreign))
