"""Client of nearfield, an exact vector retrieval service.

    import nearfield
    from nearfield import F

    with nearfield.connect("127.0.0.1:50051") as client:
        docs = client.create_collection("docs", 384, metric="cosine", if_missing=True)
        docs.upload(vectors, ids=ids)                      # one atomic, durable commit
        for hit in docs.search(query, k=5):
            print(hit.id, hit.score)

The result contract, limits and status codes are defined in proto/nearfield/v1 of the project.
"""

from importlib.metadata import version as _version

from nearfield._attributes import Attribute
from nearfield._changes import Deleted, Updated, Uploaded
from nearfield._client import AsyncClient, Client, connect, open, open_async
from nearfield._collection import AsyncCollection, Collection
from nearfield._cost import Cost
from nearfield._digest import result_digest
from nearfield._embed import Embedder, EmbedError
from nearfield._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from nearfield._export import Exported
from nearfield._facets import Facet, Facets
from nearfield._filter import F, Filter
from nearfield._groups import Group
from nearfield._records import (
    Capacity,
    CollectionInfo,
    Compacted,
    Counters,
    Limits,
    OpenUpload,
    ServerState,
    Snapshot,
    UploadState,
)
from nearfield._results import (
    Counted,
    FetchResult,
    Hit,
    Hits,
    Pinned,
    ScanPage,
    SearchResult,
    Verified,
)
from nearfield._retry import RetryPolicy
from nearfield._search import SearchOptions
from nearfield._terms import Clamped, HalfLife, Is, Linear, PartArrays, Parts
from nearfield._text_calls import Added
from nearfield._upload_progress import Progress

__version__ = _version("nearfield")

__all__ = [
    "Aborted",
    "Added",
    "AlreadyExists",
    "AsyncClient",
    "AsyncCollection",
    "Attribute",
    "Cancelled",
    "Capacity",
    "Clamped",
    "Client",
    "Collection",
    "CollectionInfo",
    "Compacted",
    "Cost",
    "Counted",
    "Counters",
    "DataLoss",
    "DeadlineExceeded",
    "Deleted",
    "EmbedError",
    "Embedder",
    "Error",
    "Exported",
    "F",
    "Facet",
    "Facets",
    "FailedPrecondition",
    "FetchResult",
    "Filter",
    "Group",
    "HalfLife",
    "Hit",
    "Hits",
    "Internal",
    "InvalidArgument",
    "Is",
    "Limits",
    "Linear",
    "NotFound",
    "OpenUpload",
    "PartArrays",
    "Parts",
    "PermissionDenied",
    "Pinned",
    "Progress",
    "ResourceExhausted",
    "RetryPolicy",
    "ScanPage",
    "SearchOptions",
    "SearchResult",
    "ServerState",
    "Snapshot",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Updated",
    "UploadState",
    "Uploaded",
    "Verified",
    "connect",
    "open",
    "open_async",
    "result_digest",
]
