// SPDX-License-Identifier: Apache-2.0
#include "engine/process_sets.hpp"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "core/catching.hpp"
#include "engine/negotiation/requests/operation_check.hpp"

namespace mpi_bridge {
ProcessSets::ProcessSets(EngineParts parts) : parts_(std::move(parts)), by_number_(most_engines) {
    sets_[MPIB_WORLD].ranks = parts_.world.ranks;
    sets_[MPIB_WORLD].own_index = parts_.world.own;
    engines_.push_back(std::make_unique<ProcessSetEngine>(*this, MPIB_WORLD, 0, parts_.world));
    sets_[MPIB_WORLD].engine = engines_.back().get();
    by_number_[0] = serving_[MPIB_WORLD] = engines_.back().get();
    engines_made_ = 1;
    watch_.emplace(*parts_.failure, [this](const Failure& cause) {
        devices_.abandon(cause);
        const auto sets = all();
        for (ProcessSetEngine* each : sets)
            each->abandon(cause);
        // Not before: CUDA may wait for what all sets have on the device.
        for (ProcessSetEngine* each : sets)
            each->await_abandoned();
    });
}

ProcessSets::~ProcessSets() = default;

Outcome<ProcessSetEngine*> ProcessSets::serving(const mpib_operation& operation) {
    if (operation.struct_bytes != sizeof operation) {
        return invalid(
            fmt::format("struct_bytes of the operation is {}, not {}; was the program "
                        "compiled with another mpi_bridge_engine.h",
                        operation.struct_bytes, sizeof operation));
    }
    const int id = operation.process_set;
    ProcessSetEngine* engine =
        id < 0 || id >= most ? nullptr : serving_[static_cast<std::size_t>(id)].load();
    if (engine == nullptr) {
        return invalid(ranks(id) ? fmt::format("this rank is not a member of process set {}", id)
                                 : fmt::format("process set {} is unknown", id));
    }
    TRY(check_operation(operation, engine->group()));
    // The order of operations on the devices needs all ranks to know when there are several sets.
    if (id >= first_private && (operation.flags & MPIB_DEVICE) != 0)
        return invalid(
            "a process set that only its members know does not support device memory yet");
    if (operation.kind == MPIB_JOIN && id != MPIB_WORLD)
        return invalid("only the world can be joined");
    return engine;
}

std::optional<ProcessSets::Found> ProcessSets::find(mpib_handle handle) {
    const auto unpacked = Handle::unpack(handle);
    if (!unpacked) return std::nullopt;
    ProcessSetEngine* engine = by_number_[unpacked->set].load();
    if (engine == nullptr) return std::nullopt;
    return Found{engine, *unpacked};
}

Outcome<int> ProcessSets::change(const Descriptor& change) {
    const std::lock_guard one_at_a_time(changing_);
    return sets_[MPIB_WORLD].engine->change_process_sets(change);
}

Outcome<int> ProcessSets::change_process_sets(const Descriptor& change) {
    if (change.kind == Kind::add_process_set) return add(change);
    return remove(static_cast<int>(change.shape.front()));
}

Group ProcessSets::group_of(const std::vector<int>& ranks) const {
    Group group;
    group.ranks = ranks;
    std::map<int, int> hosts;  // from the world's number of a host to the group's
    for (const int rank : ranks) {
        const int host = parts_.world.hosts[static_cast<std::size_t>(rank)];
        group.hosts.push_back(hosts.emplace(host, static_cast<int>(hosts.size())).first->second);
    }
    const int own = parts_.world.ranks[static_cast<std::size_t>(parts_.world.own)];
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), own);
    group.own = at != ranks.end() && *at == own ? static_cast<int>(at - ranks.begin()) : -1;
    return group;
}

