// SPDX-License-Identifier: Apache-2.0
#include "engine/ensemble.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "engine/operation_check.hpp"

namespace mpi_bridge {
namespace {

tl::unexpected<Failure> invalid(std::string text) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT, std::move(text));
}

std::int64_t rows_of(const mpib_operation& operation) {
    return operation.dimensions == 0 ? 1 : operation.shape[0];
}

}  // namespace

Ensemble::Ensemble(EnsembleHost& host, int process_set, std::uint32_t number, Group group)
    : host_(host),
      process_set_(process_set),
      number_(number),
      group_(std::move(group)),
      progress_(Clock::now()),
      plan_patience_(host.parts().settings.plan_patience),
      ledger_(group_.size()),
      joined_(static_cast<std::size_t>(group_.size() + 63) / 64),
      latest_round_(progress_),
      stall_watch_(host.parts().settings.stall),
      negotiated_workspace_(host.parts().allocate, host.parts().free),
      planned_workspace_(host.parts().allocate, host.parts().free),
      devices_(device_options()) {}

Ensemble::~Ensemble() {
    if (conductor_.joinable()) conductor_.join();
    if (lane_thread_.joinable()) lane_thread_.join();
    // Memory of results that were not released: the streams it belongs to may be gone by now, so on
    // a device it is left to the end of the process.
    for (Index index = 0; index < table_.size() && !devices_.on_host(); ++index)
        static_cast<void>(table_.at(index).device_owned.release());
}

Handle Ensemble::handle_of(Index index) {
    return {number_, index, table_.at(index).generation};
}

std::string Ensemble::described(const Entry& entry) const {
    return fmt::format("{} \"{}\"", name_of(entry.descriptor.kind), entry.name);
}

Activity Ensemble::shown(const Entry& entry, Phase phase) const {
    return {entry.name, phase, shown_kind(entry.descriptor.kind), process_set_};
}

Outcome<Ensemble::Index> Ensemble::claim_name(const mpib_operation& operation) {
    const auto kind = static_cast<Kind>(operation.kind);
    std::string made;
    std::string_view name;
    if (operation.name != nullptr) {
        name = operation.name;
    } else {
        made = fmt::format("{}{}{}", name_of(kind), counted_name_infix,
                           ++unnamed_[static_cast<std::size_t>(operation.kind)]);
        name = made;
    }
    Index index = table_.find(name);
    if (index == EntryTable::none) {
        index = table_.add(name);
        if (index == EntryTable::none) return invalid("too many operations are in flight");
        table_.at(index).descriptor = describe(operation);
        if (const auto id = ledger_.find(name); id != Ledger::none) table_.link(index, id);
        reconsider(table_.at(index));
        return index;
    }
    Entry& entry = table_.at(index);
    if (entry.stage != Entry::Stage::free) {
        return invalid(fmt::format(
            "{} \"{}\": the name is in use by an operation whose handle has not been released",
            name_of(kind), name));
    }
    if (!describes(entry.descriptor, operation)) {
        entry.descriptor = describe(operation);
        reconsider(entry);
    }
    return index;
}

// Whether all ranks know already what this rank means by the name.
void Ensemble::reconsider(Entry& entry) {
    entry.settled = entry.id != Ledger::none && ledger_.at(entry.id).settled &&
                    ledger_.at(entry.id).descriptor == entry.descriptor;
}

Outcome<Ensemble::Index> Ensemble::enter(const mpib_operation& operation, DeviceNote note,
                                         Concerned& concerned) {
    if (failure_) return tl::unexpected(*failure_);
    if (joined_here_) {
        return invalid("nothing can be submitted between mpib_join and the join of all ranks");
    }
    auto index = claim_name(operation);
    if (!index) return index;
    Entry& entry = table_.at(*index);
    entry.send = static_cast<const std::byte*>(operation.send);
    entry.recv = static_cast<std::byte*>(operation.recv);
    entry.room = room_of(operation);
    entry.refused = false;
    entry.rows = rows_of(operation);
    entry.bytes = static_cast<std::size_t>(entry.rows) * row_elements(entry.descriptor) *
                  datatype_bytes(entry.descriptor.datatype);
    entry.splits.clear();
    if (operation.splits != nullptr)
        entry.splits.assign(operation.splits, operation.splits + group_.size());
    entry.stream = operation.stream;
    entry.note = std::move(note);
    entry.waited_for = (operation.flags & MPIB_WAITED_FOR) != 0;
    put_in_line(entry, concerned);
    return index;
}

