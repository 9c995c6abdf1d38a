# SPDX-License-Identifier: Apache-2.0
"""Operations of the engine in flight, and their results."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Callable

from . import cuda_arrays, native, on_device, world
from .buffer import Buffer, writable_buffer_of
from .errors import (
    CollectiveTimeoutError,
    InvalidArgumentError,
    MismatchError,
    MpiBridgeError,
)
from .in_flight import InFlight
from .structures import WORLD, ResultStruct


@dataclass(frozen=True)
class Result:
    """The result of an operation.

    `address` and `nbytes` are the receive buffer, or memory of the engine if none was given. That
    memory is gone when the handle is released, so copy it out first.
    """

    address: int
    nbytes: int
    rows: int  # length of the first dimension
    received_rows: tuple[int, ...]  # allgather, alltoall: rows from each member of the set
    last_joined: int  # join: the rank that joined last; otherwise -1
    on_device: bool = False  # if so, the data is ready in the order of `stream`
    stream: int = 0  # the CUDA stream that the operation followed

    def _require_host_memory(self) -> None:
        if self.on_device:
            raise InvalidArgumentError("the result lies on an accelerator; enqueue a copy there")

    def copy_to(self, target: Any) -> None:
        """Copy the data into a buffer of the same length."""
        self._require_host_memory()
        buffer = writable_buffer_of(target)
        if buffer.nbytes != self.nbytes:
            raise InvalidArgumentError(
                f"the result has {self.nbytes} bytes, the target {buffer.nbytes}"
            )
        if self.nbytes and buffer.address != self.address:
            ctypes.memmove(buffer.address, self.address, self.nbytes)

    def tobytes(self) -> bytes:
        """Return a copy of the data."""
        self._require_host_memory()
        return ctypes.string_at(self.address, self.nbytes) if self.nbytes else b""

    def cuda_bytes(self) -> cuda_arrays.CudaBytes:
        """Return the data in CUDA memory, for a copy that a framework enqueues on `stream`."""
        if not self.on_device:
            raise InvalidArgumentError("the result is in host memory")
        return cuda_arrays.CudaBytes(self.address, self.nbytes, self.stream)


class Handle(InFlight):
    """An operation in flight. Its name is in use, and its buffers are kept, until release().

    A handle that is no longer referred to is released, which waits for the operation.
    """

    __slots__ = ("_is_left", "_is_ordered", "_may_run_on", "_process_set", "stream")

    _prefix = "mpib"
    _what = "operation"

    def __init__(
        self,
        number: int,
        kept: tuple[Buffer, ...],
        stream: int | None = None,
        process_set: int = WORLD,
    ) -> None:
        super().__init__(number, kept)
        self.stream = stream
        """The CUDA stream that the operation follows; None in host memory."""
        self._is_ordered = stream is None  # whether that stream waits for the operation
        self._process_set = process_set
        self._is_left = False  # whether a signal has ended the last wait
        self._may_run_on = False  # whether the device may go on with it although it has failed

    def poll(self) -> bool:
        """Tell whether the operation is done, successfully or not."""
        state = native.functions().mpib_poll(self._live_number())
        if state < 0:
            raise InvalidArgumentError("the engine does not know this operation")
        return state == 1

    def wait(self, seconds: float = 0.0) -> Result:
        """Wait until the operation is done; raise its error if it failed.

        `seconds` > 0 limits the wait: then CollectiveTimeoutError is raised, and the operation goes
        on.
        """
        self._wait(seconds)
        return self._result()

    def _result(self) -> Result:
        found = ResultStruct(struct_bytes=ctypes.sizeof(ResultStruct))
        native.call("mpib_get_result", self._live_number(), ctypes.byref(found))
        return Result(
            address=found.data or 0,
            nbytes=found.bytes,
            rows=found.rows,
            received_rows=tuple(found.received_rows[: found.members])
            if found.received_rows
            else (),
            last_joined=found.last_joined,
            on_device=self.stream is not None,
            stream=self.stream or cuda_arrays.LEGACY,
        )

    def wait_only(self, seconds: float = 0.0) -> None:
        """Do the same as wait(), where nobody wants to know the result."""
        self._wait(seconds)

    def finish(self) -> None:
        """Wait, and release also if that fails; for operations whose result is in `recv`.

        If a signal handler raises, the operation is left behind.
        """
        try:
            self._wait(0)
        finally:
            self.release()

    def _wait(self, seconds: float) -> None:
        try:
            super()._wait(seconds)
        except (InvalidArgumentError, MismatchError, CollectiveTimeoutError):
            # Nothing was enqueued, or the operation goes on.
            raise
        except MpiBridgeError:
            self._may_run_on = True
            raise
        except BaseException:
            self._is_left = True
            raise
        self._is_ordered, self._is_left = True, False

    def release(self) -> None:
        """Release the name and the buffers; wait first if the operation is not done.

        If a signal has ended the last wait for it, do not wait: the name stays in use, and the
        buffers are kept.
        """
        if self._was_left_behind():
            return
        if not self._is_ordered and self._number:
            # Without it, the device could still use buffers that are given back to an allocator.
            with contextlib.suppress(MpiBridgeError):
                self._wait(0)
        self._keep_until_finished()
        super().release()

    def _was_left_behind(self) -> bool:
        """Give up an operation whose last wait a signal has ended; tell whether it still runs."""
        if not self._is_left or not self._number or self._session != world.session():
            return False
        if native.functions().mpib_poll(self._number) != 0:
            return False
        self._number, kept, self._kept = 0, self._kept, None
        world.keep_until_init(kept, self._session)
        return True

    def _keep_until_finished(self) -> None:
        """Before the release: the device may use the buffers for longer than the handle lives."""
        if self.stream is None or not self._number or self._session != world.session():
            return
        mark = native.functions().mpib_device_mark(self._number)
        if mark:
            buffers = tuple(each for each in self._kept if not each.in_stream_order)
            on_device.released(self._process_set, mark, buffers)
        elif self._may_run_on:
            world.keep_until_init(self._kept, self._session)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return
        number = getattr(self, "_number", 0)
        if number and self._was_left_behind():
            return
        if number and getattr(self, "stream", None) is not None:
            if not self._is_ordered and self._session == world.session():
                self._may_run_on = native.functions().mpib_wait(number, 0.0) != 0
            self._keep_until_finished()
        super().__del__()