Done ProcessSets::check(const std::vector<int>& ranks) const {
    const int world_size = parts_.world.size();
    const bool sorted = std::adjacent_find(ranks.begin(), ranks.end(),
                                           [](int a, int b) { return a >= b; }) == ranks.end();
    if (!ranks.empty() && sorted && ranks.front() >= 0 && ranks.back() < world_size) return {};
    return invalid(fmt::format("a process set needs one or more ranks, ascending, from 0 to {}",
                               world_size - 1));
}

Outcome<ProcessSetEngine*> ProcessSets::make(const std::vector<int>& ranks, int id) {
    const Group group = group_of(ranks);
    ProcessSetEngine* engine = nullptr;
    if (group.own >= 0) {
        if (engines_.size() == most_engines)
            return invalid("no more process sets can be made in this job");
        const auto number = static_cast<std::uint32_t>(engines_.size());
        engines_.push_back(std::make_unique<ProcessSetEngine>(*this, id, number, group));
        engine = engines_.back().get();
        by_number_[number] = engine;
        ++engines_made_;
    }
    sets_[static_cast<std::size_t>(id)] = {ranks, group.own, engine};
    serving_[static_cast<std::size_t>(id)] = engine;
    return engine;
}

Outcome<int> ProcessSets::add(const Descriptor& change) {
    const std::vector<int> ranks(change.shape.begin(), change.shape.end());
    TRY(check(ranks));
    let_go_of_closed();
    // Before anything that may fail on one rank alone.
    devices_.expect_several_sets();
    ProcessSetEngine* engine = nullptr;
    int id = 0;
    {
        const std::lock_guard lock(mutex_);
        if (parts_.failure->failed()) return tl::unexpected(parts_.failure->cause());
        if (shutdown_) return tl::unexpected(*shutdown_);
        for (int other = 0; other < first_private; ++other) {
            if (sets_[static_cast<std::size_t>(other)].ranks == ranks)
                return invalid(fmt::format("process set {} has these ranks already", other));
        }
        // Not the lowest free number, so that an id is not soon reused for another set.
        int tries = 0;
        id = latest_id_;
        do {
            id = id % (first_private - 1) + 1;
        } while (!sets_[static_cast<std::size_t>(id)].ranks.empty() && ++tries < first_private);
        if (!sets_[static_cast<std::size_t>(id)].ranks.empty())
            return invalid(
                fmt::format("{} process sets exist; no more are possible", first_private - 1));
        latest_id_ = id;
        engine = TRY(make(ranks, id));
    }
    if (engine == nullptr) return id;
    // The other members have the set, and would wait for this rank for ever.
    if (const Done started = start(*engine, id); !started)
        return tl::unexpected(parts_.failure->fail(started.error()));
    return id;
}

Done ProcessSets::open(const std::vector<int>& ranks, int id) {
    TRY(check(ranks));
    if (id < first_private || id >= most)
        return invalid(fmt::format("the id of a set that only its members know is from {} to {}",
                                   first_private, most - 1));
    const int own = parts_.world.ranks[static_cast<std::size_t>(parts_.world.own)];
    if (!std::binary_search(ranks.begin(), ranks.end(), own))
        return invalid("this rank is not a member of the process set that it opens");
    let_go_of_closed();
    ProcessSetEngine* engine = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (parts_.failure->failed()) return tl::unexpected(parts_.failure->cause());
        if (shutdown_) return tl::unexpected(*shutdown_);
        if (!sets_[static_cast<std::size_t>(id)].ranks.empty())
            return invalid(fmt::format("process set {} exists already", id));
        if (private_.contains(id)) {
            return invalid(fmt::format(
                "process set {} is not free, because a member has not closed it yet", id));
        }
        engine = TRY(make(ranks, id));
        private_[id] = engine;
        for (const int rank : closed_early_[id])
            engine->member_closed(rank);
        closed_early_.erase(id);
    }
    return start(*engine, id);
}

