"""nearfield as a database of VectorDBBench and as an algorithm of ann-benchmarks: every answer is
numpy's, so the recall is 1. Uses these packages if they are installed, else their interfaces."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys

import numpy as np
import pytest
import yaml
from canonical import scores
from conftest import ROOT

PEERS = ROOT / "tests" / "peers"
sys.path.insert(0, str(PEERS))

import interfaces  # noqa: E402

MISSING = interfaces.install_missing()

import vectordb_bench_nearfield as vectordb  # noqa: E402
from ann_benchmarks.algorithms.base.module import BaseANN  # noqa: E402
from vectordb_bench.backend.clients.api import MetricType, VectorDB  # noqa: E402
from vectordb_bench.backend.filter import LabelFilter, NewIntFilter, NonFilter  # noqa: E402

ROWS, DIM, K = 700, 6, 10


@pytest.fixture
def data(rng):
    """Rows and queries of small integers, whose scores numpy computes exactly."""
    draw = lambda count: rng.integers(-4, 5, (count, DIM)).astype(np.float32)  # noqa: E731
    return draw(ROWS), draw(40)


def nearest(metric: str, query: np.ndarray, rows: np.ndarray, chosen: np.ndarray) -> list[int]:
    found = scores(metric, query, rows)
    return sorted(chosen.tolist(), key=lambda i: (-found[i], i))[:K]


@pytest.mark.parametrize(("metric", "name"), [
    (MetricType.L2, "l2"), (MetricType.COSINE, "cosine"), (MetricType.IP, "dot"), (MetricType.DP, "dot")])
def test_vectordb_bench_finds_what_numpy_finds(shared, name, data, metric):
    """As the benchmark runs: made once, copied to other processes, rows in batches, then searches."""
    rows, queries = data
    labels = np.array(["label_5p", "label_95p"])[(np.arange(ROWS) % 20 != 0).astype(int)]
    case = vectordb.NearfieldCaseConfig(metric_type=metric)
    made = vectordb.Nearfield(
        dim=DIM, db_config=vectordb.NearfieldConfig(address=shared.address).to_dict(), db_case_config=case,
        drop_old=True, with_scalar_labels=True)
    loader, searcher = pickle.loads(pickle.dumps(made)), pickle.loads(pickle.dumps(made))
    with loader.init():
        for begin in range(0, ROWS, 300):
            part = slice(begin, min(begin + 300, ROWS))
            inserted = loader.insert_embeddings(
                embeddings=rows[part].tolist(), metadata=list(range(part.start, part.stop)), labels_data=labels[part].tolist())
            assert inserted == (part.stop - part.start, None)
        loader.optimize(data_size=ROWS)
    with searcher.init():
        for filters, chosen in (
            (NonFilter(), np.arange(ROWS)),
            (NewIntFilter(filter_rate=0.9, int_value=630), np.arange(630, ROWS)),
            (LabelFilter(label_percentage=0.05), np.flatnonzero(labels == "label_5p")),
        ):
            assert filters.type in vectordb.Nearfield.supported_filter_types
            searcher.prepare_filter(filters)
            for query in queries:
                assert searcher.search_embedding(query.tolist(), K) == nearest(name, query, rows, chosen)
    again = vectordb.Nearfield(dim=DIM, db_config={"address": shared.address}, db_case_config=case, drop_old=True)
    with again.init():
        assert again.search_embedding(queries[0].tolist(), K) == []


def test_vectordb_bench_learns_of_an_insert_that_fails(shared):
    made = vectordb.Nearfield(DIM, {"address": shared.address}, vectordb.NearfieldCaseConfig(), drop_old=True)
    with made.init():
        count, error = made.insert_embeddings([[1.0] * DIM], [1], labels_data=["x" * 100_000])
    assert count == 0 and "attribute" in str(error)


@pytest.mark.parametrize("method", ["__init__", "insert_embeddings", "search_embedding", "optimize"])
def test_methods_take_the_arguments_of_the_interface(method):
    wanted = inspect.signature(getattr(VectorDB, method)).parameters.values()
    arguments = {each.name: None for each in wanted if each.kind is each.POSITIONAL_OR_KEYWORD}
    inspect.signature(getattr(vectordb.Nearfield, method)).bind(**arguments)


@pytest.mark.parametrize(("metric", "name"), [("angular", "cosine"), ("euclidean", "l2")])
def test_ann_benchmarks_finds_what_numpy_finds(shared, data, monkeypatch, metric, name):
    """Loaded from the definition file in the way of ann-benchmarks."""
    monkeypatch.setenv("NEARFIELD_ADDRESS", shared.address)
    rows, queries = data
    (definition,) = yaml.safe_load((PEERS / "ann_benchmarks_nearfield" / "config.yml").read_text())["float"]["any"]
    module = importlib.import_module(f"{definition['module']}.module")
    arguments = [metric if each == "@metric" else each for each in definition["base_args"]]
    made = getattr(module, definition["constructor"])(*arguments)
    assert isinstance(made, BaseANN) and str(made) == f"nearfield({metric})"
    before = made.get_memory_usage()
    made.fit(rows)
    assert made.get_memory_usage() > before
    wanted = [nearest(name, query, rows, np.arange(ROWS)) for query in queries]
    assert [made.query(query, K).tolist() for query in queries] == wanted
    repeats = 1100 // len(queries) + 1  # more than one request may hold
    made.batch_query(np.tile(queries, (repeats, 1)), K)
    assert [each.tolist() for each in made.get_batch_results()] == wanted * repeats
    assert made.get_additional() == {"backend": "cpu"}
    made.done()
    with pytest.raises(NotImplementedError, match="jaccard"):
        type(made)("jaccard")


def test_the_modules_are_short():
    for path in (PEERS / "vectordb_bench_nearfield.py", PEERS / "ann_benchmarks_nearfield" / "module.py"):
        assert len(path.read_text().splitlines()) < 100
