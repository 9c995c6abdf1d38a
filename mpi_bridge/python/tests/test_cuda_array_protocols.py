# SPDX-License-Identifier: Apache-2.0
"""Reading what arrays in CUDA memory say of themselves; needs neither a GPU nor the library."""

import ctypes
import gc

import pytest

from mpi_bridge import (
    DataType,
    InvalidArgumentError,
    buffer_of,
    cuda_arrays,
    dlpack,
    writable_buffer_of,
)


class Described:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (4096, False),
            **fields,
        }


@pytest.mark.parametrize(
    ("typestr", "datatype", "nbytes"),
    [
        ("<f2", DataType.FLOAT16, 12),
        ("<f4", DataType.FLOAT32, 24),
        ("<f8", DataType.FLOAT64, 48),
        ("|i1", DataType.INT8, 6),
        ("<i2", DataType.INT16, 12),
        ("<i4", DataType.INT32, 24),
        ("<i8", DataType.INT64, 48),
        ("|u1", DataType.UINT8, 6),
        ("|b1", DataType.BOOL, 6),
        ("<u4", None, 24),
        (">f4", None, 24),
        ("<c8", None, 48),
        ("|V2", None, 12),
    ],
)
def test_every_type_is_recognised(typestr, datatype, nbytes):
    buffer = buffer_of(Described(typestr=typestr), allow_device=True)
    assert (buffer.address, buffer.nbytes, buffer.datatype) == (4096, nbytes, datatype)
    assert buffer.on_device
    assert buffer.shape == (2, 3)


@pytest.mark.parametrize(
    ("shape", "strides", "is_accepted"),
    [
        ((2, 3), None, True),
        ((2, 3), (12, 4), True),
        ((1, 3), (99, 4), True),
        ((2, 3), (4, 8), False),
        ((2, 3), (24, 8), False),
        ((), (), True),
    ],
)
def test_only_contiguous_elements_are_accepted(shape, strides, is_accepted):
    source = Described(shape=shape, strides=strides)
    if is_accepted:
        assert buffer_of(source, allow_device=True).address == 4096
        return
    with pytest.raises(InvalidArgumentError, match="not contiguous"):
        buffer_of(source, allow_device=True)


@pytest.mark.parametrize(
    ("named", "asked", "followed"),
    [(None, None, None), (None, 64, None), (1, None, 0), (1, 0, 0), (64, None, 64), (64, 64, 64)],
)
def test_the_stream_is_the_one_that_the_array_names(named, asked, followed):
    fields = {} if named is None else {"stream": named}
    assert buffer_of(Described(**fields), allow_device=True, stream=asked).stream == followed


def test_another_stream_needs_a_producer_that_can_order_it():
    with pytest.raises(InvalidArgumentError, match=r"in use in CUDA stream 64.* stream 80"):
        buffer_of(Described(stream=64), allow_device=True, stream=80)


def test_a_number_that_is_no_stream_is_refused():
    with pytest.raises(InvalidArgumentError, match="is no CUDA stream"):
        cuda_arrays.engine_stream(-1)


def test_an_array_of_another_threads_default_stream_can_be_ordered_by_its_producer():
    # Only an operation that is to follow that stream is refused, by the library.
    assert buffer_of(Described(stream=2), allow_device=True).stream == 2


def test_a_result_can_be_read_by_dlpack_without_numpy():
    content = ctypes.create_string_buffer(b"abcdef", 6)
    capsule = dlpack.capsule_of(ctypes.addressof(content), 6, (dlpack.HOST, 0))
    tensor = pytest.importorskip("torch").utils.dlpack.from_dlpack(capsule)
    assert bytes(tensor.tolist()) == b"abcdef"
    assert tensor.data_ptr() == ctypes.addressof(content)
    del tensor, capsule
    gc.collect()
    empty = pytest.importorskip("torch").utils.dlpack.from_dlpack(
        dlpack.capsule_of(0, 0, (dlpack.HOST, 0))
    )
    assert empty.numel() == 0


def test_read_only_arrays_are_no_targets():
    source = Described(data=(4096, True))
    assert buffer_of(source, allow_device=True).readonly
    with pytest.raises(InvalidArgumentError, match="read-only"):
        writable_buffer_of(source, allow_device=True)


def test_the_blocking_functions_take_host_memory_only():
    with pytest.raises(InvalidArgumentError, match="lies on an accelerator"):
        buffer_of(Described())


def test_a_result_describes_its_bytes():
    described = cuda_arrays.CudaBytes(4096, 24, 0).__cuda_array_interface__
    assert described["data"] == (4096, False)
    assert (described["shape"], described["typestr"], described["stream"]) == ((24,), "|u1", 1)
