// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/pending_table.hpp"

namespace mpi_bridge {

// A name that this rank uses: the state of its latest request, and what is remembered to make the
// next one fast.
struct OwnRequest {
    enum class Stage : std::uint8_t {
        free,     // no request is in flight
        waiting,  // submitted; it waits for other tensors, other ranks, or its turn
        running,  // a thread runs its collective and uses its memory
        done,     // stays so until it is released
    };

    std::string name;
    Stage stage = Stage::free;
    Descriptor descriptor;     // of the latest request
    std::uint64_t number = 0;  // counts this rank's submissions
    // At its submission: serial number of the latest execution whose end this rank had seen.
    std::uint64_t after = 0;

    // State of the negotiation.
    PendingTable::Id id = PendingTable::none;
    bool settled = false;    // the record of `id` is settled with what this rank means
    bool announced = false;  // the other members have heard what this rank means
    bool reported = false;   // the other members know that it is submitted here

    // State in the plan.
    bool planned = false;  // it waits in the plan, so the other members need not be told
    int bucket = -1;       // the plan's bucket that contains this name; -1: none

    // State of its latest execution.
    std::uint64_t serial = 0;
    std::uint64_t executed_after = 0;  // `after` of the request that was executed
};

// The names that this rank uses in a process set, which can be found by name, by index, and by
// their number in the pending table. A name keeps its index until it is forgotten, or the index is
// retired.
class RequestTable {
  public:
    using Index = std::uint32_t;
    static constexpr Index none = ~Index{0};
    static constexpr std::size_t most = (std::size_t{1} << 24) - 1;

    [[nodiscard]] OwnRequest& at(Index index) { return requests_[index]; }
    [[nodiscard]] const OwnRequest& at(Index index) const { return requests_[index]; }
    // All indices in use are below this.
    [[nodiscard]] Index size() const { return static_cast<Index>(requests_.size()); }

    [[nodiscard]] Index find(std::string_view name) const;
    // The name must be new. Returns `none` if there are too many names.
    [[nodiscard]] Index add(std::string_view name);

    // Returns the index of the name with this number, or `none` if this rank does not use it.
    [[nodiscard]] Index of(PendingTable::Id id) const {
        return id < by_id_.size() ? by_id_[id] : none;
    }
    void link(Index index, PendingTable::Id id);
    // The pending table has forgotten the number. The name is forgotten too if it has no request in
    // flight.
    void unlink(PendingTable::Id id);
    // The request has been released. The name is forgotten if the pending table does not know it.
    void released(Index index);
    // Never gives the index to a name again. Its own name, if it is still known, gets another
    // index; its request must have been released.
    void retire(Index index);

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>()(text);
        }
    };

    void forget(Index index);
    // Returns an index that is not in use, or `none`.
    [[nodiscard]] Index take_index();

    std::deque<OwnRequest> requests_;
    std::vector<Index> unused_;
    std::unordered_map<std::string, Index, Hash, std::equal_to<>> by_name_;
    std::vector<Index> by_id_;
};

}  // namespace mpi_bridge
