"""A fork's data for a past moment: a snapshot, and the WAL that leads from it to there."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ramet.backends.base import Capture
from ramet.backends.local import owned, snapshots
from ramet.backends.local.bases import Base, Stopwatch, captured, copy_stopped, facts_of
from ramet.backends.local.controldata import read_control_data
from ramet.backends.local.cut import cut_at_time
from ramet.backends.local.installation import Installation
from ramet.backends.local.integrity import noted_files
from ramet.backends.local.moments import (
    Chain,
    WalEnd,
    chain_to,
    commit_beyond,
    end_on_disk,
    ended_before,
    last_reachable,
)
from ramet.backends.local.paths import ServicePaths
from ramet.backends.local.standalone import RECOVERY_SIGNAL
from ramet.backends.local.volumes.driver import Driver, Exclusions
from ramet.backends.local.wal import segment_at, segments_between
from ramet.backends.local.walsource import WAL_DIRECTORY, BrokenChain, WalSource, live_and_archived
from ramet.errors import Failed
from ramet.model.fork import shown

# Set in a capture's facts: all its WAL is wanted, and archive recovery is what replays it.
TO_THE_END = "to_the_end"
# Written last when a server stops.
_CONTROL_FILE = Path("global", "pg_control")
_WITHOUT_WAL = Exclusions(emptied=frozenset((WAL_DIRECTORY,)))


@dataclass(frozen=True)
class RollForward:
    """One capture for one moment. `paused` says that the parent's server is cleanly stopped, `down` that it is not
    but does not run either: then nothing is asked of it, and its last state is the end of its WAL.
    """

    driver: Driver
    installation: Installation
    parent: ServicePaths
    snapshot_id: str
    target: datetime
    paused: bool
    down: bool = False

    def into(self, data: Path) -> Capture:
        """Fill the new tree `data`. Recovery is asked for, unless the moment is the last state of a paused parent.

        Raises Unavailable when the parent should be serving and is not.
        """
        base = snapshots.base_of(self.parent, self.snapshot_id)
        tree = snapshots.data_of(self.parent, self.snapshot_id)
        places = [*live_and_archived(self.parent), tree / WAL_DIRECTORY]
        source = WalSource(self.driver, places, base.system_identifier, noted_files(self.parent))
        try:
            return self._fill(data, tree, base, source)
        except BrokenChain as broken:
            raise self._with_remedy(broken, base, source) from broken

    def _fill(self, data: Path, tree: Path, base: Base, source: WalSource) -> Capture:
        clock = Stopwatch()
        if self.paused and ended_before(self.parent.data / _CONTROL_FILE, self.target):
            return captured(copy_stopped(self.driver, self.installation, self.parent, data))
        end = self._wal_end(base, source)
        chain = chain_to(source, self._pg_waldump, base, self.target, end)
        clock.lap("find")
        if chain is None and not self.down:
            return captured(copy_stopped(self.driver, self.installation, self.parent, data))
        chain = chain or Chain(list(segments_between(base.segments[0], end.segment)), end.lsn)
        self.driver.clone_tree(tree, data, _WITHOUT_WAL)
        clock.lap("clone")
        source.place_all(chain.segments, data, chain.until_lsn)
        owned.write_file(data, RECOVERY_SIGNAL)
        clock.lap("wal")
        placed = [data / WAL_DIRECTORY / segment.name for segment in chain.segments]
        cut = cut_at_time(self._pg_waldump, placed, self.target)
        clock.lap("cut")
        facts = {**_facts(base, chain, clock), "cut": cut.facts()}
        if cut.first_excluded is None:
            return Capture(None, {**facts, "end_lsn": end.lsn, TO_THE_END: True})
        return Capture(self.target, facts)

    def _wal_end(self, base: Base, source: WalSource) -> WalEnd:
        if not self.paused and not self.down:
            return commit_beyond(self.parent, base.facts.timeline, self.target)
        control = read_control_data(self.installation.program("pg_controldata"), self.parent.data)
        if self.down:
            return end_on_disk(source, self._pg_waldump, base, segment_at(control.timeline, control.checkpoint_lsn))
        return WalEnd(control.redo_segment, control.checkpoint_lsn, proven=False)

    def _with_remedy(self, broken: BrokenChain, base: Base, source: WalSource) -> Failed:
        before = last_reachable(source, self._pg_waldump, base, broken.segment)
        bases = snapshots.all_bases(self.parent)
        after = min((one.facts.taken_at for one in bases if one.begins_after(broken.segment)), default=None)
        moments = [shown(moment) for moment in (before, after) if moment is not None]
        nearest = f"The nearest that can be had: {' and '.join(moments)}." if moments else "Fork as of now instead."
        return Failed(
            broken.code,
            f"{broken.message}, so the moment {shown(self.target)} of service {self.parent.service_id} cannot be had",
            nearest,
        )

    @property
    def _pg_waldump(self) -> str:
        return self.installation.program("pg_waldump")


def _facts(base: Base, chain: Chain, clock: Stopwatch) -> dict[str, Any]:
    return {**facts_of(base), "segments": [segment.name for segment in chain.segments], "seconds": clock.laps}
