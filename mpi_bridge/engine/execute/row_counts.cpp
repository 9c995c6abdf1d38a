// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/row_counts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "collectives/chunks.hpp"
#include "core/parts.hpp"

namespace mpi_bridge {
namespace {

std::int64_t sum(std::span<const std::int64_t> values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

// What the members tell each other.
struct MemberRows {
    std::int64_t length = 0;  // in rows or in bytes
    std::uint64_t room = 0;   // bytes that its recv can hold
    // Of an alltoall: bytes of the longest message that it sends, and of all that it sends.
    std::uint64_t longest = 0;
    std::uint64_t sent = 0;
};

Outcome<std::vector<MemberRows>> gather_member_rows(Communicator& communicator,
                                                    const Communicator::Call& call,
                                                    const MemberRows& own) {
    std::vector<MemberRows> members(static_cast<std::size_t>(communicator.group().size()));
    members[static_cast<std::size_t>(communicator.group().own)] = own;
    const std::vector<std::int64_t> one_each(members.size(), 1);
    auto* memory = reinterpret_cast<std::byte*>(members.data());
    TRY(communicator.allgather(call, cut(memory, one_each, sizeof(MemberRows))));
    return members;
}

// Returns at most what a signed number can hold, which is more than any memory has.
std::size_t bytes_of_result(const OwnRequest& request) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    const std::size_t bytes_each = row_bytes(request.descriptor);
    const auto rows = static_cast<std::size_t>(request.result_rows);
    return bytes_each != 0 && rows > most / bytes_each ? most : rows * bytes_each;
}

// All members see the same numbers, so either all of them fail or none does.
Done check_room_of_members(const Communicator& communicator, const Communicator::Call& call,
                           std::span<const MemberRows> members, OwnRequest& request) {
    for (std::size_t member = 0; member < members.size(); ++member) {
        const auto needed = static_cast<std::uint64_t>(members[member].length);
        if (needed <= members[member].room) continue;
        request.refusal =
            Failure{MPIB_ERROR_MISMATCH,
                    fmt::format("{}: the result has {} bytes on rank {}, where recv can hold {} "
                                "(recv_bytes)",
                                call.name, needed, communicator.group().ranks[member],
                                members[member].room)};
        return tl::unexpected(*request.refusal);
    }
    return {};
}

}  // namespace

Done gather_row_counts(Communicator& communicator, const Communicator::Call& call,
                       OwnRequest& request) {
    auto members =
        TRY(gather_member_rows(communicator, call, {.length = request.rows, .room = request.room}));
    request.received_rows.clear();
    for (const MemberRows& member : members)
        request.received_rows.push_back(member.length);
    request.result_rows = sum(request.received_rows);
    const std::size_t bytes = bytes_of_result(request);
    for (MemberRows& member : members)
        member.length = static_cast<std::int64_t>(bytes);
    return check_room_of_members(communicator, call, members, request);
}

std::vector<std::int64_t> splits_of(const OwnRequest& request, int members) {
    if (!request.splits.empty()) return request.splits;
    return std::vector<std::int64_t>(static_cast<std::size_t>(members), request.rows / members);
}

std::vector<std::size_t> scatter_counts(const OwnRequest& request, int members) {
    std::vector<std::size_t> counts;
    for (int member = 0; member < members; ++member) {
        const Slice part = even_slice(static_cast<std::size_t>(request.rows), members, member);
        counts.push_back(part.length * row_elements(request.descriptor));
    }
    return counts;
}

Outcome<MessageLengths> exchange_row_counts(Communicator& communicator,
                                            const Communicator::Call& call,
                                            std::span<const std::int64_t> splits,
                                            OwnRequest& request) {
    request.received_rows.assign(splits.size(), 0);
    const std::vector<std::int64_t> one_each(splits.size(), 1);
    const auto* to = reinterpret_cast<const std::byte*>(splits.data());
    auto* from = reinterpret_cast<std::byte*>(request.received_rows.data());
    TRY(communicator.alltoall(call, cut(to, one_each, sizeof(std::int64_t)),
                              cut(from, one_each, sizeof(std::int64_t)),
                              MessageLengths{.longest = sizeof(std::int64_t), .equal = true}));
    request.result_rows = sum(request.received_rows);
    // Only the receiver knows how long its result is.
    const auto own = static_cast<std::int64_t>(bytes_of_result(request));
    const auto most_rows =
        static_cast<std::uint64_t>(*std::max_element(splits.begin(), splits.end()));
    const std::uint64_t bytes_each = row_bytes(request.descriptor);
    const auto members =
        TRY(gather_member_rows(communicator, call,
                               {.length = own,
                                .room = request.room,
                                .longest = most_rows * bytes_each,
                                .sent = static_cast<std::uint64_t>(sum(splits)) * bytes_each}));
    TRY(check_room_of_members(communicator, call, members, request));
    MessageLengths lengths;
    for (const MemberRows& member : members) {
        const auto received = static_cast<std::size_t>(member.length);
        lengths.longest = std::max<std::size_t>(lengths.longest, member.longest);
        lengths.most_in_all = std::max({lengths.most_in_all, received, std::size_t{member.sent}});
    }
    return lengths;
}

}  // namespace mpi_bridge
