"""The oracle: which accesses of a program nothing orders, by the rules of PTX's memory model.

Every access, copy, fence and wait of a thread is an event. An event carries the set of events that happen
before it, itself included, as the bits of an integer, so "a happens before b" is one bit. The rules:

- A thread's events happen in the order of its program.
- __syncthreads and __syncwarp: what any of those who meet did before, happens before what any of them does
  after.
- cp.async: the landing is an event of its own, after what its thread did before the issue, and before what
  the thread does after the wait_group that covers it. Nothing else orders it: not the commit, not other
  copies, no barrier.
- mbarrier: a phase completes when all its arrivals were made and all its bytes have landed. Whoever has
  waited for the phase comes after those arrivals, what their threads did before, and those landings. Of later
  phases he knows nothing.
- Bulk copies write through the async proxy. Between an ordinary access and a later copy to the same bytes
  there must be a fence.proxy.async on the way, by any thread. Landing, completion and wait order the other
  direction without one.

Two accesses of one byte, one of them a write, must be ordered. Nothing here depends on an order of warps: a
thread that waits learns of the earliest phase that its parity can mean. If a phase after that one could
complete without him, he may miss his own and wait for ever ("missed phase").

Two kinds of program have no one answer and raise Undefined: arrivals of two phases can change places; a
barrier that a thread does not meet because it has returned (CUDA lets the others pass, but does not say
whether they see what it did).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .conflicts import Access, Finding, Opinion, is_fenced, look_for_conflicts
from .language import BUFFER, LANES, Program, Step

_WARP_BARRIERS = ("syncwarp", "split_syncwarp")


class Undefined(Exception):
    """What the program does depends on more than an order of accesses."""


class _Stop(Exception):
    """Behind this point PTX promises nothing."""


@dataclass
class _Phases:
    """An mbarrier."""

    count: int
    init: Access
    pending: int
    bytes: int = 0  # expected and not yet landed
    now: int = 0  # what happens before the end of the phase under way
    landings: int = 0  # of it, those of copies
    done: list[tuple[int, int]] = field(default_factory=list)  # of each phase completed: now, landings

    def advance(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.done.append((self.now, self.landings))
            self.now, self.landings, self.pending = 0, 0, self.count


def judge(program: Program) -> Opinion:
    """The oracle's opinion of a program. Raises Undefined."""
    return _Run(program).opinion()


