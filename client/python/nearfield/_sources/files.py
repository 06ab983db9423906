"""Files of vectors: .npy, .fbin, .fvecs and HDF5, mapped or read in parts. Errors are named by
`naming`."""

from __future__ import annotations

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


def open_fbin(path: Path) -> Any:
    """Maps int32 rows, int32 dim, then fp32 values."""
    size = path.stat().st_size
    header = np.fromfile(path, "<i4", count=2)
    if len(header) < 2 or (header < 0).any() or size != 8 + 4 * int(header[0]) * int(header[1]):
        raise ValueError(f"{size} bytes, which contradicts its header {header.tolist()}")
    return np.memmap(path, "<f4", "r", offset=8, shape=(int(header[0]), int(header[1])))


def open_fvecs(path: Path) -> Any:
    """Maps rows of int32 dim and fp32 values."""
    size = path.stat().st_size
    header = np.fromfile(path, "<i4", count=1)
    dim = int(header[0]) if len(header) else 0
    if dim < 1 or size % (4 + 4 * dim):
        raise ValueError(f"{size} bytes, which contradicts the dimension {dim} of row 0")
    rows = np.memmap(path, "<i4", "r", shape=(size // (4 + 4 * dim), 1 + dim))
    different = np.flatnonzero(rows[:, 0] != dim)
    if len(different):
        row = int(different[0])
        raise ValueError(f"row {row} has {int(rows[row, 0])} dimensions, row 0 has {dim}")
    return rows[:, 1:].view("<f4")


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
