"""ModelMappingService."""

from __future__ import annotations

from decision_service.registry import Registry, mappings
from decision_service.registry.paging import page_of
from decision_service.registry.registry import get
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import Readers, all_values, page_in, values_in
from decision_service.store.records import MAPPINGS, MappingRecord, etag
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

READERS: Readers[pb.ModelMapping] = {
    "pattern": lambda message: message.pattern,
    "combo": lambda message: message.combo,
    "priority": lambda message: message.priority,
}


class ModelMappingServicer(registry_pb2_grpc.ModelMappingServiceServicer):
    """Model patterns that lead to combos."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def ListModelMappings(
        self, request: pb.ListModelMappingsRequest, context: Call
    ) -> pb.ListModelMappingsResponse:
        self._desk.admit_admin(context)
        chosen, token = page_of(self._registry.snapshot.stored.of(MAPPINGS), page_in(request, "mappings"))
        return pb.ListModelMappingsResponse(mappings=[mapping_out(each) for each in chosen], next_page_token=token)

    async def GetModelMapping(self, request: pb.GetModelMappingRequest, context: Call) -> pb.GetModelMappingResponse:
        self._desk.admit_admin(context)
        record = get(self._registry.snapshot.stored.of(MAPPINGS), MAPPINGS.kind, (request.id,))
        return pb.GetModelMappingResponse(mapping=mapping_out(record))

    async def CreateModelMapping(
        self, request: pb.CreateModelMappingRequest, context: Call
    ) -> pb.CreateModelMappingResponse:
        values = all_values(request.mapping, READERS) | {"id": request.mapping.id}
        record = await self._desk.administer(context, mappings.create, self._registry, values)
        return pb.CreateModelMappingResponse(mapping=mapping_out(record))

    async def UpdateModelMapping(
        self, request: pb.UpdateModelMappingRequest, context: Call
    ) -> pb.UpdateModelMappingResponse:
        sent = request.mapping
        values = values_in(sent, request.update_mask, READERS)
        record = await self._desk.administer(context, mappings.update, self._registry, sent.id, sent.etag, values)
        return pb.UpdateModelMappingResponse(mapping=mapping_out(record))

    async def DeleteModelMapping(
        self, request: pb.DeleteModelMappingRequest, context: Call
    ) -> pb.DeleteModelMappingResponse:
        await self._desk.administer(context, mappings.delete, self._registry, request.id, request.etag)
        return pb.DeleteModelMappingResponse()


def mapping_out(record: MappingRecord) -> pb.ModelMapping:
    return pb.ModelMapping(
        id=record.id, pattern=record.pattern, combo=record.combo, priority=record.priority, etag=etag(record)
    )
