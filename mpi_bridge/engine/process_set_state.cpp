// SPDX-License-Identifier: Apache-2.0
#include "engine/process_set_state.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/execute/host_execution.hpp"

namespace mpi_bridge {
namespace {

Member::Options options_of(const EngineParts& parts, const Group& group) {
    const EngineSettings& settings = parts.settings;
    const std::uint64_t sizes[] = {settings.first_bucket_bytes, settings.bucket_bytes};
    Member::Options options;
    options.ranks = group.ranks;
    options.own = group.own;
    options.first_generation = parts.first_generation;
    options.settings_digest = digest_of(std::as_bytes(std::span(sizes)));
    options.limits = {.first = std::min(settings.first_bucket_bytes, settings.bucket_bytes),
                      .others = settings.bucket_bytes};
    return options;
}

}  // namespace

ProcessSetState::ProcessSetState(EngineHost& engine, int id, Group members)
    : host(engine),
      process_set(id),
      group(std::move(members)),
      member(options_of(host.parts(), group)),
      round(member),
      progress(Clock::now()) {}

OwnRequest* ProcessSetState::find(const Handle& handle) {
    if (handle.index >= member.requests.size()) return nullptr;
    OwnRequest& request = member.requests.at(handle.index);
    return !request.free() && request.generation == handle.generation ? &request : nullptr;
}

Activity ProcessSetState::shown(const OwnRequest& request, Phase phase) const {
    return {request.name, phase, shown_kind(request.descriptor.kind), process_set};
}

Activity ProcessSetState::shown(Phase phase) const {
    return {{}, phase, MPIB_BARRIER, process_set};
}

void ProcessSetState::take_completions() {
    if (member.completions.empty()) return;
    bool any_well = false;
    for (Completion& each : member.completions) {
        OwnRequest& done = request(each.index);
        const bool well = !each.failure;
        trace().timeline.end(shown(done, Phase::operation), well);
        trace().counters.add_operation(shown_kind(done.descriptor.kind), done.bytes, well);
        done.failure = std::move(each.failure);
        done.last_joined = each.last_joined;
        any_well = any_well || well;
        done.note = DeviceNote();
    }
    open_operations -= static_cast<int>(member.completions.size());
    member.completions.clear();
    if (any_well) progress = Clock::now();
    // As long as this rank submits more, it works while earlier operations are open.
    if (any_well && open_operations == 0) trace().counters.add_waited(latest_submission, progress);
    if (sleepers != 0) changed.notify_all();
    if (!member.retired) return;
    // The negotiation says that the member has closed the set when its last operation is done.
    news = true;
    host.parts().wake();
}

void ProcessSetState::abandon(const Failure& cause) {
    member.abandon(cause);
    take_completions();
}

}  // namespace mpi_bridge
