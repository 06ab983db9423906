"""The parts of the interfaces of VectorDBBench 2.0 and ann-benchmarks that the modules of this folder
use, for tests where these packages are not installed."""

from __future__ import annotations

import sys
import types
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import Enum
from typing import Any

from pydantic import BaseModel


class MetricType(str, Enum):
    L2, COSINE, IP, DP = "L2", "COSINE", "IP", "DP"


class FilterOp(str, Enum):
    NumGE, StrEqual, NonFilter = "NumGE", "Label", "NonFilter"


class Filter(BaseModel):
    type: FilterOp


class NonFilter(Filter):
    type: FilterOp = FilterOp.NonFilter


class NewIntFilter(Filter):
    type: FilterOp = FilterOp.NumGE
    filter_rate: float
    int_value: int


class LabelFilter(Filter):
    type: FilterOp = FilterOp.StrEqual
    label_percentage: float

    @property
    def label_value(self) -> str:
        return f"label_{int(self.label_percentage * 100)}p"


class DBConfig(ABC, BaseModel):
    db_label: str = ""

    @abstractmethod
    def to_dict(self) -> dict: ...


class DBCaseConfig(ABC):
    @abstractmethod
    def index_param(self) -> dict: ...

    @abstractmethod
    def search_param(self) -> dict: ...


class VectorDB(ABC):
    @abstractmethod
    def __init__(self, dim, db_config, db_case_config, collection_name, drop_old=False, **kwargs): ...

    @abstractmethod
    @contextmanager
    def init(self): ...

    @abstractmethod
    def insert_embeddings(self, embeddings, metadata, labels_data=None, tenant_labels_data=None, **kwargs): ...

    @abstractmethod
    def search_embedding(self, query, k=100, payload_profile=None, tenant=None): ...

    @abstractmethod
    def optimize(self, data_size=None): ...


class BaseANN:
    def done(self) -> None: ...

    def batch_query(self, X: Any, n: int) -> None:  # noqa: N803
        self.res = [self.query(q, n) for q in X]

    def get_batch_results(self) -> Any:
        return self.res

    def __str__(self) -> str:
        return self.name


def install(name: str, *members: type) -> None:
    """Makes a module of these classes, and the packages that contain it."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    for member in members:
        setattr(sys.modules[name], member.__name__, member)


def install_missing() -> list[str]:
    """Installs the interfaces of the packages that are not installed; returns their names."""
    missing = []
    try:
        import vectordb_bench.backend.clients.api  # noqa: F401
    except ImportError:
        install("vectordb_bench.backend.clients.api", DBCaseConfig, DBConfig, MetricType, VectorDB)
        install("vectordb_bench.backend.filter", Filter, FilterOp, LabelFilter, NewIntFilter, NonFilter)
        missing.append("vectordb_bench")
    try:
        import ann_benchmarks.algorithms.base.module  # noqa: F401
    except ImportError:
        install("ann_benchmarks.algorithms.base.module", BaseANN)
        missing.append("ann_benchmarks")
    return missing
