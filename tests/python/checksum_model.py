"""Models for tests that need no package and no file: each text has random numbers of its own."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np


def made(name: str, dim: int) -> Callable[[list[str]], np.ndarray]:
    """Returns a model: a function from a list of texts to vectors [texts, dim]."""
    def vectors(texts: list[str]) -> np.ndarray:
        seeds = [zlib.crc32(f"{name} {text}".encode()) for text in texts]
        return np.stack([np.random.default_rng(seed).standard_normal(dim, np.float32) for seed in seeds])

    vectors.name = name
    return vectors


model = made("checksum", 8)
other = made("other", 8)
wide = made("wide", 10)
