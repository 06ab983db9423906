"""The libraries whose tensors `topk` takes: their memory, their current stream, new tensors.

None of them is imported here before the caller has imported it."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._dlpack import CUDA, LEGACY_STREAM, Borrowed

Array = np.ndarray[Any, Any]
PER_THREAD_STREAM = 2  # the number of the default stream of each thread


class View(NamedTuple):
    """The memory of a tensor on a device. Strides are in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int
    owner: Any  # keeps the memory


class Framework:
    """A library of tensors. NumPy and CuPy have tensors in one kind of memory only."""

    name: str
    blocking = False  # the library has no stream by which a caller could order its work

    def on_host(self, tensor: Any) -> bool:
        raise NotImplementedError

    def to_host(self, tensor: Any) -> tuple[Array, str]:
        """Returns a tensor in host memory as NumPy's, and the name of its type. bfloat16 is
        returned as its bits."""
        raise NotImplementedError

    def from_host(self, array: Array, dtype: str, like: Any) -> Any:
        """Returns a tensor of this library with these values. bfloat16 is given as its bits."""
        raise NotImplementedError

    def device(self, tensor: Any) -> int:
        raise NotImplementedError

    def on_stream(self, stream: Any, device: int) -> contextlib.AbstractContextManager[int]:
        """Makes the stream current, if one is given, and yields its number."""
        raise NotImplementedError

    def capturing(self, stream: int) -> bool:
        """Returns True if the current stream is being captured into a graph."""
        return False

    def view(self, tensor: Any, stream: int) -> View:
        return borrowed_view(tensor, stream)

    def address(self, tensor: Any, stream: int) -> int:
        return self.view(tensor, stream).address

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """Allocates on the current stream. dtype: one of this library, or a name."""
        raise NotImplementedError


def stream_number(stream: Any) -> int:
    """Returns the number of a stream: an int, or an object of torch or CuPy."""
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)


def borrowed_view(tensor: Any, stream: int) -> View:
    kind = int(tensor.__dlpack_device__()[0])
    if kind != CUDA:
        raise TypeError(f"a {type(tensor).__name__} on DLPack's device type {kind}, must be CUDA")
    memory = Borrowed(tensor, stream or LEGACY_STREAM)
    return View(
        memory.address, memory.shape, memory.strides, memory.dtype, memory.device, (tensor, memory)
    )


class NumPy(Framework):
    name = "numpy"

    def on_host(self, tensor: Any) -> bool:
        return True

    def to_host(self, tensor: Any) -> tuple[Array, str]:
        dtype = tensor.dtype.name
        if not tensor.dtype.isnative:
            tensor = tensor.astype(tensor.dtype.newbyteorder("="))
        return (tensor.view(np.uint16) if dtype == "bfloat16" else tensor), dtype

    def from_host(self, array: Array, dtype: str, like: Any) -> Any:
        return array.view(like.dtype) if dtype == "bfloat16" else array


