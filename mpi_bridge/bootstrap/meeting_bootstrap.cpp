// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <sys/stat.h>

#include "bootstrap/bootstrap.hpp"
#include "core/this_host.hpp"

namespace mpi_bridge {
namespace {

using Value = std::vector<std::byte>;

// One exchange: what each rank has given, as the program hands it over.
struct Received {
    std::vector<std::optional<Value>> of_ranks;

    static void take(void* receiver, int rank, const void* data, std::size_t bytes) {
        auto& all = static_cast<Received*>(receiver)->of_ranks;
        if (rank < 0 || static_cast<std::size_t>(rank) >= all.size()) return;
        const auto* const first = static_cast<const std::byte*>(data);
        all[static_cast<std::size_t>(rank)].emplace(first, first + bytes);
    }
};

Outcome<std::vector<Value>> exchange(const mpib_meeting& meeting, std::span<const std::byte> own,
                                     Deadline deadline) {
    Received received;
    received.of_ranks.resize(static_cast<std::size_t>(meeting.size));
    const double seconds = std::max(Seconds(deadline.when() - Clock::now()).count(), 0.001);
    const int result = meeting.exchange(meeting.context, own.data(), own.size(), seconds,
                                        &Received::take, &received);
    if (result != 0) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "rank " + std::to_string(meeting.rank) +
                        ": the exchange with the other ranks by means of the program has failed");
    }
    std::vector<Value> all;
    for (auto& each : received.of_ranks) {
        if (!each) {
            return fail(MPIB_ERROR_BOOTSTRAP, "rank " + std::to_string(meeting.rank) +
                                                  ": the program's exchange handed "
                                                  "over nothing of rank " +
                                                  std::to_string(all.size()));
        }
        all.push_back(std::move(*each));
    }
    return all;
}

// What the ranks that can share memory have in common: the kernel, the host's name, and the file
// system of shared memory, which containers of one host may have each for themselves.
std::string own_host() {
    struct stat memory {};
    const bool has_memory = stat("/dev/shm", &memory) == 0;
    return boot_id() + " " + host_name() + " " + (has_memory ? std::to_string(memory.st_dev) : "");
}

class MeetingBootstrap final : public Bootstrap {
  public:
    MeetingBootstrap(const mpib_meeting& meeting, Topology topology)
        : meeting_(meeting), topology_(std::move(topology)) {}

    [[nodiscard]] const Topology& topology() const override { return topology_; }

    [[nodiscard]] Done publish(const std::string& key, std::span<const std::byte> value,
                               Deadline deadline,
                               const std::function<bool()>& /*given_up*/) override {
        published_[key] = TRY(exchange(meeting_, value, deadline));
        return {};
    }

    [[nodiscard]] Outcome<Value> fetch(const std::string& key, int rank, Deadline /*deadline*/,
                                       const std::function<bool()>& /*given_up*/) override {
        const auto found = published_.find(key);
        if (found == published_.end() || rank < 0 || rank >= meeting_.size)
            return fail(MPIB_ERROR_BOOTSTRAP,
                        "rank " + std::to_string(rank) + " has published no " + key);
        return found->second[static_cast<std::size_t>(rank)];
    }

    // There is nobody to ask. The other ranks notice that the connections of this one break.
    void abort(int /*code*/, const std::string& /*message*/) override {}

  private:
    const mpib_meeting meeting_;
    const Topology topology_;
    std::map<std::string, std::vector<Value>> published_;
};

Outcome<Topology> topology_of(const mpib_meeting& meeting, Deadline deadline) {
    const std::string own = own_host();
    const auto hosts = TRY(exchange(meeting, std::as_bytes(std::span(own)), deadline));
    std::map<Value, std::vector<int>> ranks_of_host;
    for (int rank = 0; rank < meeting.size; ++rank)
        ranks_of_host[hosts[static_cast<std::size_t>(rank)]].push_back(rank);
    std::vector<std::vector<int>> lists;
    lists.reserve(ranks_of_host.size());
    for (auto& [host, ranks] : ranks_of_host)
        lists.push_back(std::move(ranks));
    return make_topology(meeting.rank, std::move(lists));
}

}  // namespace

Outcome<std::unique_ptr<Bootstrap>> connect_by(const mpib_meeting& meeting, Deadline deadline) {
    if (meeting.struct_bytes != sizeof meeting || meeting.exchange == nullptr || meeting.size < 1 ||
        meeting.rank < 0 || meeting.rank >= meeting.size) {
        return invalid(
            "mpib_init_with: the struct_bytes, the rank, the size or the exchange of the "
            "meeting is wrong");
    }
    auto topology = TRY(topology_of(meeting, deadline));
    return std::make_unique<MeetingBootstrap>(meeting, std::move(topology));
}

}  // namespace mpi_bridge
