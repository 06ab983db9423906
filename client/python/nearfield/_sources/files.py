"""Files of vectors: .npy, .fbin, .fvecs, their forms of bytes, and HDF5, mapped or read in parts.
Errors are named by `naming`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def open_npy(path: Path) -> Any:
    """Maps a 2-D array."""
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("byte 0: not a .npy file: it must begin with \\x93NUMPY")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "mmap length" not in str(error):
            raise
        raise ValueError(f"{path.stat().st_size} bytes; its header says more") from None
    if not isinstance(array, np.memmap):
        raise ValueError("not a file .npy of one array")
    size, wanted = path.stat().st_size, array.offset + array.nbytes
    if size != wanted:
        raise ValueError(f"{size} bytes; its header says {wanted}")
    return array


def open_bin(path: Path, value: str) -> Any:
    """Maps rows and dim, both uint32 or both uint64, then the values: .fbin, .u8bin, .i8bin."""
    size, item = path.stat().st_size, np.dtype(value).itemsize
    with path.open("rb") as file:
        header = file.read(16)
    found = {}
    for kind in ("uint32", "uint64"):
        width = 2 * np.dtype(kind).itemsize
        if len(header) >= width:
            rows, dim = np.frombuffer(header[:width], np.dtype(kind).newbyteorder("<")).tolist()
            if dim and size == width + rows * dim * item:
                shape = (rows, dim)
                return np.memmap(path, value, "r", width, shape) if rows else np.empty(shape, value)
            found[kind] = f"rows = {rows}, dim = {dim} of {kind}"
    said = " or ".join(found.values()) or "rows and dim, which takes 8 bytes"
    raise ValueError(f"{size} bytes, which contradicts its header, {said}")


def open_vecs(path: Path, value: str) -> Any:
    """Maps rows of int32 dim and the values: .fvecs, .bvecs."""
    size, item = path.stat().st_size, np.dtype(value).itemsize
    header = np.fromfile(path, "<i4", count=1)
    dim = int(header[0]) if len(header) else 0
    if dim < 1 or size % (4 + item * dim):
        raise ValueError(f"{size} bytes, which contradicts the dimension {dim} of row 0")
    rows = np.memmap(path, np.dtype([("dim", "<i4"), ("values", value, (dim,))]), "r")
    different = np.flatnonzero(rows["dim"] != dim)
    if len(different):
        row = int(different[0])
        raise ValueError(f"row {row} has {int(rows['dim'][row])} dimensions, row 0 has {dim}")
    return rows["values"]


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".npy": open_npy,
    ".fbin": lambda path: open_bin(path, "<f4"),
    ".u8bin": lambda path: open_bin(path, "u1"),
    ".i8bin": lambda path: open_bin(path, "i1"),
    ".fvecs": lambda path: open_vecs(path, "<f4"),
    ".bvecs": lambda path: open_vecs(path, "u1"),
}


def open_hdf5(path: Path, name: str) -> tuple[Any, Any]:
    """Opens one dataset of an HDF5 file; returns it and the file. The benchmarks of ANN name the
    rows "train"."""
    import h5py

    file = h5py.File(path, "r")
    if name not in file:
        known = ", ".join(file)
        file.close()
        raise ValueError(f"no dataset {name!r}; the datasets are {known}")
    return file[name], file