void Ensemble::put_in_line(Entry& entry, Concerned& concerned) {
    entry.stage = Entry::Stage::waiting;
    entry.number = ++submissions_;
    entry.after = observed_;
    entry.submitted = Clock::now();
    entry.announced = false;
    entry.reported = false;
    if (lane_.active() && entry.item >= 0 && entry.settled) {
        entry.planned = true;
        Lane::Spot& spot = lane_.at(entry.item);
        if (--spot.missing == 0) {
            spot.filled = entry.submitted;
            // Who waits for it at once will run it; who sleeps must be told.
            const bool ready = lane_.can_run();
            const bool looked_after = (entry.waited_for && host_.only_one()) ||
                                      (lane_naps_ && spot.bytes <= small_item_bytes);
            concerned.sleepers = ready && blocked_ != 0;
            concerned.lane = ready && !looked_after;
        }
        trace().timeline.begin(shown(entry, Phase::operation));
        return;
    }
    trace().timeline.begin(shown(entry, Phase::negotiate));
    if (entry.descriptor.kind == Kind::join) joined_here_ = true;
    const bool changed = lane_.active() && entry.item >= 0;
    if (lane_.active() && (changed || entry.descriptor.kind == Kind::join)) wants_to_leave_ = true;
    news_ = true;
    concerned.conductor = true;
}

void Ensemble::tell(const Concerned& concerned) {
    if (concerned.conductor) host_.parts().wake();
    if (concerned.lane) lane_work_.notify_one();
    if (concerned.sleepers) changed_.notify_all();
}

Outcome<mpib_handle> Ensemble::submit(const mpib_operation& operation) {
    start();
    auto note = admit_device(operation);
    if (!note) return pass_on(std::move(note));
    Concerned concerned;
    mpib_handle handle = 0;
    {
        const Lock lock(mutex_);
        auto index = enter(operation, std::move(*note), concerned);
        if (!index) return pass_on(std::move(index));
        handle = handle_of(*index).pack();
    }
    tell(concerned);
    return handle;
}

Done Ensemble::call(const mpib_operation& operation) {
    start();
    auto note = admit_device(operation);
    if (!note) return pass_on(std::move(note));
    Concerned concerned;
    Lock lock(mutex_);
    auto index = enter(operation, std::move(*note), concerned);
    if (!index) return pass_on(std::move(index));
    const Handle handle = handle_of(*index);
    tell(concerned);
    (void)await(lock, handle, 0);
    const Entry& entry = table_.at(*index);
    Done done = outcome_of(entry);
    if (done && entry.descriptor.device) done = wait_on_device(lock, entry, 0);
    give_free(*index);
    return done;
}

Outcome<int> Ensemble::change_process_sets(const Descriptor& change) {
    start();
    Lock lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    const std::string name(name_of(change.kind));
    Index index = table_.find(name);
    if (index == EntryTable::none) index = table_.add(name);
    Entry& entry = table_.at(index);
    if (entry.stage != Entry::Stage::free || joined_here_) {
        return invalid(name + ": another change of process sets, or a join, is under way");
    }
    entry.descriptor = change;
    if (const auto id = ledger_.find(name); id != Ledger::none) table_.link(index, id);
    reconsider(entry);
    Concerned concerned;
    put_in_line(entry, concerned);
    tell(concerned);
    (void)await(lock, handle_of(index), 0);
    const Done done = outcome_of(entry);
    const auto id = static_cast<int>(entry.result_rows);
    give_free(index);
    if (!done) return tl::unexpected(done.error());
    return id;
}

Done Ensemble::outcome_of(const Entry& entry) const {
    if (entry.failure) return tl::unexpected(*entry.failure);
    return {};
}

