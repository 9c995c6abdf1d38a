// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/named_request.hpp"

namespace mpi_bridge {

// The names that the members of a process set know by number. Every member keeps such a table and
// feeds it with the same requests in the same order, so that the numbers are the same everywhere.
//
// A name is settled once all members have announced the same descriptor for it; from then on one
// bit per member is enough to agree on it. Until then it is open, and each member announces what
// the name means to it. A member for which a settled name has a new meaning opens it again, and all
// members must announce it once more.
//
// Only the latest `capacity` names are kept, so that memory does not grow in a program that never
// uses a name twice. A forgotten name is announced again when it is used.
class PendingTable {
  public:
    using Id = std::uint32_t;
    static constexpr Id none = ~Id{0};
    static constexpr std::size_t usual_capacity = 4096;

    struct Record {
        std::string name;  // empty: the number is unused
        bool settled = false;
        Descriptor descriptor;             // once settled
        std::vector<Claim> claims;         // until then
        std::vector<std::uint64_t> heard;  // a bit for each member that has announced
        std::uint64_t last_executed = 0;   // serial number of its latest execution
        int plan_breaks = 0;               // how often a plan was left because of it
    };

    explicit PendingTable(int members, std::size_t capacity = usual_capacity)
        : members_(members), capacity_(capacity) {}

    // All numbers in use are below this.
    [[nodiscard]] std::size_t size() const { return records_.size(); }
    [[nodiscard]] const Record& at(Id id) const { return records_[id]; }
    [[nodiscard]] Id find(std::string_view name) const;

    // Records what a member announced, and opens the name.
    Id hear(int member, int global_rank, const NamedRequest& announcement);

    // Records the same announcement from every member.
    Id hear_from_all(const NamedRequest& announcement, const std::vector<int>& global_ranks);

    // Whether the name is open and all members but those of `absent` (a bit per member) have
    // announced it.
    [[nodiscard]] bool is_complete(Id id, const std::vector<std::uint64_t>& absent) const;

    // Settles a complete name. If the claims disagree, the name stays open and loses its claims,
    // and the text for all ranks is returned.
    [[nodiscard]] std::optional<std::string> settle(Id id);

    void executed(Id id, std::uint64_t serial) { records_[id].last_executed = serial; }
    void plan_broken_by(Id id) { ++records_[id].plan_breaks; }

    // Forgets the least recently executed names if there are too many, except those that members
    // have announced and still wait for, and those that are `kept`. Returns their numbers.
    std::vector<Id> forget(const std::function<bool(Id)>& kept);

  private:
    [[nodiscard]] Id add(const std::string& name);

    int members_;
    std::size_t capacity_;
    std::vector<Record> records_;
    std::vector<Id> unused_;  // the last one is used first
    std::unordered_map<std::string, Id> ids_;
};

}  // namespace mpi_bridge
