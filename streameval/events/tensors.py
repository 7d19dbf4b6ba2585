"""Tensors of PyTorch, JAX, CuPy and others as numpy arrays, by DLPack; imports none of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streameval.errors import InvalidEventError
from streameval.events.ragged import Array

_CPU: Final = 1
"""DLPack's number of the main memory."""


def plain(name: str, found: Any) -> Any:
    """A column without foreign tensors: each becomes a numpy array, also in a list or tuple.

    What is in the main memory is not copied. What is on a device is copied to it by the tensor's
    own `cpu()`, which waits until it is computed; gradients are left out.

    Args:
        name: of the column, for errors.
        found: a tensor, a list or tuple of some, or anything else, which stays as it is.

    Raises:
        InvalidEventError: a tensor cannot be brought to the main memory, or numpy lacks its type.
    """
    if isinstance(found, tuple) and hasattr(found, "indices") and hasattr(found, "values"):
        detail = f"{name}: {type(found).__name__} has scores and ids; give its .indices"
        raise InvalidEventError("wrong_type", detail)
    if isinstance(found, (list, tuple)) and any(map(_is_foreign, found)):
        arrays = [_array(name, each) if _is_foreign(each) else each for each in found]
        return tuple(arrays) if isinstance(found, tuple) else arrays
    return _array(name, found) if _is_foreign(found) else found


def _is_foreign(found: Any) -> bool:
    arrow = hasattr(found, "__arrow_c_array__")
    return hasattr(found, "__dlpack_device__") and not (arrow or isinstance(found, np.ndarray))


def _array(name: str, tensor: Any) -> Array:
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    try:
        if tensor.__dlpack_device__()[0] != _CPU:
            tensor = tensor.cpu()
        found: Array = np.from_dlpack(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{getattr(tensor, 'dtype', 'unknown')} of shape {tuple(tensor.shape)}"
        why = " ".join(str(error).split()) or type(error).__name__
        remedy = "give it dense, on the CPU, ids as int64 and numbers as float32"
        detail = f"{name}: {kind} cannot be an array of numpy ({why:.120}); {remedy}"
        raise InvalidEventError("wrong_type", detail) from error
    return found
