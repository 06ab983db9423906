"""The calls of a collection of a cluster."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, get_args

import numpy as np
from numpy.typing import ArrayLike

from nearfield._arguments import refuse_unknown
from nearfield._changes import Deleted, Updated, Uploaded
from nearfield._digest import result_digest
from nearfield._errors import NotFound, Unimplemented
from nearfield._filter import FilterLike
from nearfield._records import CollectionInfo
from nearfield._results import Counted, FetchResult, SearchResult
from nearfield._row_calls import Names, UploadMode, ZeroRows
from nearfield._search import prepare_search
from nearfield._sources.open import open_source
from nearfield._sources.source import Spec
from nearfield._terms import TermsLike
from nearfield._values import IdsLike, listed, to_ids
from nearfield.ray._calls import ClusterCalls
from nearfield.ray._manifest import Operation
from nearfield.ray._merge import check_counts, fetched, merge_hits, pick
from nearfield.ray._segment import id_table, shards_of, tables_of
from nearfield.ray._updates import FIXED_ATTRIBUTES, check_arguments, update_operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nearfield.ray._shard_calls import View


NO_GROUPS = "group_by, facets: a cluster cannot group or count the rows of several servers yet"


class ClusterSearch(TypedDict, total=False):
    """Options of a search, as in nearfield.SearchOptions, and:

    fresh  an answer with all commits that were acknowledged before the call, of every client: it
           reads the storage once. Without it, the answer is at a manifest that has this client's
           own commits and is no older than one that this client has read; then the search needs
           neither the storage nor the coordinator
    """

    k: int
    filter: FilterLike | None
    payload: bool
    vectors: bool
    attributes: Names
    terms: TermsLike | None
    score_weight: float | None
    parts: bool
    score_threshold: float | None
    with_digest: bool
    verify: bool
    priority: Any
    timeout: float | None
    fresh: bool


class ClusterCollection:
    """A collection of a cluster. The epochs of its answers are the numbers of manifests.

    Errors: those of nearfield.Collection; Unavailable if a shard did not answer by the deadline."""

    def __init__(self, calls: ClusterCalls, name: str) -> None:
        self._calls = calls
        self.name = name

    def __repr__(self) -> str:
        return f"<collection {self.name!r} of a cluster>"

    def search(self, vector: ArrayLike, **options: Unpack[ClusterSearch]) -> SearchResult:
        """Returns the k best rows of all shards for each query, exactly, ordered by (score, id).
        vector: one query [dim], or several [queries, dim]."""
        if "group_by" in options or "group_rows" in options:
            raise Unimplemented(NO_GROUPS)
        refuse_unknown("a search of a cluster", options, ClusterSearch.__annotations__.keys())
        timeout, fresh = options.pop("timeout", None), options.pop("fresh", False)
        with_digest = options.pop("with_digest", False)
        k = options.setdefault("k", 10)
        search = prepare_search(vector, None, None, options)  # type: ignore[arg-type]
        filtered = options.get("filter") is not None
        limited = filtered or options.get("score_threshold") is not None
        with_rest = filtered or any(map(options.get, ("payload", "vectors", "attributes", "parts")))

        def ask(view: View, shard: int, docs: Any, at: dict[str, Any], left: float) -> Any:
            found: SearchResult = docs._search_prepared(search, left, at)
            arrays = found.to_numpy()
            if not limited:
                check_counts(arrays, view["collections"][self.name]["rows"][shard], k)
            return found, arrays

        at, answers = self._read(timeout, fresh, ask)
        parts, arrays = zip(*answers, strict=True)
        slowest = max((part.cost for part in parts), key=lambda cost: cost.total_us)
        merged = merge_hits(parts, arrays, k, with_rest)
        digest = result_digest(merged) if with_digest else None
        return SearchResult(merged, *at, slowest, digest)

    def _read(self, timeout: float | None, fresh: bool, *ask: Any) -> tuple[tuple[int, int], Any]:
        """As ClusterCalls.read; returns the number of the manifest and that of the one that created
        the collection, and the answers."""
        view, parts = self._calls.read(self.name, timeout, fresh, *ask)
        return (view["number"], view["collections"][self.name]["created"]), parts

    def fetch(
        self,
        ids: IdsLike,
        *,
        payload: bool = True,
        vectors: bool = True,
        attributes: Names = (),
        timeout: float | None = None,
        fresh: bool = False,
    ) -> FetchResult:
        """Returns rows by id; ids that name no row are in `missing`."""
        wanted = to_ids(ids)
        owners = functools.cache(lambda shards: shards_of(wanted, shards))

        def owning(view: View) -> Sequence[int]:
            found: list[int] = np.unique(owners(len(view["shards"]))).tolist()
            return found or [0]

        def ask(view: View, shard: int, docs: Any, at: dict[str, Any], left: float) -> Any:
            mine = pick(wanted, np.flatnonzero(owners(len(view["shards"])) == shard))
            options = {"payload": payload, "vectors": vectors, "attributes": attributes}
            return docs.fetch(mine, timeout=left, **options, **at)

        (number, created), parts = self._read(timeout, fresh, ask, owning)
        found, payloads, rows, columns = fetched(parts, wanted)
        there = set(listed(found))
        missing = to_ids([each for each in listed(wanted) if each not in there])
        return FetchResult(found, payloads, rows, columns, missing, number, created)

    def count(
        self,
        filter: FilterLike | None = None,
        *,
        timeout: float | None = None,
        fresh: bool = False,
    ) -> Counted:
        """Returns the number of rows; with a filter, of those that pass it."""

        def ask(view: View, shard: int, docs: Any, at: dict[str, Any], left: float) -> Any:
            return docs.count(filter, timeout=left, **at).rows_count

        at, parts = self._read(timeout, fresh, ask)
        return Counted(sum(parts), *at)

    def facets(self, attributes: Names) -> NoReturn:
        """Raises Unimplemented: a cluster has no facets yet."""
        raise Unimplemented(f"attributes: {attributes!r}; {NO_GROUPS}")

    def upload(
        self,
        data: Any,
        *,
        ids: Any = None,
        vectors: str | None = None,
        attributes: Mapping[str, Any] | Sequence[str] | None = None,
        payloads: Any = None,
        mode: UploadMode = "insert",
        zero_rows: ZeroRows = "refuse",
        token: str | None = None,
        timeout: float | None = None,
    ) -> Uploaded:
        """Uploads rows as one atomic, durable commit over all shards; the arguments are those of
        nearfield.Collection.upload. With the same token again, it returns the commit that is there.
        After Unavailable or DeadlineExceeded without a token the rows may be there."""
        for name, given, known in (("mode", mode, UploadMode), ("zero_rows", zero_rows, ZeroRows)):
            if given not in get_args(known):
                raise ValueError(f"{name}: {given!r}; one of {', '.join(get_args(known))}")
        info, created = self._info(timeout)
        spec = Spec(info, ids, vectors, attributes, payloads)
        with contextlib.closing(open_source(spec, data)) as source:
            segments = self._calls.put(tables_of(info, source.batches(), zero_rows))
        if not segments and mode != "replace":
            raise ValueError("data: no rows")
        operation = {"kind": mode, "segments": segments}
        deadline = self._calls.deadline(timeout)
        done = self._calls.commit(self.name, operation, token, deadline, created)
        return Uploaded(done.number, done.created, done.changed, done.replaced, 0, None)

    def _info(self, timeout: float | None) -> tuple[CollectionInfo, int]:
        """Returns the declaration, and the number of the manifest that created the collection."""

        def ask(view: View, shard: int, docs: Any, at: dict[str, Any], left: float) -> Any:
            return docs.info(timeout=left)

        (_, created), (info,) = self._read(timeout, True, ask, lambda _: [0])
        return info, created

    def delete(
        self,
        ids: IdsLike | None = None,
        *,
        filter: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Deleted:
        """Deletes rows by id, or by a filter as text, as one atomic commit over all shards."""
        if (ids is None) == (filter is None):
            raise TypeError("give either ids or filter=")
        if filter is not None and not isinstance(filter, str):
            raise TypeError("filter: give it as text")
        deadline, created = self._calls.deadline(timeout), 0
        # Without a collection only an earlier commit with the same token is left.
        with contextlib.suppress(NotFound):
            (_, created), _ = self._read(timeout, True, lambda *_: None, lambda _: [])
        operation: Operation = {"kind": "filter", "filter": filter}
        if ids is not None:
            operation = {"kind": "delete", "segments": self._calls.put([id_table(to_ids(ids))])}
        done = self._calls.commit(self.name, operation, token, deadline, created)
        return Deleted(done.changed, done.number, done.created)

    def update(
        self,
        ids: IdsLike | None = None,
        *,
        filter: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        payloads: Any = None,
        if_: Any = None,
        if_epoch: Any = None,
        incarnation: Any = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Updated:
        """Gives all rows that pass a filter, a text, the same values, as one atomic commit over all
        shards; the arguments are those of nearfield.Collection.update. With the same token again,
        it returns the commit that is there. The other arguments raise TypeError: they become
        conditions of the filter."""
        given = {"ids": ids, "if_": if_, "if_epoch": if_epoch, "incarnation": incarnation}
        check_arguments(filter, given)
        deadline = self._calls.deadline(timeout)
        info, created = self._info(timeout)
        operation = update_operation(info, str(filter), attributes, payloads)
        done = self._calls.commit(self.name, operation, token, deadline, created)
        return Updated(done.changed, done.number, done.created, to_ids([]), to_ids([]))

    def add_attribute(self, name: str, type: Any = None, *, timeout: float | None = None) -> int:
        """Raises Unimplemented: the attributes of a collection of a cluster are fixed."""
        raise Unimplemented(FIXED_ATTRIBUTES)

    drop_attribute = add_attribute
