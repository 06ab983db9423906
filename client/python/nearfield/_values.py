"""Enum names, ids and vectors: between Python and NumPy values and messages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfield._proto import common_pb2 as common

Metric = Literal["dot", "cosine", "l2"]
DType = Literal["float32", "float16", "bfloat16"]
IdType = Literal["uint64", "string"]

#: One id: a number below 2**64, or a text of at most 512 bytes of UTF-8.
Id: TypeAlias = int | str
#: Ids as requests accept them: numbers, texts, or a NumPy array of either.
IdsLike: TypeAlias = Sequence[int] | Sequence[str] | NDArray[Any]
#: Ids as replies hold them: uint64 [n], or a list of n texts.
Ids: TypeAlias = NDArray[np.uint64] | list[str]

UINT64_MAX = 2**64 - 1
# The element type of each dtype on the wire; a bfloat16 is the upper half of a binary32.
WIRE: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}


def enum_value(prefix: str, enum: Any, name: str, field: str) -> Any:
    """Returns the number of an enum's value, given its name without the prefix in lower case."""
    names = [key[len(prefix) :].lower() for key in enum.keys() if not key.endswith("_UNSPECIFIED")]
    if name not in names:
        raise ValueError(f"{field}: {name!r}; one of {', '.join(names)}")
    return enum.Value(prefix + name.upper())


@functools.lru_cache(maxsize=256)
def enum_name(prefix: str, enum: Any, number: int) -> str:
    """Returns the name of an enum's value; "unknown" for one of a later server."""
    if number not in enum.values():
        return "unknown"
    return str(enum.Name(number)[len(prefix) :]).lower()


def id_values(ids: Any, field: str = "ids") -> NDArray[Any] | list[Any]:
    """Returns ids that were given in any form, unchecked, as an array or a list."""
    if isinstance(ids, (int, str, np.integer)):
        raise TypeError(f"{field}: one id; give a list")
    if hasattr(ids, "to_pylist"):  # an Arrow array
        return list(ids.to_pylist())
    if hasattr(ids, "to_numpy"):  # a column of pandas
        ids = ids.to_numpy()
    if not isinstance(ids, np.ndarray):
        return list(ids)
    if ids.ndim != 1:
        raise ValueError(f"{field}: shape {list(ids.shape)}; it must have one dimension")
    return ids if ids.dtype.kind in "iu" else list(ids.tolist())


def to_ids(ids: Any, field: str = "ids", *, numbered: bool = True) -> Ids:
    """Returns ids as uint64 [n] or as a list of texts. Raises TypeError for anything else.
    numbered: errors have the place in the list, such as ids[3]."""
    ids = id_values(ids, field)
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind == "i" and ids.size and int(ids.min()) < 0:
            raise ValueError(f"{field}: {int(ids.min())}; a number must not be negative")
        numbers: NDArray[np.uint64] = ids.astype(np.uint64, copy=False)
        return numbers
    texts = bool(ids) and isinstance(ids[0], str)
    if set(map(type, ids)) == {str}:
        check_texts(field, ids)
        return list(ids)
    for i, each in enumerate(ids):
        name = f"{field}[{i}]" if numbered else field
        if isinstance(each, (bool, np.bool_)) or not isinstance(each, (int, np.integer, str)):
            raise TypeError(f"{name}: {each!r}; ids are all int or all str")
        if isinstance(each, str) != texts:
            first = "texts" if texts else "numbers"
            raise TypeError(f"{name}: {each!r} after {first}; ids are all int or all str")
        if not texts and not 0 <= int(each) <= UINT64_MAX:
            raise ValueError(f"{name}: {each}; a number must be from 0 to 2**64 - 1")
    if not ids:
        return []
    if not texts:
        return np.array([int(each) for each in ids], np.uint64)
    return to_ids(list(map(str, ids)), field)