class _Run:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.threads = range(program.warps * LANES)
        self.walk: list[list[Step]] = [
            [step for step in program.steps() if step.statement.takes_part(t // LANES, t % LANES)]
            for t in self.threads
        ]
        self.at = [0] * len(self.threads)
        self.known = [0] * len(self.threads)  # what happens before the thread's next event
        self.events = 0
        self.cells: dict[int, list[Access]] = defaultdict(list)  # by pairs of bytes
        self.fences: list[tuple[int, int]] = []  # event, before
        self.barriers: dict[int, _Phases] = {}
        self.open: list[int] = [0] * len(self.threads)  # landings that no commit has closed
        self.groups: list[list[int]] = [[] for _ in self.threads]
        self.copies: list[Access] = []
        self.waits: list[tuple[int, int, int, int]] = []  # event, barrier, phase, place
        self.result = Opinion()

    def opinion(self) -> Opinion:
        try:
            while self._go_on() or self._meet():
                pass
            self._end()
        except _Stop:
            pass  # what was done before is looked at all the same
        look_for_conflicts(self.cells.values(), self.fences, self.result)
        return self.result

    def found(self, kind: str, *places: int) -> None:
        self.result.findings.add(Finding(kind, frozenset(places)))

    # ---- walking ----
    def _go_on(self) -> bool:
        """Every thread walks until it has to wait for others."""
        moved = False
        for t in self.threads:
            while self.at[t] < len(self.walk[t]) and self._do(t, self.walk[t][self.at[t]]):
                self.at[t] += 1
                moved = True
        return moved

    def _event(self, t: int) -> int:
        """A new event of the thread; returns it as a set of one."""
        event = 1 << self.events
        self.events += 1
        self.known[t] |= event
        return event

    def _do(self, t: int, step: Step) -> bool:
        """One step of a thread; False if it has to wait."""
        s = step.statement
        if s.op == "syncthreads" or s.op in _WARP_BARRIERS:
            return False
        if s.op in ("lds", "sts"):
            event = self._event(t)
            access = Access(event, self.known[t], t, step.place, s.op == "sts", "thread")
            self._touch(access, s.first_byte(t // LANES, t % LANES, self.program.warps, step.turn), s.size)
        elif s.op == "cp_async":
            landing = self._landing(t, step, "cp.async")
            first = s.first_byte(t // LANES, t % LANES, self.program.warps, step.turn)
            self._touch(landing, first, s.size)
            self.open[t] |= landing.before
        elif s.op == "commit":
            self.groups[t].append(self.open[t])
            self.open[t] = 0
        elif s.op == "wait_group":
            for group in self.groups[t][: max(0, len(self.groups[t]) - s.number)]:
                self.known[t] |= group
        elif s.op == "fence":
            event = self._event(t)
            self.fences.append((event, self.known[t]))
        else:
            return self._do_barrier(t, step)
        return True

    def _touch(self, access: Access, first: int, size: int) -> None:
        for cell in range(first // 2, (first + size) // 2):
            self.cells[cell].append(access)

    def _landing(self, t: int, step: Step, by: str) -> Access:
        """A copy's landing: it comes after the issue, and its thread goes on without it."""
        event = 1 << self.events
        self.events += 1
        landing = Access(event, self.known[t] | event, t, step.place, True, by)
        self.copies.append(landing)
        return landing

    def _meet(self) -> bool:
        """Lets those go on who wait for each other at __syncwarp or __syncthreads and are all there."""
        here = {t: self.walk[t][self.at[t]] for t in self.threads if self.at[t] < len(self.walk[t])}
        for t in here:
            warp = range(t - t % LANES, t - t % LANES + LANES)
            if all(lane in here and here[lane].statement.op in _WARP_BARRIERS for lane in warp):
                return self._pass_on(warp)
        if not here:
            return False
        # CUDA wants all threads that have not returned at one and the same __syncthreads.
        at = set(here.values())
        if len(at) == 1 and at.pop().statement.op == "syncthreads":
            if len(here) < len(self.threads):
                raise Undefined
            return self._pass_on(self.threads)
        self.found("stuck", *{step.place for step in here.values()})
        raise _Stop

    def _pass_on(self, threads: range) -> bool:
        together = 0
        for t in threads:
            together |= self.known[t]
        for t in threads:
            self.known[t] = together
            self.at[t] += 1
        return True

    # ---- mbarriers ----
    def _do_barrier(self, t: int, step: Step) -> bool:
        s, barrier = step.statement, self.barriers.get(step.statement.barrier)
        if s.op == "init":
            event = self._event(t)
            if barrier is not None:
                self.found("barrier object", step.place, barrier.init.place)
                raise _Stop
            init = Access(event, self.known[t], t, step.place, True, "thread")
            self.barriers[s.barrier] = _Phases(s.number, init, s.number)
            return True
        if barrier is None:
            return False  # if ever it becomes one, then not in this thread's past
        if not barrier.init.event & self.known[t]:
            self.found("barrier object", step.place, barrier.init.place)
            raise _Stop
        if s.op == "wait":
            return self._wait(t, step, barrier)
        self._belongs_to_this_phase(t, step, barrier)
        event = self._event(t)
        if s.op == "bulk":
            landing = self._landing(t, step, "bulk")
            self._touch(landing, s.buffer_in(step.turn) * BUFFER, s.number)
            if not is_fenced(barrier.init, landing, self.fences):
                self.found("missing fence", step.place, barrier.init.place)
            barrier.bytes -= s.number
            barrier.now |= landing.before
            barrier.landings |= landing.event
        else:
            if barrier.pending == 0:
                self.found("barrier count", step.place)
                raise _Stop
            barrier.pending -= 1
            barrier.bytes += s.number if s.op == "expect" else 0
            barrier.now |= self.known[t] | event
        barrier.advance()
        return True

    def _belongs_to_this_phase(self, t: int, step: Step, barrier: _Phases) -> None:
        """Nothing that this thread adds to a phase may be early enough for the one before."""
        if barrier.done:
            before, landings = barrier.done[-1]
            missing = before & ~self.known[t]
            if missing & ~landings:
                raise Undefined
            if missing:  # the phase may still wait for its bytes, and has had all its arrivals
                self.found("barrier count", step.place)
                raise _Stop

    def _wait(self, t: int, step: Step, barrier: _Phases) -> bool:
        phases = [now for now, _ in barrier.done]
        past = 0
        while past < len(phases) and not phases[past] & ~self.known[t]:
            past += 1
        phase = past - 1  # the last one that the thread knows to be over
        if phase % 2 != step.statement.parity_in(step.turn):
            phase = past
            if phase == len(phases):
                return False
            self.known[t] |= phases[phase]
        self.waits.append((self._event(t), step.statement.barrier, phase, step.place))
        return True

    def _end(self) -> None:
        """All threads are through."""
        for number, barrier in self.barriers.items():
            if barrier.bytes < 0:
                places = [
                    place
                    for place, s in enumerate(self.program.statements)
                    if s.op in ("expect", "bulk") and s.barrier == number
                ]
                self.found("barrier bytes", *places)
        for event, number, phase, place in self.waits:
            done = self.barriers[number].done
            if len(done) > phase + 1 and not done[phase + 1][0] & event:
                self.found("missed phase", place)
        everyone = 0
        for t in self.threads:
            everyone |= self.known[t]
        for copy in self.copies:
            if not copy.event & (self.known[copy.thread] if copy.by == "cp.async" else everyone):
                self.found("copy never waited for", copy.place)
