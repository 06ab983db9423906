"""nearfield as an algorithm of ann-benchmarks: exact, so there is one point and its recall is 1.

    cd ann-benchmarks && PYTHONPATH=$nearfield/tests/peers python run.py --local --algorithm nearfield \\
        --definitions $nearfield/tests/peers --dataset glove-100-angular

NEARFIELD_ADDRESS names the server, which is another process: times include gRPC.
"""

from __future__ import annotations

import os
from typing import Any

import nearfield
import numpy as np
from ann_benchmarks.algorithms.base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2"}
COLLECTION = "ann-benchmarks"


class Nearfield(BaseANN):
    def __init__(self, metric: str) -> None:
        if metric not in METRICS:
            raise NotImplementedError(f"nearfield has no metric {metric}; one of {', '.join(METRICS)}")
        self.name = f"nearfield({metric})"
        self._metric = METRICS[metric]
        self._client = nearfield.connect(os.environ.get("NEARFIELD_ADDRESS", "127.0.0.1:50051"), timeout=600)
        self._docs = self._client.collection(COLLECTION)

    def get_memory_usage(self) -> float:
        """Returns the memory of the server for rows, in kB."""
        capacity = self._client.capacity()
        return (capacity.device_bytes_used + capacity.host_bytes_used + capacity.host_rows_bytes_used) / 1024

    def fit(self, X: np.ndarray) -> None:  # noqa: N803
        self._drop()
        self._client.create_collection(COLLECTION, X.shape[1], metric=self._metric)
        self._docs.upload(np.asarray(X, np.float32))

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        return self._docs.search(q, k=n).ids

    def batch_query(self, X: np.ndarray, n: int) -> None:  # noqa: N803
        size = self._client.limits().queries_max
        parts = (X[begin : begin + size] for begin in range(0, len(X), size))
        self.res = [hits.ids for found in self._docs.search_stream(parts, k=n) for hits in found.queries]

    def get_additional(self) -> dict[str, Any]:
        return {"backend": self._client.capacity().backend}

    def done(self) -> None:
        self._drop()
        self._client.close()

    def _drop(self) -> None:
        if any(each.name == COLLECTION for each in self._client.list_collections()):
            self._client.drop_collection(COLLECTION)
