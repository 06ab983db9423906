#include "server/rpc/local_service.h"

#include <utility>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/collections/change_schema.h"
#include "server/collections/snapshots.h"
#include "server/convert/admin.h"
#include "server/convert/attributes.h"
#include "server/rpc/direct_call.h"
#include "server/rpc/find_collection.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/verify_call.h"

namespace nearfield::server {
namespace {

// Describes the collection, with the aliases that the key of the call covers.
void Describe(const NamedCollection& named, const Catalog::Aliases& aliases, const Call& call,
              pb::CollectionInfo* info) {
  ToProto(named.name, named.collection->spec(), named.collection->Stats(), info);
  ToProto(*named.attributes->SchemaAt(), info->mutable_attributes());
  info->set_incarnation(named.incarnation);
  info->set_host_bytes(info->host_bytes() + static_cast<uint64_t>(named.attributes->bytes()));
  info->set_durable(named.store != nullptr);
  info->set_owner(named.owner);
  info->set_error(std::string(named.load_status.message()));
  if (named.store != nullptr) {
    info->set_read_failures_count(
        static_cast<uint64_t>(named.store->ReadFailuresOf(named.store_id).count));
  }
  for (const auto& [alias, target] : aliases) {
    if (target.get() != &named) continue;
    if (call.key() == nullptr || call.key()->Covers(alias)) info->add_aliases(alias);
  }
}

SnapshotPlace PlaceOf(const Core& core, const Call& call) {
  const Settings& settings = call.state()->settings();
  return {.store = core.catalog.store(),
          .dir = settings.snapshot_dir.value(),
          .snapshots_max = settings.snapshots_max.value(),
          .quotas = &call.state()->quotas()};
}

// Returns the principal for which what the call creates counts; empty: none.
std::string OwnerOf(const Call& call) { return call.key() == nullptr ? "" : call.key()->principal; }

// Returns the status of a call that stopped: if it was cancelled, the deadline or the cancellation.
absl::Status Ended(const Call& call, const absl::Status& status) {
  return absl::IsCancelled(status) && call.Dead() ? call.DeadStatus() : status;
}

pb::ServerPhase PhaseOf(ServerState::Phase phase) {
  switch (phase) {
    case ServerState::Phase::kStarting: return pb::SERVER_PHASE_STARTING;
    case ServerState::Phase::kServing: return pb::SERVER_PHASE_SERVING;
    case ServerState::Phase::kDraining: return pb::SERVER_PHASE_DRAINING;
    case ServerState::Phase::kLost: return pb::SERVER_PHASE_LOST;
  }
  return pb::SERVER_PHASE_UNSPECIFIED;
}

void Describe(const BootProgress::View& view, pb::LoadProgress* progress) {
  progress->set_collections_loaded(static_cast<uint64_t>(view.loading.collections_loaded));
  progress->set_collections_count(static_cast<uint64_t>(view.loading.collections_count));
  progress->set_bytes_read(static_cast<uint64_t>(view.loading.bytes_read));
  progress->set_bytes_total(static_cast<uint64_t>(view.loading.bytes_total));
  if (view.seconds_left.has_value()) {
    progress->set_seconds_left(static_cast<uint64_t>(*view.seconds_left));
  }
}

}  // namespace

ActiveCallPtr LocalService::CreateCollection(
    Rpc<pb::CreateCollectionRequest, pb::CreateCollectionResponse> rpc) {
  return Run(
      "CreateCollection", &Core::reads, rpc, [this, rpc](Core& core, Call& call) -> absl::Status {
        call.record.collection = rpc.request->name();
        ABSL_RETURN_IF_ERROR(ValidateCollectionName(rpc.request->name()));
        ABSL_RETURN_IF_ERROR(CheckNameInUse(core.catalog, call.key(), rpc.request->name()));
        ABSL_ASSIGN_OR_RETURN(const CollectionSpec spec, FromProto(*rpc.request));
        ABSL_ASSIGN_OR_RETURN(AttributeSchema schema,
                              FromProto(rpc.request->attributes(), AttributeLimits()));
        ABSL_ASSIGN_OR_RETURN(
            const auto named,
            core.catalog.Create(rpc.request->name(), spec, std::move(schema), OwnerOf(call)));
        names_changed_();
        Describe(*named, {}, call, rpc.response->mutable_collection());
        return absl::OkStatus();
      });
}

ActiveCallPtr LocalService::AddAttribute(
    Rpc<pb::AddAttributeRequest, pb::AddAttributeResponse> rpc) {
  return Run("AddAttribute", &Core::deletes, rpc, [rpc](Core& core, Call& call) -> absl::Status {
    call.record.collection = rpc.request->collection();
    ABSL_ASSIGN_OR_RETURN(const auto named, call.Find(core, rpc.request->collection()));
    ABSL_ASSIGN_OR_RETURN(const AttributeSpec spec, FromProto(rpc.request->attribute()));
    ABSL_ASSIGN_OR_RETURN(const uint64_t epoch,
                          ChangeSchema(*named, [&spec](const AttributeSchema& now) {
                            return now.With(spec, AttributeLimits());
                          }));
    rpc.response->set_epoch(epoch);
    rpc.response->set_incarnation(named->incarnation);
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::DropAttribute(
    Rpc<pb::DropAttributeRequest, pb::DropAttributeResponse> rpc) {
  return Run("DropAttribute", &Core::deletes, rpc, [rpc](Core& core, Call& call) -> absl::Status {
    call.record.collection = rpc.request->collection();
    ABSL_ASSIGN_OR_RETURN(const auto named, call.Find(core, rpc.request->collection()));
    ABSL_ASSIGN_OR_RETURN(const uint64_t epoch,
                          ChangeSchema(*named, [&rpc](const AttributeSchema& now) {
                            return now.Without(rpc.request->attribute());
                          }));
    rpc.response->set_epoch(epoch);
    rpc.response->set_incarnation(named->incarnation);
    call.state()->log()->Write(
        LogLevel::kInfo, "attribute dropped",
        {{"collection", named->name}, {"attribute", rpc.request->attribute()}});
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::DropCollection(
    Rpc<pb::DropCollectionRequest, pb::DropCollectionResponse> rpc) {
  return Run(
      "DropCollection", &Core::reads, rpc, [this, rpc](Core& core, Call& call) -> absl::Status {
        call.record.collection = rpc.request->name();
        ABSL_RETURN_IF_ERROR(CheckNameInUse(core.catalog, call.key(), rpc.request->name()));
        DropCondition condition = {.only_if_empty = rpc.request->only_if_empty(),
                                   .incarnation = std::nullopt};
        if (rpc.request->has_incarnation()) {
          condition.incarnation = rpc.request->incarnation();
        }
        ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Drop(rpc.request->name(), condition));
        names_changed_();
        core.pinned_snapshots.Forget(named->collection.get());
        call.record.rows = named->collection->Stats().rows_count;
        rpc.response->set_rows_count(static_cast<uint64_t>(call.record.rows));
        return absl::OkStatus();
      });
}

ActiveCallPtr LocalService::GetCollection(
    Rpc<pb::GetCollectionRequest, pb::GetCollectionResponse> rpc) {
  return RunAndReserve(
      "GetCollection", &Core::reads, rpc, [rpc](Core& core, Call& call) -> absl::Status {
        call.record.collection = rpc.request->name();
        ABSL_ASSIGN_OR_RETURN(const auto named,
                              FindAnyCollection(core.catalog, call.key(), rpc.request->name()));
        Describe(*named, core.catalog.ListAliases(), call, rpc.response->mutable_collection());
        return absl::OkStatus();
      });
}

ActiveCallPtr LocalService::ListCollections(
    Rpc<pb::ListCollectionsRequest, pb::ListCollectionsResponse> rpc) {
  return RunAndReserve("ListCollections", &Core::reads, rpc,
                       [response = rpc.response](Core& core, Call& call) {
                         const Catalog::Aliases aliases = core.catalog.ListAliases();
                         for (const auto& named : core.catalog.List()) {
                           if (call.key() != nullptr && !call.key()->Covers(named->name)) continue;
                           Describe(*named, aliases, call, response->add_collections());
                         }
                         return absl::OkStatus();
                       });
}

ActiveCallPtr LocalService::GetCapacity(Rpc<pb::GetCapacityRequest, pb::GetCapacityResponse> rpc) {
  return Run("GetCapacity", &Core::reads, rpc, [response = rpc.response](Core& core, Call& call) {
    ToProto(core.engine->Info(), core.engine->GetCapacity(), response);
    const AttributeShared& attributes = core.catalog.attributes();
    response->set_attribute_bytes_total(static_cast<uint64_t>(attributes.memory_bytes_max));
    response->set_attribute_bytes_used(static_cast<uint64_t>(attributes.memory_bytes.load()));
    for (const PrincipalQuotas::Use& use : call.state()->quotas().Uses()) {
      pb::PrincipalUse* const principal = response->add_principals();
      principal->set_principal(use.principal);
      for (const QuotaKind& kind : kQuotaKinds) {
        if (kind.quota == Quota::kSnapshots) continue;  // ListSnapshots returns their owners
        pb::QuotaUse* const quota = principal->add_quotas();
        quota->set_name(std::string(kind.name));
        quota->set_used(static_cast<uint64_t>(use.used[kind.quota]));
        quota->set_max(static_cast<uint64_t>(use.max[kind.quota]));
      }
    }
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::GetCounters(Rpc<pb::GetCountersRequest, pb::GetCountersResponse> rpc) {
  return Run("GetCounters", &Core::reads, rpc, [response = rpc.response](Core& core, Call& call) {
    ServerState& state = *call.state();
    response->set_started_unix_ms(absl::ToUnixMillis(absl::FromChrono(state.started())));
    for (const auto& [key, count] : state.call_counter().counts()) {
      pb::CallCounter* const counter = response->add_calls();
      counter->set_method(key.first);
      counter->set_status(key.second);
      counter->set_calls_count(static_cast<uint64_t>(count.total_us.count()));
      counter->set_rows_count(static_cast<uint64_t>(count.rows));
      counter->set_total_us(static_cast<uint64_t>(count.total_us.sum()));
    }
    ToProto(core.pass_counter.counts(), response->mutable_passes());
    ToProto(core.audit->auditor.counts(), response->mutable_audit());
    ToProto(state.connection_counts(), response->mutable_connections());
    response->set_log_lines_dropped_count(static_cast<uint64_t>(state.log()->dropped()));
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::GetServerState(
    Rpc<pb::GetServerStateRequest, pb::GetServerStateResponse> rpc) {
  // Answered in every phase, on this thread.
  auto ended = std::make_shared<DirectCall>(state_, rpc.context, "GetServerState");
  const ServerState::Phase phase = state_->phase();
  rpc.response->set_phase(PhaseOf(phase));
  rpc.response->set_reason(state_->WhyNotServing(phase));
  const BootProgress::View view = state_->boot_progress().Get();
  if (phase == ServerState::Phase::kStarting && view.step == BootProgress::Step::kLoading) {
    Describe(view, rpc.response->mutable_loading());
  }
  ended->call.Finish(absl::OkStatus());
  return ended;
}

ActiveCallPtr LocalService::Verify(Rpc<pb::VerifyRequest, pb::VerifyResponse> rpc) {
  return RunAndReserve("Verify", &Core::verifications, rpc, [rpc](Core& core, Call& call) {
    return VerifyAnswer(core, call, *rpc.request, rpc.response);
  });
}

ActiveCallPtr LocalService::SetAlias(Rpc<pb::SetAliasRequest, pb::SetAliasResponse> rpc) {
  return Run("SetAlias", &Core::reads, rpc, [this, rpc](Core& core, Call& call) -> absl::Status {
    call.record.collection = rpc.request->collection();
    ABSL_RETURN_IF_ERROR(ValidateName("alias", rpc.request->alias()));
    ABSL_ASSIGN_OR_RETURN(const auto target, call.Find(core, rpc.request->collection()));
    ABSL_RETURN_IF_ERROR(CheckNameInUse(core.catalog, call.key(), rpc.request->alias()));
    // By its own name, because the given one may be an alias that moves meanwhile.
    ABSL_ASSIGN_OR_RETURN(const Catalog::AliasChange change,
                          core.catalog.SetAlias(rpc.request->alias(), target->name, OwnerOf(call)));
    names_changed_();
    Describe(*change.now, core.catalog.ListAliases(), call, rpc.response->mutable_collection());
    if (change.before != nullptr) rpc.response->set_collection_before(change.before->name);
    call.state()->log()->Write(LogLevel::kInfo, "alias set",
                               {{"alias", rpc.request->alias()},
                                {"collection", change.now->name},
                                {"collection_before", rpc.response->collection_before()}});
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::DropAlias(Rpc<pb::DropAliasRequest, pb::DropAliasResponse> rpc) {
  return Run("DropAlias", &Core::reads, rpc, [this, rpc](Core& core, Call& call) -> absl::Status {
    ABSL_RETURN_IF_ERROR(CheckNameInUse(core.catalog, call.key(), rpc.request->alias()));
    ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.DropAlias(rpc.request->alias()));
    names_changed_();
    call.record.collection = named->name;
    rpc.response->set_collection(named->name);
    call.state()->log()->Write(LogLevel::kInfo, "alias dropped",
                               {{"alias", rpc.request->alias()}, {"collection", named->name}});
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::CreateSnapshot(
    Rpc<pb::CreateSnapshotRequest, pb::CreateSnapshotResponse> rpc) {
  return Run("CreateSnapshot", &Core::snapshots, rpc,
             [rpc](Core& core, Call& call) -> absl::Status {
               const auto made = server::CreateSnapshot(
                   PlaceOf(core, call), rpc.request->name(),
                   {.owner = OwnerOf(call), .cancelled = [&call] { return call.Dead(); }});
               if (!made.ok()) return Ended(call, made.status());
               ToProto(*made, rpc.response->mutable_snapshot());
               call.state()->log()->Write(
                   LogLevel::kInfo, "snapshot made",
                   {{"name", made->name}, {"files", made->files}, {"bytes", made->bytes}});
               return absl::OkStatus();
             });
}

ActiveCallPtr LocalService::DeleteSnapshot(
    Rpc<pb::DeleteSnapshotRequest, pb::DeleteSnapshotResponse> rpc) {
  return Run(
      "DeleteSnapshot", &Core::snapshots, rpc, [rpc](Core& core, Call& call) -> absl::Status {
        ABSL_ASSIGN_OR_RETURN(const SnapshotInfo deleted,
                              server::DeleteSnapshot(PlaceOf(core, call), rpc.request->name()));
        ToProto(deleted, rpc.response->mutable_snapshot());
        call.state()->log()->Write(
            LogLevel::kInfo, "snapshot deleted",
            {{"name", deleted.name}, {"files", deleted.files}, {"bytes", deleted.bytes}});
        return absl::OkStatus();
      });
}

ActiveCallPtr LocalService::ListSnapshots(
    Rpc<pb::ListSnapshotsRequest, pb::ListSnapshotsResponse> rpc) {
  return RunAndReserve("ListSnapshots", &Core::reads, rpc,
                       [response = rpc.response](Core& core, Call& call) -> absl::Status {
                         ABSL_ASSIGN_OR_RETURN(const auto snapshots,
                                               server::ListSnapshots(PlaceOf(core, call)));
                         for (const auto& facts : snapshots) {
                           ToProto(facts, response->add_snapshots());
                         }
                         return absl::OkStatus();
                       });
}

ActiveCallPtr LocalService::Compact(Rpc<pb::CompactRequest, pb::CompactResponse> rpc) {
  return Run("Compact", &Core::compactions, rpc, [rpc](Core& core, Call& call) -> absl::Status {
    call.record.collection = rpc.request->collection();
    ABSL_ASSIGN_OR_RETURN(const auto named, call.Find(core, rpc.request->collection()));
    const auto given = core.compactor.CompactNow(named, [&call] { return call.Dead(); });
    if (!given.ok()) return Ended(call, given.status());
    call.record.rows = given->rows;
    ToProto(*given, rpc.response);
    return absl::OkStatus();
  });
}

}  // namespace nearfield::server
