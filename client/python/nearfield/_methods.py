"""The calls of the services, and which of them may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._proto import facets_pb2 as facets
from nearfield._proto import health_pb2 as health
from nearfield._proto import ingest_pb2 as ingest
from nearfield._proto import retrieval_pb2 as retrieval

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """One call: its path, its messages, and whether a client may repeat it. token: the field of the
    request with which it may be repeated although `repeatable` is False."""

    path: str
    request: type[Request]
    response: type[Response]
    repeatable: bool = True
    token: str = ""

    @property
    def serialize(self) -> Callable[[Request], bytes]:
        return self.request.SerializeToString  # type: ignore[attr-defined, no-any-return]

    @property
    def parse(self) -> Callable[[bytes], Response]:
        return self.response.FromString  # type: ignore[attr-defined, no-any-return]

    def may_repeat(self, request: Any) -> bool:
        """Returns True if the client may send the request again after an error."""
        return self.repeatable or bool(self.token and request.HasField(self.token))


_RETRIEVAL = "/nearfield.v1.Retrieval/"
_INGEST = "/nearfield.v1.Ingest/"
_ADMIN = "/nearfield.v1.Admin/"

SEARCH = Method(_RETRIEVAL + "Search", retrieval.SearchRequest, retrieval.SearchResponse)
SEARCH_STREAM = Method(
    _RETRIEVAL + "SearchStream", retrieval.SearchRequest, retrieval.SearchResponse
)
SEARCH_ALL = Method(_RETRIEVAL + "SearchAll", retrieval.SearchAllRequest, retrieval.SearchResponse)
FETCH = Method(_RETRIEVAL + "Fetch", retrieval.FetchRequest, retrieval.FetchResponse)
SCAN = Method(_RETRIEVAL + "Scan", retrieval.ScanRequest, retrieval.ScanResponse)
COUNT = Method(_RETRIEVAL + "Count", retrieval.CountRequest, retrieval.CountResponse)
FACETS = Method(_RETRIEVAL + "Facets", facets.FacetsRequest, facets.FacetsResponse)
PIN_EPOCH = Method(_RETRIEVAL + "PinEpoch", retrieval.PinEpochRequest, retrieval.PinEpochResponse)
GET_LIMITS = Method(_RETRIEVAL + "GetLimits", common.GetLimitsRequest, common.GetLimitsResponse)

UPLOAD = Method(_INGEST + "Upload", ingest.UploadRequest, ingest.UploadResponse)
DELETE = Method(_INGEST + "Delete", ingest.DeleteRequest, ingest.DeleteResponse)
UPDATE = Method(
    _INGEST + "Update", ingest.UpdateRequest, ingest.UpdateResponse, False, "update_token"
)
GET_UPLOAD = Method(_INGEST + "GetUpload", ingest.GetUploadRequest, ingest.GetUploadResponse)
LIST_UPLOADS = Method(
    _INGEST + "ListUploads", ingest.ListUploadsRequest, ingest.ListUploadsResponse
)
DROP_UPLOAD = Method(_INGEST + "DropUpload", ingest.DropUploadRequest, ingest.DropUploadResponse)

CREATE_COLLECTION = Method(
    _ADMIN + "CreateCollection",
    admin.CreateCollectionRequest,
    admin.CreateCollectionResponse,
    False,
)
DROP_COLLECTION = Method(
    _ADMIN + "DropCollection", admin.DropCollectionRequest, admin.DropCollectionResponse, False
)
ADD_ATTRIBUTE = Method(
    _ADMIN + "AddAttribute", common.AddAttributeRequest, common.AddAttributeResponse, False
)
DROP_ATTRIBUTE = Method(
    _ADMIN + "DropAttribute", common.DropAttributeRequest, common.DropAttributeResponse, False
)
GET_COLLECTION = Method(
    _ADMIN + "GetCollection", admin.GetCollectionRequest, admin.GetCollectionResponse
)
LIST_COLLECTIONS = Method(
    _ADMIN + "ListCollections", admin.ListCollectionsRequest, admin.ListCollectionsResponse
)
# Not repeated: another caller may have moved the alias since.
SET_ALIAS = Method(_ADMIN + "SetAlias", admin.SetAliasRequest, admin.SetAliasResponse, False)
DROP_ALIAS = Method(_ADMIN + "DropAlias", admin.DropAliasRequest, admin.DropAliasResponse, False)
CREATE_SNAPSHOT = Method(
    _ADMIN + "CreateSnapshot", admin.CreateSnapshotRequest, admin.CreateSnapshotResponse, False
)
DELETE_SNAPSHOT = Method(
    _ADMIN + "DeleteSnapshot", admin.DeleteSnapshotRequest, admin.DeleteSnapshotResponse, False
)
LIST_SNAPSHOTS = Method(
    _ADMIN + "ListSnapshots", admin.ListSnapshotsRequest, admin.ListSnapshotsResponse
)
COMPACT = Method(_ADMIN + "Compact", admin.CompactRequest, admin.CompactResponse)
GET_CAPACITY = Method(_ADMIN + "GetCapacity", admin.GetCapacityRequest, admin.GetCapacityResponse)
GET_COUNTERS = Method(_ADMIN + "GetCounters", admin.GetCountersRequest, admin.GetCountersResponse)
GET_SERVER_STATE = Method(
    _ADMIN + "GetServerState", admin.GetServerStateRequest, admin.GetServerStateResponse, False
)
VERIFY = Method(_ADMIN + "Verify", admin.VerifyRequest, admin.VerifyResponse)
CHECK_HEALTH = Method(
    "/grpc.health.v1.Health/Check", health.HealthCheckRequest, health.HealthCheckResponse, False
)