class Torch(Framework):
    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def _name_of(dtype: Any) -> str:
        return str(dtype).removeprefix("torch.")

    def on_host(self, tensor: Any) -> bool:
        return bool(tensor.device.type == "cpu")

    def to_host(self, tensor: Any) -> tuple[Array, str]:
        dtype = self._name_of(tensor.dtype)
        tensor = tensor.detach()
        if dtype == "bfloat16":
            tensor = tensor.view(self._torch.int16)
            return tensor.numpy().view(np.uint16), dtype
        return tensor.numpy(), dtype

    def from_host(self, array: Array, dtype: str, like: Any) -> Any:
        if dtype == "bfloat16":
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(array)

    def device(self, tensor: Any) -> int:
        if tensor.device.type != "cuda":
            raise TypeError(f"scores.device = {tensor.device}, must be the CPU or a CUDA device")
        return int(tensor.device.index)

    @contextlib.contextmanager
    def on_stream(self, stream: Any, device: int) -> Iterator[int]:
        cuda = self._torch.cuda
        with contextlib.ExitStack() as stack:
            if cuda.current_device() != device:
                stack.enter_context(cuda.device(device))
            if stream is not None:
                if not isinstance(stream, cuda.Stream):
                    number = stream_number(stream)
                    stream = cuda.ExternalStream(number, device=device) if number > 1 else None
                stack.enter_context(cuda.stream(stream or cuda.default_stream(device)))
            yield int(cuda.current_stream(device).cuda_stream)

    def capturing(self, stream: int) -> bool:
        return bool(self._torch.cuda.is_current_stream_capturing())

    def view(self, tensor: Any, stream: int) -> View:
        return View(
            tensor.data_ptr(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            self._name_of(tensor.dtype),
            self.device(tensor),
            tensor,
        )

    def address(self, tensor: Any, stream: int) -> int:
        return int(tensor.data_ptr())

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        kind = getattr(self._torch, dtype) if isinstance(dtype, str) else dtype
        return self._torch.empty(shape, dtype=kind, device=f"cuda:{device}")


class CuPy(Framework):
    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def on_host(self, tensor: Any) -> bool:
        return False

    def device(self, tensor: Any) -> int:
        return int(tensor.device.id)

    @contextlib.contextmanager
    def on_stream(self, stream: Any, device: int) -> Iterator[int]:
        cuda = self._cupy.cuda
        with contextlib.ExitStack() as stack:
            stack.enter_context(cuda.Device(device))
            if stream is not None:
                if not hasattr(stream, "ptr"):
                    number = stream_number(stream)
                    stream = cuda.ExternalStream(number) if number > 1 else cuda.Stream.null
                stack.enter_context(stream)
            yield int(cuda.get_current_stream().ptr)

    def capturing(self, stream: int) -> bool:
        # The legacy default stream cannot be captured, and CuPy refuses the question.
        return stream > 1 and bool(self._cupy.cuda.get_current_stream().is_capturing())

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        return self._cupy.empty(shape, dtype=dtype)


class Jax(Framework):
    """JAX shows no stream. The selection runs on the legacy default stream after the scores are
    computed, into new arrays, and the call returns when it is done."""

    name = "jax"
    blocking = True

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def _check(self, tensor: Any) -> None:
        if isinstance(tensor, getattr(self._jax.core, "Tracer", ())):
            raise TypeError("scores: a tracer of jax.jit, must be an array: call topk outside jit")

    def on_host(self, tensor: Any) -> bool:
        self._check(tensor)
        return all(each.platform == "cpu" for each in tensor.devices())

    def to_host(self, tensor: Any) -> tuple[Array, str]:
        return NumPy().to_host(np.asarray(tensor))

    def from_host(self, array: Array, dtype: str, like: Any) -> Any:
        return self._jax.numpy.asarray(array.view(like.dtype) if dtype == "bfloat16" else array)

    def device(self, tensor: Any) -> int:
        return int(tensor.__dlpack_device__()[1])

    @contextlib.contextmanager
    def on_stream(self, stream: Any, device: int) -> Iterator[int]:
        yield LEGACY_STREAM if stream is None else stream_number(stream)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        (place,) = [
            each
            for each in self._jax.devices("cuda")
            if getattr(each, "local_hardware_id", each.id) == device
        ]
        made = self._jax.numpy.zeros(shape, dtype, device=place)
        return made.block_until_ready()


def of(tensor: Any) -> Framework:
    """Returns the library of a tensor. Raises TypeError if it is none of those."""
    if isinstance(tensor, np.ndarray):
        return NumPy()
    # A tensor can exist only if its library was imported.
    libraries: tuple[tuple[str, str, Callable[[Any], Framework]], ...] = (
        ("torch", "Tensor", Torch),
        ("cupy", "ndarray", CuPy),
        ("jax", "Array", Jax),
    )
    for name, kind, make in libraries:
        module = sys.modules.get(name)
        if module is not None and isinstance(tensor, getattr(module, kind, ())):
            return make(module)
    raise TypeError(
        f"scores = {type(tensor).__name__}, must be an array of NumPy, torch, CuPy or JAX"
    )


def thread_of(stream: int) -> int:
    """Returns the thread whose stream this is, or 0 if the number is the same for all threads."""
    return threading.get_ident() if stream == PER_THREAD_STREAM else 0
