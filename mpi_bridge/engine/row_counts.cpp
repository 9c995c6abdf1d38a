// SPDX-License-Identifier: Apache-2.0
#include "engine/row_counts.hpp"

#include <numeric>

namespace mpi_bridge {
namespace {

std::int64_t sum(std::span<const std::int64_t> values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace

Done gather_row_counts(Communicator& communicator, const Communicator::Call& call, Entry& entry) {
    const auto members = static_cast<std::size_t>(communicator.group().size());
    entry.received_rows.assign(members, 0);
    entry.received_rows[static_cast<std::size_t>(communicator.group().own)] = entry.rows;
    const std::vector<std::int64_t> one_each(members, 1);
    auto* rows = reinterpret_cast<std::byte*>(entry.received_rows.data());
    auto done = communicator.allgather(call, cut_rows<Bytes>(rows, one_each, sizeof(std::int64_t)));
    if (done) entry.result_rows = sum(entry.received_rows);
    return done;
}

std::vector<std::int64_t> splits_of(const Entry& entry, int members) {
    if (!entry.splits.empty()) return entry.splits;
    return std::vector<std::int64_t>(static_cast<std::size_t>(members), entry.rows / members);
}

Done exchange_row_counts(Communicator& communicator, const Communicator::Call& call,
                         std::span<const std::int64_t> splits, Entry& entry) {
    entry.received_rows.assign(splits.size(), 0);
    const std::vector<std::int64_t> one_each(splits.size(), 1);
    const auto* to = reinterpret_cast<const std::byte*>(splits.data());
    auto* from = reinterpret_cast<std::byte*>(entry.received_rows.data());
    auto done =
        communicator.alltoall(call, cut_rows<ConstBytes>(to, one_each, sizeof(std::int64_t)),
                              cut_rows<Bytes>(from, one_each, sizeof(std::int64_t)));
    if (done) entry.result_rows = sum(entry.received_rows);
    return done;
}

}  // namespace mpi_bridge
