// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../reference.hpp"
#include "ranks.hpp"
#include "reduce/reduction.hpp"

// One call of each kind with known data, and what is wrong with its outcome.
namespace mpi_bridge_test {

using mpi_bridge::Done;
using mpi_bridge::NodeStage;
using mpi_bridge::Reduction;

inline NodeStage::Turn turn(std::string_view name = "test", std::uint64_t agreement = 0) {
    return {name, agreement, mpi_bridge::Seconds(60)};
}

// Memory in the shared heap or out of it, poisoned, `skew` bytes off alignment, between guards.
class Buffer {
  public:
    Buffer(mpi_bridge::SharedHeap* heap, std::size_t bytes, std::size_t skew = 0)
        : bytes_(bytes), heap_(heap) {
        const std::size_t all = bytes + skew + 2 * guard;
        if (heap != nullptr) {
            auto memory = heap->allocate(all);
            if (!memory) throw std::bad_alloc();
            memory_ = static_cast<std::byte*>(*memory);
        } else {
            memory_ = new std::byte[all];
        }
        std::memset(memory_, poison, all);
        data_ = memory_ + guard + skew;
    }
    ~Buffer() {
        if (heap_ != nullptr) {
            heap_->free(memory_);
        } else {
            delete[] memory_;
        }
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_}; }
    void set(const void* from) {
        if (bytes_ != 0) std::memcpy(data_, from, bytes_);
    }
    [[nodiscard]] bool holds(const void* expected) const {
        return bytes_ == 0 || std::memcmp(data_, expected, bytes_) == 0;
    }
    [[nodiscard]] bool guards_are_whole() const {
        for (std::size_t i = 0; i < guard; ++i) {
            if (data_[-1 - static_cast<std::ptrdiff_t>(i)] != std::byte{poison} ||
                data_[bytes_ + i] != std::byte{poison}) {
                return false;
            }
        }
        return true;
    }

  private:
    static constexpr std::size_t guard = 64;
    static constexpr unsigned char poison = 0xA5;
    std::size_t bytes_;
    mpi_bridge::SharedHeap* heap_;
    std::byte* memory_ = nullptr;
    std::byte* data_ = nullptr;
};

// Where a rank's buffers of one call are.
struct Placement {
    bool shared_source = false;
    bool shared_target = false;
    bool in_place = false;
    std::size_t skew = 0;
};

// The data of all ranks, and its reduction by the portable kernels.
struct Case {
    mpi_bridge::NodeStage::Turn turn;
    mpib_datatype datatype;
    mpib_op op;
    std::size_t count;
    std::uint64_t seed;
};

inline std::string describe(const Case& item, const std::string& what) {
    return std::string(item.turn.name) + ": " + what + ", datatype " +
           std::to_string(item.datatype) + ", operation " + std::to_string(item.op) + ", count " +
           std::to_string(item.count);
}

template <typename T>
std::vector<std::vector<T>> inputs_of(const Case& item, int ranks) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
        inputs.push_back(
            random_values<T>(item.count, item.seed * 1000 + static_cast<std::uint64_t>(rank)));
    }
    return inputs;
}

template <typename T>
std::vector<std::byte> accumulators_of(const Reduction& reduction,
                                       const std::vector<std::vector<T>>& inputs) {
    std::vector<std::byte> sums((inputs[0].size() + 1) * reduction.accumulator_bytes);
    reduction.load(sums.data(), inputs[0].data(), inputs[0].size());
    for (std::size_t i = 1; i < inputs.size(); ++i) {
        reduction.add(sums.data(), inputs[i].data(), inputs[i].size());
    }
    return sums;
}

inline std::string explain(const Case& item, const Done& done) {
    return done ? std::string() : describe(item, done.error().text);
}

template <typename T>
std::string check_allreduce(Member& member, const Case& item, const Placement& place) {
    const int ranks = member.stage.size();
    const auto inputs = inputs_of<T>(item, ranks);
    const auto& own = inputs[static_cast<std::size_t>(member.stage.rank())];
    const std::size_t bytes = item.count * sizeof(T);
    Buffer send(place.shared_source ? member.heap : nullptr, bytes, place.skew);
    Buffer recv(place.shared_target ? member.heap : nullptr, bytes, place.skew);
    send.set(own.data());
    const Buffer& target = place.in_place ? send : recv;
    const auto done =
        member.stage.allreduce(item.turn, *mpi_bridge::find_reduction(item.datatype, item.op),
                               send.data(), target.data(), item.count);
    if (!done) return explain(item, done);
    const auto& reduction = *mpi_bridge::find_portable_reduction(item.datatype, item.op);
    const auto sums = accumulators_of(reduction, inputs);
    std::vector<T> expected(item.count + 1);
    reduction.store(expected.data(), sums.data(), item.count, ranks);
    if (!target.holds(expected.data())) return describe(item, "wrong bits");
    if (!place.in_place && !send.holds(own.data())) return describe(item, "changed its input");
    if (!send.guards_are_whole() || !recv.guards_are_whole()) {
        return describe(item, "wrote beyond a buffer");
    }
    for (std::size_t i = 0; i < item.count; ++i) {
        std::vector<T> column;
        for (const auto& input : inputs)
            column.push_back(input[i]);
        T result;
        std::memcpy(&result, target.data() + i * sizeof(T), sizeof(T));
        if (!is_right(result, column, item.op)) return describe(item, "a wrong value");
    }
    return {};
}

