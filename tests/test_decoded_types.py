"""Threads that use a type for the first time at once do not end the process."""

import subprocess
import sys

import pytest

# Each type has the one before in its fields. While msgspec reads the names of types in an annotation, others run.
_THREADS = """
import sys, threading, types
import msgspec
from ramet.decoded_types import learn_types
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
    together = threading.Barrier(4)
    def convert():
        together.wait()
        msgspec.convert({f"f{one}": {} for one in range(20)}, module.F)
    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("kind", ["class NAME(msgspec.Struct)", "@dataclasses.dataclass\\nclass NAME"])
def test_threads_use_a_type_for_the_first_time_at_once(kind: str) -> None:
    command = [sys.executable, "-c", _THREADS.replace("KIND", kind)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
