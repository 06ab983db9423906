"""Exact search of cuVS through its C API (libcuvs_c.so), called with ctypes.

Matrices are row-major and lie in memory of the GPU; this module gets their addresses, so that it
does not depend on the library that allocates them. Source: cuVS 26.10, cuvs/core/c_api.h and
cuvs/neighbors/brute_force.h; DLPack, dlpack.h.
"""

from __future__ import annotations

import atexit
import ctypes
from importlib import util
from pathlib import Path
from typing import Any

CUVS_SUCCESS = 1
INNER_PRODUCT = 6
DL_CUDA = 2
POOL_PERCENT = (10, 50)  # of the free memory: at the start, maximum


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


INT64, FLOAT32 = DLDataType(0, 64, 1), DLDataType(2, 32, 1)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32), ("dtype", DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Filter(ctypes.Structure):
    """cuvsFilter; all zero: no filter."""

    _fields_ = [("addr", ctypes.c_size_t), ("type", ctypes.c_int)]


RESOURCES = ctypes.c_size_t  # cuvsResources_t
INDEX = ctypes.c_void_p  # cuvsBruteForceIndex_t
MATRIX = ctypes.POINTER(DLManagedTensor)
NUMBER = ctypes.POINTER(ctypes.c_uint16)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuvsVersionGet": (NUMBER, NUMBER, NUMBER),
    "cuvsRMMPoolMemoryResourceEnable": (ctypes.c_int, ctypes.c_int, ctypes.c_bool),
    "cuvsRMMMemoryResourceReset": (),
    "cuvsResourcesCreate": (ctypes.POINTER(RESOURCES),),
    "cuvsResourcesDestroy": (RESOURCES,),
    "cuvsStreamSet": (RESOURCES, ctypes.c_void_p),
    "cuvsBruteForceIndexCreate": (ctypes.POINTER(INDEX),),
    "cuvsBruteForceIndexDestroy": (INDEX,),
    "cuvsBruteForceBuild": (RESOURCES, MATRIX, ctypes.c_int, ctypes.c_float, INDEX),
    "cuvsBruteForceSearch": (RESOURCES, INDEX, MATRIX, MATRIX, MATRIX, Filter),
}


def matrix(address: int, rows: int, columns: int, dtype: DLDataType) -> DLManagedTensor:
    """Describes a row-major matrix on the first GPU. Without strides DLPack means row-major, also
    if there is one row."""
    shape = (ctypes.c_int64 * 2)(rows, columns)
    return DLManagedTensor(DLTensor(address, DLDevice(DL_CUDA, 0), 2, dtype, shape))


def installed_folder() -> Path | None:
    """Returns the folder of libcuvs_c.so if pip installed it for this interpreter."""
    package = util.find_spec("libcuvs")
    return Path(package.origin).parent / "lib64" if package and package.origin else None


def load(folder: Path) -> ctypes.CDLL:
    """Loads libcuvs_c.so, and first the libraries that pip puts into packages next to its own."""
    folder = folder.resolve()
    for name in ("librapids_logger.so", "librmm.so", "libkvikio.so"):
        places = [folder / name, *folder.parent.parent.glob(f"*/lib64/{name}")]
        for path in [place for place in places if place.exists()][:1]:
            ctypes.CDLL(str(path))
    return ctypes.CDLL(str(folder / "libcuvs_c.so"))


class BruteForce:
    """One index of rows under inner product, and the resources that its searches use."""

    def __init__(self, folder: Path) -> None:
        """Loads the library; needs no GPU. Errors: OSError if a library is missing."""
        self.library = load(folder)
        self.library.cuvsGetLastErrorText.restype = ctypes.c_char_p
        for name, arguments in FUNCTIONS.items():
            getattr(self.library, name).argtypes = arguments
        numbers = [ctypes.c_uint16() for _ in range(3)]
        self.call("cuvsVersionGet", *numbers)
        self.version = "{}.{:02}.{}".format(*(number.value for number in numbers))
        self.resources, self.index = RESOURCES(), INDEX()

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library; raises RuntimeError with the library's text if it fails."""
        if getattr(self.library, name)(*arguments) != CUVS_SUCCESS:
            raise RuntimeError(f"{name}: {(self.library.cuvsGetLastErrorText() or b'').decode()}")

    def open(self, stream: int) -> None:
        """Takes a memory pool for the whole process, as cuVS's documentation recommends, and
        resources whose work runs on a stream of CUDA. Both are released when the process ends."""
        self.call("cuvsRMMPoolMemoryResourceEnable", *POOL_PERCENT, False)
        self.call("cuvsResourcesCreate", self.resources)
        self.call("cuvsStreamSet", self.resources, stream)
        atexit.register(self.close)

    def build(self, rows: DLManagedTensor) -> None:
        """Replaces the index. It does not own the rows: their memory must outlive it."""
        self.destroy()
        self.call("cuvsBruteForceIndexCreate", self.index)
        self.call("cuvsBruteForceBuild", self.resources, rows, INNER_PRODUCT, 0.0, self.index)

    def search(self, queries: DLManagedTensor, neighbors: DLManagedTensor, scores: DLManagedTensor) -> None:
        """Queues the search on the stream: k row numbers (int64) and scores (fp32) for each query."""
        self.call("cuvsBruteForceSearch", self.resources, self.index, queries, neighbors, scores, Filter())

    def destroy(self) -> None:
        """Frees the index, if there is one."""
        if self.index:
            self.call("cuvsBruteForceIndexDestroy", self.index)
            self.index = INDEX()

    def close(self) -> None:
        """Releases what `build` and `open` took."""
        self.destroy()
        self.call("cuvsResourcesDestroy", self.resources)
        self.call("cuvsRMMMemoryResourceReset")