Outcome<mpib_result> Ensemble::result(const Handle& handle) {
    const Lock lock(mutex_);
    const Entry* entry = table_.find(handle);
    if (entry == nullptr) return invalid("the handle is unknown, or was released");
    if (entry->stage != Entry::Stage::done) return invalid(described(*entry) + " is not done yet");
    mpib_result result{};
    result.struct_bytes = sizeof result;
    const std::byte* own_memory =
        entry->descriptor.device ? entry->device_owned.get() : entry->owned.data();
    result.data = entry->recv == nullptr ? own_memory : entry->recv;
    const std::size_t row_bytes =
        row_elements(entry->descriptor) * datatype_bytes(entry->descriptor.datatype);
    result.rows = entry->result_rows;
    result.bytes = static_cast<std::size_t>(entry->result_rows) * row_bytes;
    result.received_rows = entry->received_rows.data();
    result.members = static_cast<int>(entry->received_rows.size());
    result.last_joined = entry->last_joined;
    return result;
}

Done Ensemble::release(const Handle& handle) {
    Lock lock(mutex_);
    if (table_.find(handle) == nullptr) {
        return invalid("the handle is unknown, or was released already");
    }
    (void)await(lock, handle, 0);
    Entry* entry = table_.find(handle);
    if (entry == nullptr) return {};
    // The stream must not have the memory back before the operation has written it. A failure is
    // told by mpib_wait(), and by all that comes later.
    if (entry->device_owned != nullptr) (void)wait_on_device(lock, *entry, 0);
    const Memory memory = std::move(entry->device_owned);
    if (table_.find(handle) != nullptr) give_free(handle.entry);
    lock.unlock();
    return {};
}

void Ensemble::give_free(Index index) {
    Entry& entry = table_.at(index);
    observed_ = std::max(observed_, entry.serial);
    entry.stage = Entry::Stage::free;
    ++entry.generation;
    entry.failure.reset();
    entry.owned = {};
    entry.device_owned = nullptr;
    entry.missing.clear();
    table_.released(index);
}

void Ensemble::finish(Entry& entry, const Done& done) {
    trace().timeline.end(shown(entry, Phase::operation), done.has_value());
    trace().counters.add_operation(shown_kind(entry.descriptor.kind), entry.bytes,
                                   done.has_value());
    if (!done) entry.failure = done.error();
    entry.note = DeviceNote();
    entry.stage = Entry::Stage::done;
    entry.planned = false;
}

void Ensemble::finish_all_waiting(const Failure& failure) {
    for (Index index = 0; index < table_.size(); ++index) {
        Entry& entry = table_.at(index);
        if (entry.stage != Entry::Stage::waiting) continue;
        finish(entry, fail(failure.status, described(entry) + ": " + failure.text));
    }
}

Done Ensemble::open(std::unique_ptr<Communicator>& communicator, Channel::Lane lane) {
    auto opened = host_.parts().open(group_, lane, static_cast<unsigned>(process_set_));
    if (!opened) return pass_on(std::move(opened));
    const Lock lock(mutex_);
    communicator = std::move(*opened);
    if (failure_) communicator->abandon();
    return {};
}

void Ensemble::start() {
    if (started_) return;
    const Lock lock(mutex_);
    if (started_ || failure_) return;
    conductor_ended_ = false;
    conductor_ = std::thread([this] { conduct(); });
    started_ = true;
}

void Ensemble::close() {
    start();
    Lock lock(mutex_);
    closing_ = true;
    news_ = true;
    host_.parts().wake();
    changed_.wait(lock, [this] { return conductor_ended_ && lane_ended_; });
}

void Ensemble::end_with(const Failure& failure, bool abandon) {
    if (abandon) {
        {
            const Lock lock(mutex_, std::try_to_lock);
            if (lock.owns_lock() && !failure_) failure_ = failure;
        }
        // Without the lock: who has it may be waiting for the device.
        devices_.abort();
    }
    {
        const Lock lock(mutex_);
        if (!failure_) failure_ = failure;
        lane_.frozen = true;
        ending_ = true;
        finish_all_waiting(*failure_);
        if (abandon) {
            for (Communicator* each : {control_.get(), negotiated_.get(), planned_.get()}) {
                if (each != nullptr) each->abandon();
            }
            devices_.abandon_host();
        }
        changed_.notify_all();
        lane_work_.notify_all();
    }
    host_.parts().wake();
}

void Ensemble::abandon(const Failure& failure) {
    end_with(failure, true);
}

void Ensemble::stop(const Failure& failure) {
    end_with(failure, false);
}

bool Ensemble::ended(Deadline deadline) {
    Lock lock(mutex_);
    return changed_.wait_until(lock, deadline.when(),
                               [this] { return conductor_ended_ && lane_ended_ && !lane_.busy; });
}

}  // namespace mpi_bridge
