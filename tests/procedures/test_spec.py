"""The table of procedures agrees with the procedures, and states have the types that it promises."""

import inspect
import typing

import msgspec
import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.model.procedures import COPYING_STEPS, SENDING_STEPS, SPECS, ProcedureName
from ramet.moves.procedure import Move
from ramet.operations.procedure import Procedure
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.procedures.spec import submit
from ramet.procedures.state import STATES, Interrupting

_TOOLS = Tools(None, MemoryBackend(), None)  # type: ignore[arg-type]
PROCEDURES = [*all_procedures(_TOOLS), Move(_TOOLS).procedure()]


def test_every_name_has_a_spec_a_state_and_a_procedure() -> None:
    assert list(SPECS) == list(ProcedureName) == list(STATES)
    assert sorted(procedure.name for procedure in PROCEDURES) == sorted(ProcedureName)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)
def test_a_procedure_has_the_steps_of_its_spec_in_their_order(procedure: Procedure) -> None:
    assert list(procedure.steps) == list(SPECS[procedure.name].steps)
    assert set(procedure.undo) <= set(procedure.steps)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)
def test_each_step_reads_the_state_that_is_decoded_for_it(procedure: Procedure) -> None:
    for run in (*procedure.steps.values(), *procedure.undo.values()):
        (read,) = typing.get_args(typing.get_type_hints(run)["work"])
        assert read is typing.Any or issubclass(procedure.state, read), run


def test_every_step_has_a_title_in_one_line() -> None:
    for spec in SPECS.values():
        assert all(title and title[0].isupper() and "\n" not in title for title in (spec.title, *spec.steps.values()))


def test_the_steps_that_take_long_are_steps() -> None:
    assert {f"{spec.name}.{step}" for spec in SPECS.values() for step in spec.steps} >= COPYING_STEPS | SENDING_STEPS


def test_a_state_of_another_procedure_is_not_submitted() -> None:
    with pytest.raises(AssertionError, match="BUG: the state of fork is a ForkState, not a Interrupting"):
        submit(None, ProcedureName.FORK, "service", Interrupting())  # type: ignore[arg-type]


@pytest.mark.parametrize("state", set(STATES.values()), ids=lambda state: state.__name__)
def test_a_state_says_what_its_fields_are(state: type[msgspec.Struct]) -> None:
    assert inspect.getdoc(state)
