"""Threads that use a type for the first time at once do not end the process."""

import subprocess
import sys

import pytest

# Each type has the one before in its fields. While msgspec reads the names of types in an annotation, others run.
_THREADS = """
import sys, threading, types
import msgspec
LEARN
sys.setswitchinterval(1e-6)
for number in range(100):
    module = types.ModuleType(f"ramet.made_{number}")
    sys.modules[module.__name__] = module
    text, before = "from __future__ import annotations\\nimport dataclasses, msgspec\\n", "int"
    for name in "ABCDEF":
        fields = "\\n".join(f"    f{one}: {before} | None = None" for one in range(20))
        text, before = f"{text}KIND:\\n{fields}\\n".replace("NAME", name), name
    exec(text, vars(module))
    learn_types()
    values = {f"f{one}": {} for one in range(20)}
    together = threading.Barrier(4)
    def convert():
        together.wait()
        USE
    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
_SERVER = "from ramet.decoded_types import learn_types", "msgspec.convert(values, module.F)"
_CLIENT = (
    """
from ramet.client.connection import Connection
from ramet.client.http_connection import Answer
learn_types = lambda: None
client = Connection("http://127.0.0.1:1", "a", "b", "c")
""",
    "client._decoded(Answer(200, msgspec.json.encode(values)), module.F)",
)


@pytest.mark.parametrize("kind", ["class NAME(msgspec.Struct)", "@dataclasses.dataclass\\nclass NAME"])
@pytest.mark.parametrize(("learn", "use"), [_SERVER, _CLIENT], ids=["server", "client"])
def test_threads_use_a_type_for_the_first_time_at_once(kind: str, learn: str, use: str) -> None:
    script = _THREADS.replace("KIND", kind).replace("LEARN", learn).replace("USE", use)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
