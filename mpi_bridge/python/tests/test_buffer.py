# SPDX-License-Identifier: Apache-2.0
"""Finding memory without copying it; needs no native library."""

import array

import pytest

from mpi_bridge import DataType, InvalidArgumentError, buffer_of, writable_buffer_of

np = pytest.importorskip("numpy")


class OnlyDlpack:
    def __init__(self, source):
        self._source = source

    def __dlpack__(self, **_options):
        return self._source.__dlpack__()

    def __dlpack_device__(self):
        return self._source.__dlpack_device__()


@pytest.mark.parametrize("name", [datatype.name.lower() for datatype in DataType])
def test_every_type_of_numpy_is_recognised(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else name
    source = np.zeros(7, dtype)
    buffer = buffer_of(source)
    assert buffer.datatype is DataType[name.upper()]
    assert (buffer.address, buffer.count, buffer.nbytes) == (source.ctypes.data, 7, source.nbytes)


@pytest.mark.parametrize("name", [datatype.name.lower() for datatype in DataType])
def test_every_type_of_torch_is_recognised(name):
    torch = pytest.importorskip("torch")
    source = torch.zeros(7, dtype=getattr(torch, name))
    buffer = buffer_of(source)
    assert buffer.datatype is DataType[name.upper()]
    assert (buffer.address, buffer.count) == (source.data_ptr(), 7)


@pytest.mark.parametrize(
    ("code", "datatype"),
    [
        ("b", DataType.INT8),
        ("B", DataType.UINT8),
        ("h", DataType.INT16),
        ("i", DataType.INT32),
        ("q", DataType.INT64),
        ("f", DataType.FLOAT32),
        ("d", DataType.FLOAT64),
        ("I", None),
    ],
)
def test_arrays_of_the_standard_library_are_recognised(code, datatype):
    source = array.array(code, [1, 2, 3])
    buffer = buffer_of(source)
    assert buffer.datatype is datatype
    assert (buffer.address, buffer.count) == (source.buffer_info()[0], 3)


def test_dlpack_objects_are_read_only_and_not_copied():
    source = np.arange(6.0).reshape(2, 3)
    buffer = buffer_of(OnlyDlpack(source))
    assert buffer.datatype is DataType.FLOAT64
    assert (buffer.address, buffer.count) == (source.ctypes.data, 6)
    with pytest.raises(InvalidArgumentError, match="read-only"):
        writable_buffer_of(OnlyDlpack(source))


def test_a_numpy_scalar_keeps_its_memory_alive():
    buffer = buffer_of(np.float32(1.5))
    import ctypes

    assert ctypes.c_float.from_address(buffer.address).value == 1.5


def test_a_bytearray_cannot_be_resized_while_a_buffer_holds_it():
    source = bytearray(4)
    buffer = buffer_of(source)
    with pytest.raises(BufferError):
        source.append(1)
    del buffer
    source.append(1)


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((3, 3))[:, 1],
        np.zeros((3, 2)).T,
        memoryview(bytes(9))[::2],
        np.array(["text", None], dtype=object),
        np.zeros(2, [("number", "i4"), ("reference", "O")]),
        memoryview(np.array([None])),
        OnlyDlpack(np.zeros((3, 2)).T),
        3,
        "text",
        None,
    ],
)
def test_what_is_not_contiguous_or_has_no_values_is_refused(source):
    with pytest.raises(InvalidArgumentError, match="cannot use this"):
        buffer_of(source)


def test_a_tensor_whose_memory_has_other_values_is_refused():
    torch = pytest.importorskip("torch")
    conjugate = torch.tensor([1 + 2j]).conj()
    for source in (conjugate, conjugate.imag):
        with pytest.raises(InvalidArgumentError, match="resolve"):
            buffer_of(source)
        assert buffer_of(source.resolve_conj().resolve_neg()).count == 1


def test_fields_may_have_any_name():
    records = np.zeros(2, [("Open", "f8"), ("Offset", "i4")])
    buffer = buffer_of(memoryview(records))
    assert (buffer.nbytes, buffer.datatype) == (records.nbytes, None)


def test_numbers_in_foreign_byte_order_can_be_moved_but_not_reduced():
    buffer = buffer_of(np.zeros(3, ">f8"))
    assert buffer.datatype is None
    assert buffer.nbytes == 24


@pytest.mark.parametrize("source", [b"bytes", memoryview(b"bytes")])
def test_read_only_memory_is_no_target(source):
    assert buffer_of(source).nbytes == 5
    with pytest.raises(InvalidArgumentError, match="read-only"):
        writable_buffer_of(source)
