// SPDX-License-Identifier: Apache-2.0
#include "engine/device_work.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

// How soon a failure on the device is noticed when nobody polls.
constexpr Seconds between_looks{0.05};
// For what is under way when the job or the process set ends.
constexpr Seconds longest_close{30};
// Of one look at the group, which says by itself when it fails.
constexpr Seconds longest_look{60};

DeviceLane::Options options_for(ProcessSetState& state) {
    DeviceLane::Options options;
    options.name = fmt::format("process set {}", state.process_set);
    options.path = state.host.parts().settings.device_path;
    options.open = [&state] {
        return state.host.parts().open(state.group, Channel::Lane::device,
                                       static_cast<unsigned>(state.process_set));
    };
    options.timeout = state.host.parts().timeout;
    return options;
}

}  // namespace

DeviceWork::DeviceWork(ProcessSetState& state) : state_(state), lane_(options_for(state)) {}

DeviceWork::~DeviceWork() {
    // Memory of results that were not released: the streams it belongs to may be gone by now, so on
    // a device it is left to the end of the process.
    if (lane_.on_host()) return;
    for (Entry& entry : state_.entries)
        static_cast<void>(entry.device_owned.release());
}

Outcome<DeviceNote> DeviceWork::admit(const mpib_operation& operation) {
    if (!is_on_device(operation)) return DeviceNote();
    if (auto fine = lane_.admit(operation); !fine) return pass_on(std::move(fine));
    return lane_.note({operation.stream});
}

Done DeviceWork::run(Communicator& host, const Communicator::Call& call, const Descriptor& what,
                     std::span<Entry* const> entries, std::span<const std::size_t> counts) {
    if (!lane_.is_open()) {
        state_.trace().timeline.begin(state_.shown(Phase::init_nccl));
        auto opened = lane_.open(host);
        state_.trace().timeline.end(state_.shown(Phase::init_nccl));
        if (!opened) return opened;
        execution_.emplace(lane_, state_.group, state_.trace(), state_.process_set);
    }
    if (what.kind != Kind::allreduce) return execution_->run_single(host, call, *entries.front());
    return execution_->allreduce(call.name, what, entries, counts);
}

Done DeviceWork::wait(ProcessSetState::Lock& lock, const Entry& entry, double seconds) {
    const DeviceTicket ticket = entry.ticket;
    const DeviceStream stream{entry.stream};
    const std::string what = state_.member.described(*entry.request);
    lock.unlock();
    Done done;
    do {
        done =
            lane_.make_stream_wait(ticket, stream, seconds > 0 ? Seconds(seconds) : longest_look);
    } while (!done && done.error().status == MPIB_ERROR_TIMEOUT && !(seconds > 0));
    if (done) {
        lock.lock();
        return done;
    }
    if (done.error().status == MPIB_ERROR_TIMEOUT && seconds > 0 && lane_.poll({}).has_value()) {
        lock.lock();
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{} is not done after {} s, and goes on", what, seconds));
    }
    state_.host.fail_all(done.error());
    lock.lock();
    // What failed first explains more.
    return tl::unexpected(state_.member.failure ? *state_.member.failure : done.error());
}

bool DeviceWork::poll(ProcessSetState::Lock& lock, const DeviceTicket& ticket) {
    lock.unlock();
    const auto reached = lane_.poll(ticket);
    if (!reached) state_.host.fail_all(reached.error());
    lock.lock();
    return !reached || *reached;
}

Done DeviceWork::watch() {
    return lane_.is_open() ? lane_.watch() : Done();
}

Seconds DeviceWork::until_watch(Seconds otherwise) const {
    return lane_.is_open() && lane_.busy() ? std::min(otherwise, between_looks) : otherwise;
}

void DeviceWork::close() {
    if (!lane_.is_open()) return;
    {
        ProcessSetState::Lock lock(state_.mutex);
        state_.member.plan.frozen = true;
        state_.changed.wait(lock, [this] { return !state_.member.plan.busy; });
    }
    lane_.close(Deadline::in(longest_close));
}

}  // namespace mpi_bridge