// Slices of even length, of which every third goes to the rank before.
inline std::vector<std::size_t> uneven_parts(std::size_t count, int ranks) {
    std::vector<std::size_t> parts;
    for (int rank = 0; rank < ranks; ++rank) {
        const std::size_t slice = mpi_bridge::even_slice(count, ranks, rank).length;
        if (rank % 3 == 1) parts.back() += slice;
        parts.push_back(rank % 3 == 1 ? 0 : slice);
    }
    return parts;
}

template <typename T>
std::string check_partial(Member& member, const Case& item, const Placement& place, int root) {
    const int ranks = member.stage.size();
    const auto inputs = inputs_of<T>(item, ranks);
    const auto& own = inputs[static_cast<std::size_t>(member.stage.rank())];
    Buffer send(place.shared_source ? member.heap : nullptr, item.count * sizeof(T), place.skew);
    send.set(own.data());
    const auto& reduction = *mpi_bridge::find_reduction(item.datatype, item.op);
    const auto sums =
        accumulators_of(*mpi_bridge::find_portable_reduction(item.datatype, item.op), inputs);
    // The whole vector on the root for a reduce, a part on every rank for a reduce-scatter.
    mpi_bridge::Slice part{0, member.stage.rank() == root ? item.count : 0};
    const auto counts = uneven_parts(item.count, ranks);
    if (root < 0) {
        const auto own_part = static_cast<std::size_t>(member.stage.rank());
        part.offset = std::accumulate(
            counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(own_part), std::size_t{0});
        part.length = counts[own_part];
    }
    Buffer target(nullptr, part.length * reduction.accumulator_bytes, 0);
    const auto done = root < 0 ? member.stage.reduce_scatter(item.turn, reduction, send.data(),
                                                             target.data(), counts)
                               : member.stage.reduce(item.turn, reduction, send.data(),
                                                     target.data(), item.count, root);
    if (!done) return explain(item, done);
    if (!target.holds(sums.data() + part.offset * reduction.accumulator_bytes)) {
        return describe(item, "wrong accumulators");
    }
    if (!send.holds(own.data())) return describe(item, "changed its input");
    if (!target.guards_are_whole()) return describe(item, "wrote beyond the accumulators");
    return {};
}

inline std::string check_broadcast(Member& member, const Case& item, const Placement& place,
                                   int root) {
    const auto expected = random_values<std::uint8_t>(item.count, item.seed);
    Buffer data(place.shared_source ? member.heap : nullptr, item.count, place.skew);
    if (member.stage.rank() == root) data.set(expected.data());
    const auto done = member.stage.broadcast(item.turn, data.span(), root);
    if (!done) return explain(item, done);
    if (!data.holds(expected.data())) return describe(item, "wrong bytes");
    return data.guards_are_whole() ? "" : describe(item, "wrote beyond the buffer");
}

// Parts of uneven lengths, every third of them empty.
inline std::string check_allgather(Member& member, const Case& item, const Placement& place) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::span<std::byte>> parts;
    std::vector<std::vector<std::uint8_t>> expected;
    for (int rank = 0; rank < member.stage.size(); ++rank) {
        const auto place_of = static_cast<std::size_t>(rank);
        const std::size_t length = rank % 3 == 1 ? 0 : item.count + 7 * place_of;
        expected.push_back(random_values<std::uint8_t>(length, item.seed + place_of));
        buffers.push_back(std::make_unique<Buffer>(place.shared_source ? member.heap : nullptr,
                                                   length, place.skew));
        if (rank == member.stage.rank()) buffers.back()->set(expected.back().data());
        parts.push_back(buffers.back()->span());
    }
    const auto done = member.stage.allgather(item.turn, parts);
    if (!done) return explain(item, done);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
        if (!buffers[rank]->holds(expected[rank].data())) return describe(item, "wrong bytes");
        if (!buffers[rank]->guards_are_whole()) return describe(item, "wrote beyond a part");
    }
    return {};
}

// Messages of another length between each two ranks, every third of them empty.
inline std::string check_alltoall(Member& member, const Case& item, const Placement& place) {
    const int own = member.stage.rank();
    const auto message = [&](int from, int to) {
        const auto number = static_cast<std::size_t>(from * member.stage.size() + to);
        // Some are empty, by the seed in one direction between two ranks, in both or in none.
        const auto kind = static_cast<std::uint64_t>(from + 2 * to) + item.seed;
        const std::size_t length = kind % 4 == 1 ? 0 : item.count + 7 * number;
        return random_values<std::uint8_t>(length, item.seed + number);
    };
    std::vector<std::unique_ptr<Buffer>> sent;
    std::vector<std::unique_ptr<Buffer>> received;
    std::vector<std::span<const std::byte>> out;
    std::vector<std::span<std::byte>> in;
    const auto heap = place.shared_source ? member.heap : nullptr;
    for (int peer = 0; peer < member.stage.size(); ++peer) {
        const auto outgoing = message(own, peer);
        sent.push_back(std::make_unique<Buffer>(heap, outgoing.size(), place.skew));
        sent.back()->set(outgoing.data());
        received.push_back(std::make_unique<Buffer>(heap, message(peer, own).size(), place.skew));
        out.push_back(sent.back()->span());
        in.push_back(received.back()->span());
    }
    const auto done = member.stage.alltoall(item.turn, out, in);
    if (!done) return explain(item, done);
    for (int peer = 0; peer < member.stage.size(); ++peer) {
        const auto& buffer = *received[static_cast<std::size_t>(peer)];
        if (!buffer.holds(message(peer, own).data())) return describe(item, "wrong bytes");
        if (!buffer.guards_are_whole()) return describe(item, "wrote beyond a message");
    }
    return {};
}

}  // namespace mpi_bridge_test
