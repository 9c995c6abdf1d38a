// SPDX-License-Identifier: Apache-2.0
//
// Operations on device memory. They are agreed on, planned and run like all others, but to run one
// is to put it into the set's DeviceGroup: what the ensemble calls done is then under way on the
// device. From there the group answers for it, and the conductor watches over it.
#include <fmt/core.h>

#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

// How soon a failure on the device is noticed when nobody polls.
constexpr Seconds between_looks{0.05};
// For what is under way when the job or the process set ends.
constexpr Seconds longest_close{30};
// Of one look at the group, which says by itself when it fails.
constexpr Seconds longest_look{60};

}  // namespace

DeviceLane::Options Ensemble::device_options() const {
    DeviceLane::Options options;
    options.name = fmt::format("process set {}", process_set_);
    options.path = host_.parts().settings.device_path;
    options.open = [this] {
        return host_.parts().open(group_, Channel::Lane::device,
                                  static_cast<unsigned>(process_set_));
    };
    options.timeout = host_.parts().timeout;
    return options;
}

// Without the lock, because it takes the driver a moment, or longer where the stream is full.
Outcome<DeviceNote> Ensemble::admit_device(const mpib_operation& operation) {
    if (!is_on_device(operation)) return DeviceNote();
    if (auto fine = devices_.admit(operation); !fine) return pass_on(std::move(fine));
    return devices_.note({operation.stream});
}

// All members are in it, because all have agreed to run an operation on device memory.
Done Ensemble::open_devices() {
    if (devices_.is_open()) return {};
    const Activity activity{{}, Phase::init_nccl, MPIB_BARRIER, process_set_};
    trace().timeline.begin(activity);
    auto opened = devices_.open(*negotiated_);
    trace().timeline.end(activity);
    if (opened) device_execution_.emplace(devices_, group_, trace(), process_set_);
    return opened;
}

Done Ensemble::run_negotiated_on_device(const Communicator::Call& call, const Part& part,
                                        const std::vector<Entry*>& entries,
                                        const Descriptor& what) {
    if (auto opened = open_devices(); !opened) return opened;
    if (what.kind != Kind::allreduce)
        return device_execution_->run_single(*negotiated_, call, *entries.front());
    std::vector<std::size_t> counts;
    for (const Ledger::Id id : part.ids)
        counts.push_back(elements(ledger_.at(id).descriptor));
    return device_execution_->allreduce(call.name, what, entries, counts);
}

Done Ensemble::run_planned_on_device(const Lane::Tensors& part, std::size_t first_entry) {
    const auto entries = std::span(lane_.entries).subspan(first_entry, part.ids.size());
    if (part.what.kind == Kind::allreduce)
        return device_execution_->allreduce(part.label, part.what, entries, part.counts);
    return device_execution_->run_single(*planned_, {part.label, lane_.agreement(), timeout()},
                                         *entries.front());
}

// With the lock held; gives it up while it waits.
Done Ensemble::wait_on_device(Lock& lock, const Entry& entry, double seconds) {
    const DeviceTicket ticket = entry.ticket;
    const DeviceStream stream{entry.stream};
    const std::string what = described(entry);
    lock.unlock();
    Done done;
    do {
        done = devices_.make_stream_wait(ticket, stream,
                                         seconds > 0 ? Seconds(seconds) : longest_look);
    } while (!done && done.error().status == MPIB_ERROR_TIMEOUT && !(seconds > 0));
    if (done) {
        lock.lock();
        return done;
    }
    if (done.error().status == MPIB_ERROR_TIMEOUT && seconds > 0 && devices_.poll({}).has_value()) {
        lock.lock();
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{} is not done after {} s, and goes on", what, seconds));
    }
    host_.fail_all(done.error());
    lock.lock();
    // What failed first explains more.
    return tl::unexpected(failure_ ? *failure_ : done.error());
}

// Whether the device has done it, well or not.
bool Ensemble::poll_on_device(Lock& lock, const DeviceTicket& ticket) {
    lock.unlock();
    const auto reached = devices_.poll(ticket);
    if (!reached) host_.fail_all(reached.error());
    lock.lock();
    return !reached || *reached;
}

Done Ensemble::watch_devices() {
    return devices_.is_open() ? devices_.watch() : Done();
}

Seconds Ensemble::until_device_look(Seconds otherwise) const {
    return devices_.is_open() && devices_.busy() ? std::min(otherwise, between_looks) : otherwise;
}

// What is under way is finished, if all members come to this.
void Ensemble::part_from_devices() {
    if (!devices_.is_open()) return;
    {
        Lock lock(mutex_);
        lane_.frozen = true;
        changed_.wait(lock, [this] { return !lane_.busy; });
    }
    devices_.close(Deadline::in(longest_close));
}

}  // namespace mpi_bridge
