# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge on arrays of JAX in host memory, through the buffer protocol and DLPack."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import check
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import rows

import mpi_bridge
from mpi_bridge import InvalidArgumentError, Op, engine
from mpi_bridge.engine import Kind

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
TOTAL = SIZE * (SIZE - 1) / 2


def check_every_type_is_reduced_where_it_is():
    for name in ("float32", "float16", "bfloat16", "int32", "int8", "uint8"):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        array = jnp.full((3, 5), RANK + 1, dtype=dtype)
        received = np.zeros((3, 5), dtype)
        engine.submit(Kind.ALLREDUCE, array, received, name=name).finish()
        check.equal(name, received.astype("f8"), np.full((3, 5), TOTAL + SIZE))
        mpi_bridge.allreduce(array, received, op=Op.MAX)
        check.equal(f"{name}, blocking", received.astype("f8"), np.full((3, 5), SIZE))
        check.equal(f"{name} stays", np.asarray(array, "f8"), np.full((3, 5), RANK + 1))


def check_a_result_that_is_still_being_computed_is_waited_for():
    square = jax.jit(lambda x: jax.lax.fori_loop(0, 30, lambda _, y: y @ y, x))
    for dtype in ("float32", "bfloat16"):
        array = square(jnp.eye(300, dtype=dtype))
        received = np.zeros((300, 300), np.dtype(getattr(ml_dtypes, dtype, dtype)))
        engine.submit(Kind.ALLREDUCE, array, received).finish()
        check.equal(dtype, received.astype("f8"), SIZE * np.eye(300))


def check_gathered_rows_become_an_array_again():
    handle = engine.submit(Kind.ALLGATHER, jnp.full((RANK + 1, 2), RANK, dtype="int32"))
    result = handle.wait()
    gathered = np.empty((result.rows, 2), np.int32)
    result.copy_to(gathered)
    handle.release()
    expected = np.repeat(np.arange(SIZE), np.arange(SIZE) + 1)
    check.equal("gathered", jnp.asarray(gathered)[:, 0], expected)


def check_arrays_of_jax_are_never_written():
    for dtype in ("float32", "bfloat16"):
        array = jnp.ones(4, dtype=dtype)
        for action in (
            lambda array=array: engine.submit(Kind.ALLREDUCE, array, array),
            lambda array=array: mpi_bridge.allreduce(array),
        ):
            text = check.raises(InvalidArgumentError, action)
            if "read-only" not in text:
                raise check.WrongValueError(text)


if __name__ == "__main__":
    rows.run(globals())
