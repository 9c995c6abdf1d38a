// SPDX-License-Identifier: Apache-2.0
#include "nccl_communicator.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>

#include <unistd.h>

namespace mpi_bridge::nccl {

using namespace standin;

// ---- Waiting for peers -------------------------------------------------------------------------

bool CommunicatorRecord::peer_is_lost() const {
    if (!connecting_ && Plan::get().setting("notice") == 0) return false;
    for (int other = 0; other < size; ++other) {
        const auto& seat = segment_->seats[static_cast<std::size_t>(other)];
        const int process = seat.process;
        if (seat.gone != 0 || (process != 0 && kill(process, 0) != 0 && errno == ESRCH)) {
            return true;
        }
    }
    return false;
}

void CommunicatorRecord::await(const std::function<bool()>& reached) {
    constexpr int looks_without_pause = 50;
    for (int looks = 0; !reached(); ++looks) {
        if (stopped_) throw Stopped();
        if (looks < looks_without_pause) {
            std::this_thread::yield();
            continue;
        }
        if (looks % 50 == 0 && peer_is_lost() && !reached()) {
            fault_ = remote_error;
            throw Stopped();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

namespace {

std::string text_of(const Deed& deed) {
    return "kind " + std::to_string(deed.kind) + " of " + std::to_string(deed.count) + " x type " +
           std::to_string(deed.type) + " (op " + std::to_string(deed.op) + ", root " +
           std::to_string(deed.root) + ")";
}

}  // namespace

// All ranks come to the same meeting, and mean the same by it.
void CommunicatorRecord::meet(const Deed& deed) {
    auto& own = segment_->seats[static_cast<std::size_t>(rank)];
    // A rank may be one meeting ahead of this one, but not two.
    const std::size_t page = ++meetings_ % 2;
    own.deeds[page] = deed;
    own.met = meetings_;
    for (int other = 0; other < size; ++other) {
        const auto& seat = segment_->seats[static_cast<std::size_t>(other)];
        await([&] { return seat.met >= meetings_; });
        if (!(seat.deeds[page] == deed)) {
            misuse("the ranks of a communicator make different calls: in call " +
                   std::to_string(meetings_) + " rank " + std::to_string(rank) + " makes " +
                   text_of(deed) + ", rank " + std::to_string(other) + " " +
                   text_of(seat.deeds[page]));
        }
    }
}

Result CommunicatorRecord::meet_hosts() {
    segment_->seats[static_cast<std::size_t>(rank)].connected = ++host_meetings_;
    for (int other = 0; other < size; ++other) {
        const auto& seat = segment_->seats[static_cast<std::size_t>(other)];
        await([&] { return seat.connected >= host_meetings_; });
    }
    return success;
}

// ---- Calls -------------------------------------------------------------------------------------

Result CommunicatorRecord::in_background(Plan::Fate fate, Job job, Stream* stream) {
    if (stream != nullptr) stream->begin_nccl();
    const auto whole = [this, fate, stream, work = std::move(job)]() -> Result {
        struct Ending {
            Stream* stream;
            ~Ending() {
                if (stream != nullptr) stream->end_nccl();
            }
        } const ending{stream};
        try {
            Plan::get().pause(1000 + static_cast<std::uint64_t>(rank), ++steps_);
            if (fate.how == Plan::How::hangs) await([] { return false; });
            if (fate.how == Plan::How::fails_later) return static_cast<Result>(fate.code);
            return work();
        } catch (const Stopped&) {
            return fault_ != 0 ? static_cast<Result>(fault_.load()) : invalid_usage;
        }
    };
    if (blocking || (size == 1 && fate.how == Plan::How::well)) {
        const Result done = whole();
        if (done != success) fault_ = done;
        return done;
    }
    working_ = true;
    job_ = std::thread([this, whole] {
        const Result done = whole();
        if (done != success) fault_ = done;
        working_ = false;
    });
    return in_progress;
}

Result CommunicatorRecord::ready() {
    if (working_ || job_.joinable()) return invalid_argument;
    return static_cast<Result>(fault_.load());
}

Result CommunicatorRecord::state() {
    if (working_) return in_progress;
    if (job_.joinable()) job_.join();
    if (fault_ == 0 && device.fault != 0) fault_ = unhandled_cuda_error;
    return static_cast<Result>(fault_.load());
}

Result CommunicatorRecord::connect(const std::string& path, Plan::Fate fate) {
    segment_ = map_segment(path);
    if (segment_ == nullptr) return invalid_argument;
    return in_background(fate, [this, path] { return join_ranks(path); });
}

Result CommunicatorRecord::join_ranks(const std::string& path) {
    int expected = 0;
    if (!segment_->size.compare_exchange_strong(expected, size) && expected != size) {
        return invalid_argument;
    }
    // What NCCL allocates waits for the device.
    if (Plan::get().setting("idle") != 0) device.wait_until_idle();
    auto& seat = segment_->seats[static_cast<std::size_t>(rank)];
    seat.uuid.fill(0x42);
    seat.uuid[15] = static_cast<char>(device.ordinal);
    if (const char* host = std::getenv("NCCL_HOSTID"); host != nullptr) {
        std::strncpy(seat.host.data(), host, seat.host.size() - 1);
    }
    expected = 0;
    if (!seat.process.compare_exchange_strong(expected, getpid())) return invalid_usage;
    // Who gives up while the ranks connect closes its sockets, which the others notice.
    connecting_ = true;
    meet_hosts();
    connecting_ = false;
    // The last that has come has seen all others.
    if (rank == 0) static_cast<void>(unlink(path.c_str()));
    const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    std::set<std::pair<std::array<char, 64>, std::array<char, 16>>> devices;
    for (int other = 0; other < size; ++other) {
        const auto& each = segment_->seats[static_cast<std::size_t>(other)];
        devices.emplace(each.host, each.uuid);
    }
    const bool may_share = shared != nullptr && std::strcmp(shared, "1") == 0;
    return static_cast<int>(devices.size()) == size || may_share ? success : invalid_usage;
}

Result CommunicatorRecord::enqueue(std::vector<Operation> operations, Plan::Fate fate) {
    Stream* const stream = operations.front().stream;
    unsigned kinds = 0;
    for (const Operation& each : operations)
        kinds |= 1U << static_cast<unsigned>(each.kind);
    const auto job = [this, stream, kinds, all = std::move(operations)] {
        // The first collective of a kind makes connections, which takes all ranks.
        constexpr unsigned messages =
            1U << static_cast<unsigned>(Kind::send) | 1U << static_cast<unsigned>(Kind::recv);
        if ((kinds & ~messages & ~kinds_connected_) != 0) {
            meet_hosts();
            kinds_connected_ |= kinds;
        }
        const std::lock_guard lock(mutex_);
        std::erase_if(ends_, [](const PointRef& end) { return end->reached(); });
        ends_.push_back(stream->put_as_nccl([this, all] { run_kernel(all); }));
        return success;
    };
    return in_background(fate, job, stream);
}

Result CommunicatorRecord::finalize(Plan::Fate fate) {
    return in_background(fate, [this]() -> Result {
        for (const PointRef& end : ends_)
            await([&] { return end->reached(); });
        return meet_hosts();
    });
}

void CommunicatorRecord::stop() {
    stopped_ = true;
}

void CommunicatorRecord::reclaim(bool in_good_order) {
    if (job_.joinable()) job_.join();
    for (const PointRef& end : ends_)
        end->wait();
    if (segment_ != nullptr && !in_good_order) {
        segment_->seats[static_cast<std::size_t>(rank)].gone = 1;
    }
    // What NCCL frees waits for everything on the device.
    if (Plan::get().setting("idle") != 0) device.wait_until_idle();
    if (segment_ != nullptr) unmap_segment(segment_);
    segment_ = nullptr;
}

}  // namespace mpi_bridge::nccl
