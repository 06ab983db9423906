#!/usr/bin/env python3
"""nearfield as a database of VectorDBBench 2.0 (pip install vectordb-bench ./client/python).

    python tests/peers/vectordb_bench_nearfield.py --case-type Performance768D1M --k 100 \\
        --insert-batch-size 50000

VectorDBBench lists its databases in an enumeration, so this program takes the place of the one that
is called Test; all options of `vectordbbench test` follow. NEARFIELD_ADDRESS names the server. An
inserted batch is one durable commit, which is worth it for some ten thousand rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nearfield
import numpy as np
from pydantic import BaseModel
from vectordb_bench.backend.clients.api import DBCaseConfig, DBConfig, MetricType, VectorDB
from vectordb_bench.backend.filter import Filter, FilterOp

METRICS = {MetricType.L2: "l2", MetricType.COSINE: "cosine", MetricType.IP: "dot", MetricType.DP: "dot"}
ATTRIBUTES = {"number": "int64", "label": "keyword"}  # of the filters: the id, and the label


class NearfieldConfig(DBConfig):
    address: str = os.environ.get("NEARFIELD_ADDRESS", "127.0.0.1:50051")

    def to_dict(self) -> dict[str, Any]:
        return {"address": self.address}


class NearfieldCaseConfig(BaseModel, DBCaseConfig):
    metric_type: MetricType | None = None

    def index_param(self) -> dict[str, Any]:
        return {"metric": METRICS[self.metric_type or MetricType.COSINE]}

    def search_param(self) -> dict[str, Any]:
        return {}


class Nearfield(VectorDB):
    name = "nearfield"
    supported_filter_types = [FilterOp.NonFilter, FilterOp.NumGE, FilterOp.StrEqual]

    def __init__(self, dim: int, db_config: dict[str, Any], db_case_config: DBCaseConfig,
                 collection_name: str = "vectordb-bench", drop_old: bool = False, **_: Any) -> None:
        self.address, self.collection, self.filter = db_config["address"], collection_name, None
        self.docs: Any = None  # of the process that has called init()
        if drop_old:
            with nearfield.connect(self.address) as client:
                if any(each.name == collection_name for each in client.list_collections()):
                    client.drop_collection(collection_name)
                client.create_collection(collection_name, dim, attributes=ATTRIBUTES, **db_case_config.index_param())

    @contextmanager
    def init(self) -> Iterator[None]:
        with nearfield.connect(self.address, timeout=600) as client:
            self.docs = client.collection(self.collection)
            yield
            self.docs = None

    def insert_embeddings(self, embeddings: list[list[float]], metadata: list[int], labels_data: list[str] | None = None,
                          **_: Any) -> tuple[int, Exception | None]:
        columns = {"number": metadata, **({"label": labels_data} if labels_data else {})}
        try:
            done = self.docs.upload(np.asarray(embeddings, np.float32), ids=np.asarray(metadata, np.uint64),
                                    attributes=columns, mode="upsert")
        except nearfield.Error as error:
            return 0, error
        return done.rows_count, None

    def prepare_filter(self, filters: Filter) -> None:
        self.filter = {FilterOp.NumGE: lambda: f"number >= {filters.int_value}", FilterOp.NonFilter: lambda: None,
                       FilterOp.StrEqual: lambda: f'label == "{filters.label_value}"'}[filters.type]()

    def search_embedding(self, query: list[float], k: int = 100, **_: Any) -> list[int]:
        return self.docs.search(query, k=k, filter=self.filter).ids.tolist()

    def optimize(self, data_size: int | None = None) -> None:
        """Does nothing: rows can be searched as soon as they are inserted."""


if __name__ in ("__main__", "__mp_main__"):  # also in the processes that the benchmark starts
    import vectordb_bench_nearfield as module  # the name by which objects travel between them
    from vectordb_bench.backend.clients.test import config, test

    test.Test, config.TestConfig, config.TestIndexConfig = module.Nearfield, module.NearfieldConfig, module.NearfieldCaseConfig
if __name__ == "__main__":
    from vectordb_bench.cli.vectordbbench import cli

    cli.main(["test", *sys.argv[1:]])
