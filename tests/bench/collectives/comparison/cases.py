# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured: collectives, sizes, and where the ranks are."""

from __future__ import annotations

from dataclasses import dataclass

KI = 1024
MI = 1024 * KI
_SIZES = (8, 64, 4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)
QUICK_SIZES = (8, 16 * KI, MI)

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "alltoall", "broadcast")


@dataclass(frozen=True)
class Case:
    """Some ranks on some hosts of the test cluster."""

    key: str
    title: str
    ranks: int
    hosts: int
    sizes: tuple[int, ...]
    crowded: bool = False  # more ranks than cores
    limit: str = "a copy between two processes"
    collectives: tuple[str, ...] = COLLECTIVES  # unless the command line says which

    @property
    def over_network(self) -> bool:
        return self.hosts > 1

    def least_received(self, collective: str, size: int) -> float:
        """Bytes that a rank must receive: nccl-tests' factors of bus bandwidth."""
        if collective == "broadcast":
            return size
        factor = 2 if collective == "allreduce" else 1
        return factor * (self.ranks - 1) / self.ranks * size

    def bus_bandwidth(self, collective: str, size: int, microseconds: float) -> float:
        """GB/s."""
        return self.least_received(collective, size) / (microseconds * 1000)


_ALLREDUCE = ("allreduce",)
_TCP = "one TCP stream"
CASES = (
    Case("node2", "2 ranks on one host", 2, 1, _SIZES),
    Case("node4", "4 ranks on one host of 2 cores", 4, 1, _SIZES, True, collectives=_ALLREDUCE),
    Case("hosts4", "4 hosts over TCP, one rank each", 4, 4, _SIZES, True, _TCP),
    # What clusters are made of: several hosts with several ranks each.
    Case("hosts4x2", "4 hosts over TCP, 2 ranks each", 8, 4, _SIZES, True, _TCP, _ALLREDUCE),
    Case("hosts4x4", "4 hosts over TCP, 4 ranks each", 16, 4, _SIZES[:-1], True, _TCP, _ALLREDUCE),
)
