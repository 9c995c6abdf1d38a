# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of things: each round, each collective, each size, and at each size every library.

Who begins changes from turn to turn. A library that fails or does not answer is started anew for
its next turn, and not asked for that size again; one that fails often is left out of the case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.cluster import BenchError, TestCluster

from .candidates import BY_KEY, LIMIT, Candidate
from .cases import Case
from .results import Joined, Run, Time, Turn
from .sessions import Allocation, Order, Session
from .words import size_name

_MOST_FAILURES = 4
# Of a core, while the others are measured.
_MOST_IDLE_SHARE = 0.02


@dataclass(frozen=True)
class Plan:
    """What is asked for on the command line."""

    collectives: tuple[str, ...]  # none: as each case says, and so for the sizes
    sizes: tuple[int, ...]
    rounds: int
    seconds: float

    def collectives_of(self, case: Case) -> tuple[str, ...]:
        return self.collectives or case.collectives


class _Player:
    """A library in one case, through all sessions that it needs."""

    def __init__(
        self, cluster: TestCluster, case: Case, candidate: Candidate, allocated: tuple[str, ...]
    ) -> None:
        self.candidate = candidate
        self._start = lambda: Session(cluster, case, candidate, allocated)
        self._case = case
        self._session: Session | None = None
        self._refused: set[tuple[str, int]] = set()
        self._checked: set[tuple[str, int]] = set()
        self._failures = 0
        self.most_idle_share = 0.0

    def join(self) -> Joined:
        """Starts the library; BenchError tells why it cannot be."""
        session = self._started()
        name = " ".join(session.head["library"].split())
        return Joined(self._case.key, self.candidate.key, name, session.command)

    def plays(self, order: Order) -> bool:
        return self._failures < _MOST_FAILURES and (
            self.candidate.takes_part(self._case, order.collective)
            and (order.collective, order.size) not in self._refused
        )

    def measure(self, collective: str, size: int, seconds: float) -> Time | None:
        """None where the library has no such collective."""
        what = (collective, size)
        try:
            order = Order(collective, size, seconds, what not in self._checked)
            answer = self._started().measure(order)
            if answer.get("missing"):
                self._refused.add(what)
                return None
            self._must_have_crossed(collective, answer)
        except BenchError:
            self._refused.add(what)
            self._failures += 1
            self.end(0)
            raise
        self._checked.add(what)
        self.most_idle_share = max(self.most_idle_share, answer["idle_share"])
        names = ("median_us", "tenth_us", "ninetieth_us", "iterations")
        return Time(*(answer[name] for name in names))

    def end(self, seconds: float = 20) -> None:
        if self._session:
            self._session.end(seconds)
        self._session = None

    def _started(self) -> Session:
        if self._session is None:
            self._session = self._start()
        return self._session

    def _must_have_crossed(self, collective: str, answer: dict[str, Any]) -> None:
        """Over a network, data that no interface has seen went another way."""
        if not self._case.over_network or self.candidate.family == LIMIT:
            return
        size, ranks = answer["bytes"], self._case.ranks
        # Whatever the algorithm; a root that gathers, reduces and scatters receives the most.
        least = size / ranks if collective == "reduce_scatter" else size * (ranks - 1) / ranks
        # Ranks that are a call ahead have sent before this one looks; of few calls that is much.
        least /= 2
        ends = "most" if collective == "broadcast" else "least"
        received = answer[f"{ends}_received_bytes"]
        if received < least:
            raise BenchError(
                f"a host received only {received:.0f} of {least:.0f} bytes: the data did not go"
                " over the network"
            )


def _joined(
    run: Run, cluster: TestCluster, case: Case, wanted: list[Candidate], say: Callable[[str], None]
) -> tuple[Allocation, list[_Player]]:
    allocation = Allocation(cluster, case)
    players = []
    for candidate in wanted:
        player = _Player(cluster, case, candidate, allocation.variables)
        try:
            run.joined.append(player.join())
        except BenchError as error:
            run.remarks.append(f"{candidate.label} cannot be started, {case.title}: {error}")
            say(run.remarks[-1])
            continue
        players.append(player)
        say(f"{case.key}: {candidate.key} is {run.joined[-1].library}")
    return allocation, players


def _announce(turn: Turn, say: Callable[[str], None]) -> None:
    times = ", ".join(f"{key} {time.median_us:.4g}" for key, time in turn.times.items())
    say(f"{turn.case} round {turn.round} {turn.collective} {size_name(turn.size)}: {times} µs")
    for key, error in turn.errors.items():
        say(f"  {key} failed: {error}")


def _measure_turn(turn: Turn, players: list[_Player], seconds: float) -> None:
    for player in players:
        if player.plays(Order(turn.collective, turn.size, seconds, False)):
            key = player.candidate.key
            try:
                time = player.measure(turn.collective, turn.size, seconds)
                if time:
                    turn.times[key] = time
            except BenchError as error:
                turn.errors[key] = str(error)


def measure_case(
    run: Run,
    cluster: TestCluster,
    case: Case,
    wanted: list[Candidate],
    plan: Plan,
    pingpong: Callable[[], float],
    done: Callable[[Turn], None],
    say: Callable[[str], None],
) -> None:
    """All turns of a case."""
    allocation, players = _joined(run, cluster, case, wanted, say)
    before = pingpong()
    try:
        for number in range(1, plan.rounds + 1):
            for collective in plan.collectives_of(case):
                for size in plan.sizes or case.sizes:
                    turn = Turn(
                        case.key, collective, size, number, (before, before), os.getloadavg()[0]
                    )
                    players.append(players.pop(0))
                    _measure_turn(turn, players, plan.seconds)
                    after = pingpong()
                    turn.pingpong_ns = (before, after)
                    before = after
                    run.turns.append(turn)
                    _announce(turn, say)
                    done(turn)
    finally:
        for player in players:
            player.end()
        allocation.end()
    for player in players:
        if player.most_idle_share > _MOST_IDLE_SHARE:
            run.remarks.append(
                f"While it waited for its turn, {BY_KEY[player.candidate.key].label} took up to"
                f" {player.most_idle_share:.0%} of a core, {case.title}."
            )
