# SPDX-License-Identifier: Apache-2.0
"""Signal handlers of rank 0 while it waits for rank 1, which comes only once they have run.

Breaks when a wait keeps Python from handling a signal, when an exception of a handler is lost, or
when it takes the operation along although the thread could leave it.
"""

import contextlib
import gc
import signal

import check
import numpy as np
import rows

import mpi_bridge
from mpi_bridge import engine, messages
from mpi_bridge.engine import Kind
from mpi_bridge.in_flight import InFlight

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
NOTE = "signals"
STEPS = 20  # enough for a plan


class Alarm(Exception):  # noqa: N818 - no error
    pass


@contextlib.contextmanager
def alarms(handler):
    """Call the handler on rank 0 again and again."""
    if RANK != 0:
        yield
        return
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tell_rank_1():
    message = messages.send(b"x", 1, NOTE, 0)
    message.wait()
    message.release()


def await_rank_0():
    if RANK == 1:
        message = messages.receive(bytearray(1), 0, NOTE, 0)
        message.wait()
        message.release()


def planned(name):
    """Return numbers whose allreduce of this name is in the plan."""
    numbers = np.ones(4, "f4")
    before = engine.counters()["planned_buckets"]
    for _ in range(STEPS):
        numbers[:] = 1
        engine.call(Kind.ALLREDUCE, numbers, numbers, name=name)
        check.equal("step", numbers, np.full(4, SIZE, "f4"))
    check.equal("in the plan", engine.counters()["planned_buckets"] > before, True)
    numbers[:] = 1
    return numbers


def telling():
    """Return a handler that tells rank 1 once, and a function that makes it tell again."""
    told = []

    def handler(_number, _frame):
        if not told:
            told.append(True)
            tell_rank_1()

    return handler, told.clear


def raising(_number, frame):
    """Raise where the thread waits: not before, and not again once an exception has left there."""
    while frame is not None and frame.f_code is not InFlight._wait.__code__:
        frame = frame.f_back
    if frame is not None:
        raise Alarm


def skip_alone():
    if SIZE == 1:
        raise check.Skipped("one rank waits for nobody")


def check_a_handler_runs_while_a_thread_waits_in_the_plan():
    skip_alone()
    numbers = planned("signals.planned")
    handler, again = telling()
    for run in (
        lambda: engine.call(Kind.ALLREDUCE, numbers, numbers, name="signals.planned"),
        lambda: engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.planned").finish(),
    ):
        again()
        numbers[:] = 1
        with alarms(handler):
            await_rank_0()
            run()
        check.equal("sum", numbers, np.full(4, SIZE, "f4"))


def check_a_handler_runs_while_a_thread_waits_for_a_negotiation():
    skip_alone()
    numbers = np.ones(4, "f4")
    handler, _ = telling()
    with alarms(handler):
        await_rank_0()
        engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.once").finish()
    check.equal("sum", numbers, np.full(4, SIZE, "f4"))


def check_an_exception_ends_the_wait_and_not_the_operation():
    skip_alone()
    numbers = np.ones(4, "f4")

    if RANK == 0:
        handle = engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.left")
        with alarms(raising):
            check.raises(Alarm, handle.wait)
        check.equal("poll", handle.poll(), False)
        tell_rank_1()
        handle.finish()
    else:
        await_rank_0()
        engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.left").finish()
    check.equal("sum", numbers, np.full(4, SIZE, "f4"))


def check_what_a_signal_has_left_is_not_waited_for():
    skip_alone()
    numbers = np.ones(4, "f4")

    if RANK == 0:
        handle = engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.dropped")
        with alarms(raising):
            # This also releases, which must not wait.
            check.raises(Alarm, handle.finish)
        tell_rank_1()
    else:
        await_rank_0()
        engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.dropped").finish()


def check_what_a_signal_has_left_and_nobody_holds_is_not_waited_for():
    skip_alone()
    numbers = np.ones(4, "f4")
    if RANK == 0:
        handle = engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.forgotten")
        with alarms(raising):
            check.raises(Alarm, handle.wait)
        del handle  # must not wait
        gc.collect()
        tell_rank_1()
    else:
        await_rank_0()
        engine.submit(Kind.ALLREDUCE, numbers, numbers, name="signals.forgotten").finish()


def check_a_waiting_thread_runs_small_operations_of_the_plan_itself():
    planned("signals.inline")
    if SIZE > 1 and not engine.counters()["inline_buckets"]:
        raise check.WrongValueError("each operation has waited for another thread")


if __name__ == "__main__":
    rows.run(globals())
