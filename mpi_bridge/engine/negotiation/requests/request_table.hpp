// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/negotiation/requests/own_request.hpp"
#include "engine/negotiation/requests/pending_table.hpp"

namespace mpi_bridge {

// The names that this rank uses in a process set, which can be found by name, by index, and by
// their number in the pending table. A name keeps its index until it is forgotten, or the index is
// retired.
class RequestTable {
  public:
    using Index = std::uint32_t;
    static constexpr Index none = ~Index{0};
    static constexpr std::size_t most = (std::size_t{1} << 24) - 1;

    // Handles to a new index begin with this generation.
    explicit RequestTable(std::uint32_t first_generation = 0)
        : first_generation_(first_generation) {}

    [[nodiscard]] OwnRequest& at(Index index) { return requests_[index]; }
    [[nodiscard]] const OwnRequest& at(Index index) const { return requests_[index]; }
    // All indices in use are below this.
    [[nodiscard]] Index size() const { return static_cast<Index>(requests_.size()); }
    [[nodiscard]] auto begin() { return requests_.begin(); }
    [[nodiscard]] auto end() { return requests_.end(); }
    [[nodiscard]] auto begin() const { return requests_.begin(); }
    [[nodiscard]] auto end() const { return requests_.end(); }

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
    // Leaves nothing at the index but its generation, and returns what was there.
    OwnRequest clear(Index index);
    // Returns an index that is not in use, or `none`.
    [[nodiscard]] Index take_index();

    std::uint32_t first_generation_;
    std::deque<OwnRequest> requests_;
    std::vector<Index> unused_;
    std::unordered_map<std::string, Index, Hash, std::equal_to<>> by_name_;
    std::vector<Index> by_id_;
};

}  // namespace mpi_bridge
