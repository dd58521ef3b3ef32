"""Whether pods reach addresses: inside of the cluster, and outside of it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.kubernetes.contents import kubectl
from harness.kubernetes.layout import HOST_ADDRESS

_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@contextmanager
def listening_outside() -> Iterator[int]:
    """Give a port of this machine, which is outside of the cluster, that accepts connections."""
    with socket.create_server((HOST_ADDRESS, 0)) as server:
        threading.Thread(target=_accept, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def reaches(at: str, pod: str, address: str, port: int, container: str = "") -> bool:
    """Tell whether a program in a pod can connect to an address. Raises RuntimeError for another reason than time."""
    chosen = [f"--container={container}"] if container else []
    try:
        kubectl("exec", pod, f"--namespace={at}", *chosen, "--", "python3", "-c", _CONNECT, address, str(port))
    except RuntimeError as refused:
        if "TimeoutError" not in str(refused):
            raise
        return False
    return True


def _accept(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return