def check_texts(field: str, texts: Sequence[str]) -> None:
    """Raises ValueError for a text that UTF-8 cannot hold."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        for each in texts:
            if any("\ud800" <= c <= "\udfff" for c in each):
                text = f"{field}: {each!r} has half of a surrogate pair, which UTF-8 does not have"
                raise ValueError(text) from None
        raise


def id_message(value: Any) -> common.Id:
    ids = to_ids([value], "id")
    return common.Id(text=ids[0]) if isinstance(ids, list) else common.Id(number=int(ids[0]))


def id_list(ids: Ids) -> common.IdList:
    return (
        common.IdList(texts=ids) if isinstance(ids, list) else common.IdList(numbers=ids.tolist())
    )


def read_ids(message: common.IdList) -> Ids:
    numbers = message.numbers[:]
    return (
        np.array(numbers, np.uint64) if numbers else list(message.texts) or np.zeros(0, np.uint64)
    )


def ids_count(message: common.IdList) -> int:
    return len(message.numbers) or len(message.texts)


def listed(ids: Ids) -> list[Any]:
    """Returns the ids as values of Python."""
    return ids if isinstance(ids, list) else ids.tolist()


def join_ids(parts: Sequence[Ids]) -> Ids:
    """Returns the ids of all parts, in their order. A part without ids does not show their type."""
    full = [ids for ids in parts if len(ids)] or parts[:1]
    if full and isinstance(full[0], list):
        return [each for ids in full for each in ids]
    return np.concatenate([np.zeros(0, np.uint64), *full])


def query_array(vectors: ArrayLike) -> NDArray[np.float32]:
    """Returns queries [D] or [B, D] in fp32, rounded once, in C order."""
    array = np.asarray(vectors)
    kind = array.dtype.kind
    if kind in "SUT" or (kind == "O" and array.size and isinstance(array.flat[0], str)):
        raise TypeError(
            "vector: a text; give the numbers that an embedding model makes of it, a list or an"
            " array of shape [dim]"
        )
    if kind not in "fiu" or array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            f"vector: {array.dtype} of shape {list(array.shape)}; numbers of shape [dim], or"
            " [queries, dim]"
        )
    return np.ascontiguousarray(array, WIRE["float32"])


def query_bytes(vectors: ArrayLike) -> list[bytes]:
    """Returns the fp32 bytes of each query of query_array."""
    array = query_array(vectors)
    return [array.tobytes()] if array.ndim == 1 else [row.tobytes() for row in array]


def is_bfloat16(kind: np.dtype[Any]) -> bool:
    """Returns True for V2, as .npy files have it, and for bfloat16 of ml_dtypes."""
    return kind.kind == "V" and kind.itemsize == 2


def encode(vectors: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Returns rows [n, D] in the wire type of a collection, C order. Values are rounded to nearest
    even, once to fp32, and a second time for a narrower type. Rows that have the type already keep
    their bits; uint16 rows, and those of a type that is_bfloat16, are the bits of bfloat16."""
    wire = WIRE[dtype]
    if dtype == "bfloat16" and is_bfloat16(vectors.dtype):
        vectors = vectors.view(wire)
    if vectors.dtype == wire:
        return np.ascontiguousarray(vectors)
    if vectors.dtype.kind not in "fiu" or (vectors.dtype.kind == "u" and dtype == "bfloat16"):
        raise TypeError(f"vectors: {vectors.dtype}; the collection stores {dtype}")
    with np.errstate(over="ignore"):  # an infinite value is refused, with its row
        single = np.ascontiguousarray(vectors, dtype="<f4")
        if dtype != "bfloat16":
            return single.astype(wire, copy=False)
    bits = single.view("<u4")
    rounded = (bits + (0x7FFF + (bits >> 16 & 1)).astype("<u4")) >> 16
    # The rounding could carry a NaN into a finite value: keep one that is refused.
    return np.where(np.isnan(single), 0x7FC0, rounded).astype(wire)


def decode(block: common.VectorBlock, rows: int) -> NDArray[Any]:
    """Returns stored rows [rows, D] bit for bit: float32, float16, or bfloat16 widened to float32,
    which is exact."""
    name = enum_name("DATA_TYPE_", common.DataType, block.dtype)
    wire = WIRE.get(name, WIRE["float32"])
    array = np.frombuffer(block.data, dtype=wire).reshape(rows, -1 if rows else 0)
    if name == "bfloat16":
        return (array.astype("<u4") << 16).view("<f4")
    return array


def dtype_value(name: str) -> common.DataType:
    return enum_value("DATA_TYPE_", common.DataType, name, "dtype")  # type: ignore[no-any-return]
