# SPDX-License-Identifier: Apache-2.0
"""Finds objects of a training in a value of which copies are to be made.

A copy of a learning-rate scheduler has a copy of the optimizer with it, and drives that one instead
of the one that trains. The same is true of everything that holds a model, its parameters or its
optimizer. So the elastic states refuse to copy such a value.
"""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any


def require_no_live_object(name: str, value: Any) -> None:
    """Raise TypeError if copies of the value would not be what trains."""
    found = find(value)
    if found is None:
        return
    kind = type(found).__name__
    what = f"is a {kind}" if found is value else f"holds a {kind}"
    raise TypeError(
        f'elastic state: "{name}" {what}, and a copy of it would not take part in the training. '
        f"{_advice(found)}"
    )


def find(value: Any) -> Any:
    """Return the first such object that a copy of the value would include, or None."""
    finder = _Finder()
    try:
        finder.dump(value)
    except _FoundError as found:
        return found.args[0]
    except Exception:
        pass  # what cannot be pickled is reported when it is to be sent
    return None


class _FoundError(Exception):
    pass


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


_PLAIN = (int, float, str, bytes, bool, type(None), list, dict, tuple, set)


class _Finder(pickle.Pickler):
    """Goes where a copy would go, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), protocol=5, buffer_callback=lambda _buffer: None)
        self._torch = sys.modules.get("torch")
        self._kinds = _kinds_of_keras() + _kinds_of_tensorflow()

    def persistent_id(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return None
        if isinstance(value, type):
            return "class"
        if isinstance(value, self._kinds) or self._is_of_torch(value):
            raise _FoundError(value)
        if isinstance(value, types.FunctionType):
            # A copy of a function is the function, but other ranks get one with copies of these.
            for cell in value.__closure__ or ():
                found = find(cell.cell_contents)
                if found is not None:
                    raise _FoundError(found)
            return "function"
        if self._torch is not None and isinstance(value, self._torch.Tensor):
            return "tensor"
        return None

    def _is_of_torch(self, value: Any) -> bool:
        if self._torch is None:
            return False
        if isinstance(value, self._torch.nn.Module):
            # One without any is a function, such as a transformation of images.
            return any(True for some in (value.parameters(), value.buffers()) for _ in some)
        return isinstance(value, self._torch.nn.Parameter) or has_state_dict(value)


def has_state_dict(value: Any) -> bool:
    """Tell whether the object can give and take its state, as schedulers and scalers do."""
    kind = type(value)
    return all(callable(getattr(kind, name, None)) for name in ("state_dict", "load_state_dict"))


def _kinds_of_keras() -> tuple[type, ...]:
    keras = sys.modules.get("keras")
    if keras is None:
        return ()
    return (
        keras.Layer,
        keras.Variable,
        keras.Metric,
        keras.optimizers.Optimizer,
        keras.callbacks.Callback,
    )


def _kinds_of_tensorflow() -> tuple[type, ...]:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return ()
    return (
        tensorflow.Variable,
        tensorflow.Module,
        tensorflow.train.Checkpoint,
        tensorflow.train.ExponentialMovingAverage,
        tensorflow.compat.v1.train.Optimizer,
    )


def _advice(found: Any) -> str:
    if isinstance(found, _kinds_of_keras()):
        return (
            "KerasState keeps the model and its optimizer; keep numbers or arrays of anything else."
        )
    if isinstance(found, _kinds_of_tensorflow()):
        return "Give its variables to TensorFlowState(variables=[...])."
    if has_state_dict(found):
        return "Give it to TorchState by a keyword of its own, so that its state_dict() is kept."
    return "Give the model to TorchState, and keep numbers or copies of tensors here."
