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

#include "engine/negotiation/descriptor.hpp"
#include "engine/negotiation/request.hpp"

namespace mpi_bridge {

// The names that the members of a process set know by number. Every member keeps one and feeds it
// with the same requests in the same order, so that the numbers are the same everywhere.
//
// A name is settled once all members have said that it means the same; from then on a bit per
// member is all that is needed to agree on it. Until then it is open, and each member announces
// what the name means to it. A member that has something else to say of a settled name opens it
// again, and all must speak once more.
//
// Only the latest `capacity` names are kept, so that a program that never uses a name twice does
// not use ever more memory; who uses a forgotten name announces it again.
class PendingTable {
  public:
    using Id = std::uint32_t;
    static constexpr Id none = ~Id{0};
    static constexpr std::size_t usual_capacity = 4096;

    struct Record {
        std::string name;  // empty: the number is not in use
        bool settled = false;
        Descriptor descriptor;             // once settled
        std::vector<Claim> claims;         // until then
        std::vector<std::uint64_t> heard;  // bit per member that has announced
        std::uint64_t last_executed = 0;   // serial number of an execution
        int plan_breaks = 0;               // how often a plan was left because of it
    };

    explicit PendingTable(int members, std::size_t capacity = usual_capacity)
        : members_(members), capacity_(capacity) {}

    // Numbers in use are below this.
    [[nodiscard]] std::size_t size() const { return records_.size(); }
    [[nodiscard]] const Record& at(Id id) const { return records_[id]; }
    [[nodiscard]] Id find(std::string_view name) const;

    // Takes down what a member announced. A settled name is open after that.
    Id hear(int member, int global_rank, const NamedRequest& announcement);

    // The same from every member.
    Id hear_from_all(const NamedRequest& announcement, const std::vector<int>& global_ranks);

    // An open name of which all members but those of `absent` (bit per member) have been heard.
    [[nodiscard]] bool is_complete(Id id, const std::vector<std::uint64_t>& absent) const;

    // Settles a complete name. Where the claims disagree it stays open, without claims, and the
    // text for all ranks is returned.
    [[nodiscard]] std::optional<std::string> settle(Id id);

    void executed(Id id, std::uint64_t serial) { records_[id].last_executed = serial; }
    void plan_broken_by(Id id) { ++records_[id].plan_breaks; }

    // Forgets the least recently executed names if there are too many; not those that members have
    // announced and are waiting for, nor those that are `kept`. Returns the numbers.
    std::vector<Id> forget(const std::function<bool(Id)>& kept);

  private:
    [[nodiscard]] Id add(const std::string& name);

    int members_;
    std::size_t capacity_;
    std::vector<Record> records_;
    std::vector<Id> unused_;  // the last is taken first
    std::unordered_map<std::string, Id> ids_;
};

}  // namespace mpi_bridge
