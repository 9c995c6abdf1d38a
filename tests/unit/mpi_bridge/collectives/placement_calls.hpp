// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hosts.hpp"
#include "ranks.hpp"

// One call of each collective with known data, checked on every rank. They return what crossed the
// network.
namespace mpi_bridge_test {

using mpi_bridge::Communicator;

inline std::size_t own(const Communicator& all) {
    return static_cast<std::size_t>(all.group().own);
}

template <typename T>
const Traffic& check_allreduce(Hosts& hosts, std::size_t count, mpib_datatype datatype, mpib_op op,
                               bool in_place = false) {
    const auto& reduction = *mpi_bridge::find_reduction(datatype, op);
    const auto data = make_data<T>(hosts.size(), count);
    std::vector<std::vector<T>> results(data.size(), poisoned<T>(count));
    if (in_place) results = data;
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        const std::byte* send = in_place ? in(results[own(all)]) : in(data[own(all)]);
        return all.allreduce(Hosts::call(), reduction, send, out(results[own(all)]), count);
    });
    expect_reduced(results[0], 0, data, op);
    for (const auto& result : results)
        EXPECT_TRUE(same_bits(result, results[0])) << "ranks differ in bits";
    return traffic;
}

template <typename T>
const Traffic& check_reduce(Hosts& hosts, std::size_t count, mpib_datatype datatype, mpib_op op,
                            int root, bool in_place = false) {
    const auto& reduction = *mpi_bridge::find_reduction(datatype, op);
    const auto data = make_data<T>(hosts.size(), count);
    auto result = in_place ? data[static_cast<std::size_t>(root)] : poisoned<T>(count);
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        const bool is_root = all.group().own == root;
        const std::byte* send = is_root && in_place ? in(result) : in(data[own(all)]);
        return all.reduce(Hosts::call(), reduction, send, is_root ? out(result) : nullptr, count,
                          root);
    });
    expect_reduced(result, 0, data, op);
    return traffic;
}

// Member m gets count, count / 2 or nothing.
inline std::vector<std::size_t> uneven_counts(int size, std::size_t count) {
    std::vector<std::size_t> parts;
    for (int member = 0; member < size; ++member)
        parts.push_back(member % 3 == 0 ? count : member % 3 == 1 ? count / 2 : 0);
    return parts;
}

template <typename T>
const Traffic& check_reduce_scatter(Hosts& hosts, const std::vector<std::size_t>& parts,
                                    mpib_datatype datatype, mpib_op op) {
    const auto& reduction = *mpi_bridge::find_reduction(datatype, op);
    const auto total = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    const auto data = make_data<T>(hosts.size(), total);
    std::vector<std::vector<T>> results;
    for (const std::size_t count : parts)
        results.push_back(poisoned<T>(count));
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        return all.reduce_scatter(Hosts::call(), reduction, in(data[own(all)]),
                                  out(results[own(all)]), parts);
    });
    std::size_t offset = 0;
    for (std::size_t member = 0; member < parts.size(); ++member) {
        expect_reduced(results[member], offset, data, op);
        offset += parts[member];
    }
    return traffic;
}

// Parts side by side in the order of members, or with gaps between them.
inline const Traffic& check_allgather(Hosts& hosts, const std::vector<std::size_t>& lengths,
                                      std::size_t gap) {
    std::vector<std::size_t> starts;
    std::size_t total = 0;
    for (const std::size_t length : lengths) {
        starts.push_back(total);
        total += length + gap;
    }
    const auto whole = random_values<std::uint8_t>(total, total);
    auto expected = poisoned<std::uint8_t>(total);
    std::vector<std::vector<std::uint8_t>> buffers(lengths.size(), expected);
    for (std::size_t member = 0; member < lengths.size(); ++member) {
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(starts[member]), lengths[member],
                    expected.begin() + static_cast<std::ptrdiff_t>(starts[member]));
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(starts[member]), lengths[member],
                    buffers[member].begin() + static_cast<std::ptrdiff_t>(starts[member]));
    }
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        std::vector<Bytes> parts;
        for (std::size_t member = 0; member < lengths.size(); ++member) {
            parts.push_back(
                Bytes(out(buffers[own(all)]), total).subspan(starts[member], lengths[member]));
        }
        return all.allgather(Hosts::call(), parts);
    });
    for (const auto& buffer : buffers)
        EXPECT_EQ(buffer, expected);
    return traffic;
}

inline const Traffic& check_broadcast(Hosts& hosts, std::size_t count, int root) {
    const auto expected = random_values<std::uint8_t>(count, count);
    std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(hosts.size()),
                                                   poisoned<std::uint8_t>(count));
    buffers[static_cast<std::size_t>(root)] = expected;
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        return all.broadcast(Hosts::call(), Bytes(out(buffers[own(all)]), count), root);
    });
    for (const auto& buffer : buffers)
        EXPECT_EQ(buffer, expected);
    return traffic;
}

// length(from, to) bytes go from one member to another.
using MessageLength = std::function<std::size_t(std::size_t from, std::size_t to)>;
inline const Traffic& check_alltoall(Hosts& hosts, const MessageLength& length,
                                     std::optional<mpi_bridge::MessageLengths> known = {}) {
    const auto ranks = static_cast<std::size_t>(hosts.size());
    const auto message = [&](std::size_t from, std::size_t to) {
        return random_values<std::uint8_t>(length(from, to), from * 64 + to);
    };
    std::vector<std::vector<std::vector<std::uint8_t>>> received(ranks);
    const Traffic& traffic = hosts.run([&](Communicator& all) {
        std::vector<std::vector<std::uint8_t>> sent;
        auto& mine = received[own(all)];
        for (std::size_t r = 0; r < ranks; ++r) {
            sent.push_back(message(own(all), r));
            mine.push_back(poisoned<std::uint8_t>(length(r, own(all))));
        }
        std::vector<ConstBytes> outgoing;
        std::vector<Bytes> incoming;
        for (auto& part : sent)
            outgoing.emplace_back(in(part), part.size());
        for (auto& part : mine)
            incoming.emplace_back(out(part), part.size());
        return all.alltoall(Hosts::call(), outgoing, incoming, known);
    });
    for (std::size_t to = 0; to < ranks; ++to) {
        for (std::size_t from = 0; from < ranks; ++from)
            EXPECT_EQ(received[to][from], message(from, to)) << "from " << from << " to " << to;
    }
    return traffic;
}

}  // namespace mpi_bridge_test