Done ProcessSets::start(ProcessSetEngine& engine, int id) {
    Done started = catching([&]() -> Done {
        engine.start();
        return {};
    });
    if (started) return {};
    const std::lock_guard lock(mutex_);
    sets_[static_cast<std::size_t>(id)] = Set{};
    serving_[static_cast<std::size_t>(id)] = nullptr;
    private_.erase(id);
    return started;
}

bool ProcessSets::is_free(int id) {
    if (id < first_private || id >= most) return false;
    let_go_of_closed();
    const std::lock_guard lock(mutex_);
    return !private_.contains(id);
}

void ProcessSets::member_closed(int id, int rank) {
    const std::lock_guard lock(mutex_);
    const auto found = private_.find(id);
    if (found == private_.end())
        closed_early_[id].insert(rank);
    else
        found->second->member_closed(rank);
}

Done ProcessSets::close(int id) {
    if (id < first_private)
        return invalid(
            fmt::format("process set {} is known to all ranks, which remove it together", id));
    TRY(remove(id));
    return {};
}

Outcome<int> ProcessSets::remove(int id) {
    ProcessSetEngine* engine = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (id == MPIB_WORLD) return invalid("the world cannot be removed");
        if (id < 0 || id >= most || sets_[static_cast<std::size_t>(id)].ranks.empty())
            return invalid(fmt::format("process set {} is unknown", id));
        engine = sets_[static_cast<std::size_t>(id)].engine;
        sets_[static_cast<std::size_t>(id)] = Set{};
        serving_[static_cast<std::size_t>(id)] = nullptr;
    }
    if (engine == nullptr) return id;
    if (id < first_private)
        engine->close();
    else
        engine->retire();
    let_go_of_closed();
    const std::lock_guard lock(mutex_);
    closed_.push_back(engine);
    return id;
}

void ProcessSets::let_go_of_closed() {
    std::vector<ProcessSetEngine*> closed;
    {
        const std::lock_guard lock(mutex_);
        closed.swap(closed_);
    }
    std::vector<int> free;
    std::erase_if(closed, [&](ProcessSetEngine* each) {
        if (!each->let_go()) return false;
        free.push_back(each->process_set());
        return true;
    });
    const std::lock_guard lock(mutex_);
    for (const int id : free)
        private_.erase(id);
    closed_.insert(closed_.end(), closed.begin(), closed.end());
}

std::optional<int> ProcessSets::own_index(int id) const {
    const std::lock_guard lock(mutex_);
    if (id < 0 || id >= most || sets_[static_cast<std::size_t>(id)].ranks.empty())
        return std::nullopt;
    return sets_[static_cast<std::size_t>(id)].own_index;
}

std::optional<std::vector<int>> ProcessSets::ranks(int id) const {
    const std::lock_guard lock(mutex_);
    if (id < 0 || id >= most || sets_[static_cast<std::size_t>(id)].ranks.empty())
        return std::nullopt;
    return sets_[static_cast<std::size_t>(id)].ranks;
}

std::vector<int> ProcessSets::ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ids;
    for (int id = 0; id < most; ++id) {
        if (!sets_[static_cast<std::size_t>(id)].ranks.empty()) ids.push_back(id);
    }
    return ids;
}

std::vector<ProcessSetEngine*> ProcessSets::all() {
    const std::lock_guard lock(mutex_);
    std::vector<ProcessSetEngine*> all;
    for (const auto& each : engines_)
        all.push_back(each.get());
    return all;
}

void ProcessSets::start() {
    for (ProcessSetEngine* each : all())
        each->start();
}

void ProcessSets::shutdown(const Failure& cause) {
    {
        const std::lock_guard lock(mutex_);
        shutdown_ = cause;
    }
    for (ProcessSetEngine* each : all())
        each->shutdown(cause);
}

bool ProcessSets::ended(Deadline deadline) {
    bool all_ended = true;
    for (ProcessSetEngine* each : all())
        all_ended = each->ended(deadline) && all_ended;
    return all_ended;
}

}  // namespace mpi_bridge
