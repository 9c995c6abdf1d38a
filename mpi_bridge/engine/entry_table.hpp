// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/entry.hpp"

namespace mpi_bridge {

// The entries of a process set on this rank, by name, by handle and by the ledger's number. An
// entry keeps its place for good; its index is used again once its name is forgotten.
class EntryTable {
  public:
    using Index = std::uint32_t;
    static constexpr Index none = ~Index{0};
    static constexpr std::size_t most = (std::size_t{1} << Handle::entry_bits) - 1;

    [[nodiscard]] Entry& at(Index index) { return entries_[index]; }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

    [[nodiscard]] Index find(std::string_view name) const {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? none : found->second;
    }
    // The name must be new. `none` when there are too many.
    [[nodiscard]] Index add(std::string_view name);

    // The entry in use under this handle; nullptr: there is none.
    [[nodiscard]] Entry* find(const Handle& handle);

    // The entry of that number in the ledger; nullptr: this rank has none.
    [[nodiscard]] Entry* of(Ledger::Id id);
    void link(Index index, Ledger::Id id);
    // The ledger has forgotten the number. Forgets the name too when no operation is in flight.
    void unlink(Ledger::Id id);
    // The operation has been released; forgets the name if the ledger does not know it.
    void released(Index index);

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>()(text);
        }
    };

    void forget(Index index);

    std::deque<Entry> entries_;
    std::vector<Index> unused_;
    std::unordered_map<std::string, Index, Hash, std::equal_to<>> by_name_;
    std::vector<Index> by_id_;
};

}  // namespace mpi_bridge
