"""Messages and stubs of nearfield.v1, made from proto/ without the Python client, and short forms of calls."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import grpc
import numpy as np
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

if TYPE_CHECKING:
    from conftest import Server

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60


def stub(service: ServiceDescriptor, channel: grpc.Channel) -> SimpleNamespace:
    """Returns the calls of a service."""
    calls = {}
    for method in service.methods:
        kind = "_".join("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
        calls[method.name] = getattr(channel, kind)(
            f"/{service.full_name}/{method.name}", request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString)
    return SimpleNamespace(**calls)


@functools.cache
def messages() -> SimpleNamespace:
    """Returns the messages, enums and stubs of nearfield.v1 by their names."""
    files = [f"nearfield/v1/{name}.proto" for name in ("common", "terms", "facets", "retrieval", "ingest", "admin")]
    with tempfile.NamedTemporaryFile() as out:
        assert protoc.main(["protoc", f"-I{ROOT}/proto", f"--descriptor_set_out={out.name}", *files]) == 0
        described = FileDescriptorSet.FromString(out.read())
    pool, found = DescriptorPool(), {}
    for each in described.file:
        pool.Add(each)
        file = pool.FindFileByName(each.name)
        for enum in file.enum_types_by_name.values():
            found |= {enum.name: EnumTypeWrapper(enum)} | {value.name: value.number for value in enum.values}
        found |= {name: GetMessageClass(message) for name, message in file.message_types_by_name.items()}
        found |= {f"{name}Stub": functools.partial(stub, service) for name, service in file.services_by_name.items()}
    return SimpleNamespace(**found)


class Api:
    """Short forms of the calls that most tests make."""

    def __init__(self, server: Server) -> None:
        self.pb = messages()
        self.server = server

    def create(self, name: str, dim: int, metric: str = "DOT", dtype: str = "FLOAT32", ids: str = "UINT64", **more):
        """Creates a collection and returns its CollectionInfo; `more` are further fields of the
        request."""
        pb = self.pb
        return self.server.admin.CreateCollection(pb.CreateCollectionRequest(
            name=name, dim=dim, metric=pb.Metric.Value(f"METRIC_{metric}"), dtype=pb.DataType.Value(f"DATA_TYPE_{dtype}"),
            id_type=pb.IdType.Value(f"ID_TYPE_{ids}"), **more), timeout=DEADLINE_S).collection

    def ids(self, ids: list):
        texts = bool(ids) and isinstance(ids[0], str)
        return self.pb.IdList(texts=ids) if texts else self.pb.IdList(numbers=ids)

    def begin(self, name: str, rows_max: int, payload_bytes_max: int = 0, mode: str = "INSERT", token: bytes | None = None):
        return self.pb.UploadRequest(begin=self.pb.UploadBegin(
            collection=name, mode=self.pb.UploadMode.Value(f"UPLOAD_MODE_{mode}"), rows_max=rows_max,
            payload_bytes_max=payload_bytes_max, upload_token=token))

    def commit(self, rows_count: int | None = None):
        return self.pb.UploadRequest(commit=self.pb.UploadCommit(rows_count=rows_count))

    def send(self, *requests) -> list:
        """Sends the messages of one upload; returns the replies."""
        return list(self.server.ingest.Upload(iter(requests), timeout=DEADLINE_S))

    def block(self, ids: list, rows: np.ndarray, payloads: list[bytes] | None = None):
        # bfloat16 rows are given as their bits.
        dtype = {np.dtype("<f4"): self.pb.DATA_TYPE_FLOAT32, np.dtype("<f2"): self.pb.DATA_TYPE_FLOAT16,
                 np.dtype("<u2"): self.pb.DATA_TYPE_BFLOAT16}[rows.dtype]
        return self.pb.UploadRequest(block=self.pb.UploadBlock(
            ids=self.ids(ids), vectors=self.pb.VectorBlock(dtype=dtype, data=rows.tobytes()), payloads=payloads or []))

    def upload(self, name: str, ids: list, rows: np.ndarray, payloads: list[bytes] | None = None, block_rows: int = 500):
        """Uploads all rows in blocks, rows of zeros too; returns UploadCommitted."""
        blocks = (self.block(ids[at:at + block_rows], rows[at:at + block_rows], payloads[at:at + block_rows] if payloads else None)
                  for at in range(0, len(ids), block_rows))
        begin = self.begin(name, len(ids), sum(len(p) for p in payloads or []))
        begin.begin.zero_rows = self.pb.ZERO_ROWS_ACCEPT
        replies = self.send(begin, *blocks, self.commit(len(ids)))
        assert replies[-1].WhichOneof("message") == "committed"
        return replies[-1].committed

    def query(self, vector: np.ndarray):
        return self.pb.Query(vector=self.pb.FloatVector(values=vector.tolist()))

    def search(self, name: str, queries, k: int | None = None, **more):
        vectors = [self.query(vector) for vector in np.atleast_2d(queries)]
        return self.server.retrieval.Search(
            self.pb.SearchRequest(collection=name, queries=vectors, k=k, **more), timeout=DEADLINE_S)

    def answer(self, result) -> list[tuple[object, int]]:
        """Returns the (id, score bits) of a QueryResult."""
        ids = list(result.ids.texts) or list(result.ids.numbers)
        bits = np.array(result.scores, dtype=np.float32).view(np.uint32)
        assert len(ids) == len(bits)
        return [(identity, int(value)) for identity, value in zip(ids, bits)]
