// SPDX-License-Identifier: Apache-2.0
//
// To be started as several ranks. Runs every collective, datatype and operation on random data and
// compares each value with a reference computed from all ranks' data. Output buffers are poisoned
// first, and surrounded by guards, so that a collective that writes nothing, or too much, is found.
// Prints one line on rank 0 when all is right; the first wrong value ends the rank with exit
// code 1.
//
//   mpi_bridge_check [COUNT …]    element counts; the default list straddles the thresholds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "reference.hpp"

namespace {

using namespace mpi_bridge_test;

constexpr unsigned char poison = 0xA5;
constexpr std::size_t guard_items = 16;

int rank = 0;
int size = 0;
long cases = 0;

[[noreturn]] void stop(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_check: rank %d of %d: %s\n", rank, size, what.c_str());
    std::exit(1);
}

void must(mpib_status status, const char* call) {
    if (status != MPIB_OK) {
        stop(std::string(call) + ": " + mpib_status_name(status) + ": " + mpib_last_error());
    }
}

// Output memory: poisoned, with guards behind it.
template <typename T>
class Poisoned {
  public:
    explicit Poisoned(std::size_t count) : count_(count), items_(count + guard_items) {
        std::memset(static_cast<void*>(items_.data()), poison, items_.size() * sizeof(T));
    }
    T* data() { return items_.data(); }
    const T& operator[](std::size_t index) const { return items_[index]; }
    void check_guards(const std::string& what) const {
        const auto* bytes = reinterpret_cast<const unsigned char*>(items_.data() + count_);
        const bool intact = std::all_of(bytes, bytes + guard_items * sizeof(T),
                                        [](unsigned char byte) { return byte == poison; });
        if (!intact) stop(what + ": wrote behind the end of the buffer");
    }

  private:
    std::size_t count_;
    std::vector<T> items_;
};

// Products of more random values can overflow 16 bits, and in which order is not for us to know.
constexpr int factors_that_fit = 12;

template <typename T>
std::vector<std::vector<T>> data_of_all_ranks(std::size_t count, std::uint64_t seed) {
    std::vector<std::vector<T>> data;
    data.reserve(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r) {
        data.push_back(random_values<T>(count, seed * 1000 + static_cast<std::uint64_t>(r)));
        if constexpr (is_short_float<T>) {
            if (r < factors_that_fit) continue;
            for (T& value : data.back())
                value = T::from(value.value() < 0 ? -1 : 1);
        }
    }
    return data;
}

// Compares results[i] with the reduction of element offset + i of all ranks.
template <typename T>
void check_reduced(const T* results, std::size_t count, std::size_t offset,
                   const std::vector<std::vector<T>>& data, mpib_op op, const std::string& what) {
    std::vector<T> inputs(data.size());
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t r = 0; r < data.size(); ++r)
            inputs[r] = data[r][offset + i];
        if (!is_right(results[i], inputs, op)) {
            stop(what + ": wrong value at element " + std::to_string(i) + " of " +
                 std::to_string(count) + ": " +
                 std::to_string(static_cast<double>(to_real(results[i]))));
        }
    }
    ++cases;
}

// Memory that the node's ranks can reach is reduced without copies: on one node another way.
template <typename T>
void check_in_shared_memory(mpib_datatype datatype, mpib_op op,
                            const std::vector<std::vector<T>>& data, const std::string& what) {
    const auto& own = data[static_cast<std::size_t>(rank)];
    const std::size_t guarded = own.size() + guard_items;
    T* const shared = static_cast<T*>(mpib_alloc(guarded * sizeof(T)));
    if (shared == nullptr) stop(std::string("mpib_alloc: ") + mpib_last_error());
    std::memset(static_cast<void*>(shared), poison, guarded * sizeof(T));
    std::copy(own.begin(), own.end(), shared);
    must(mpib_allreduce(shared, shared, own.size(), datatype, op), "mpib_allreduce");
    check_reduced(shared, own.size(), 0, data, op, "allreduce in shared memory, " + what);
    const auto* behind = reinterpret_cast<const unsigned char*>(shared + own.size());
    if (std::any_of(behind, behind + guard_items * sizeof(T),
                    [](unsigned char byte) { return byte != poison; })) {
        stop("allreduce in shared memory, " + what + ": wrote behind the end of the buffer");
    }
    mpib_free(shared);
}

template <typename T>
void check_reduce(mpib_datatype datatype, mpib_op op, const std::vector<std::vector<T>>& data,
                  const std::string& what) {
    const auto& own = data[static_cast<std::size_t>(rank)];
    // All pairs and lengths together go through all roots.
    const int root = static_cast<int>(
        (static_cast<std::size_t>(datatype) + static_cast<std::size_t>(op) + own.size()) %
        static_cast<std::size_t>(size));
    Poisoned<T> result(own.size());
    must(mpib_reduce(own.data(), rank == root ? result.data() : nullptr, own.size(), datatype, op,
                     root),
         "mpib_reduce");
    if (rank == root) check_reduced(result.data(), own.size(), 0, data, op, "reduce, " + what);
    result.check_guards("reduce, " + what);
}

template <typename T>
void check_reductions(mpib_datatype datatype, mpib_op op, std::size_t count) {
    const std::string what = "datatype " + std::to_string(datatype) + ", operation " +
                             std::to_string(op) + ", " + std::to_string(count) + " elements";
    const auto data = data_of_all_ranks<T>(count, static_cast<std::uint64_t>(datatype) + count);
    const auto& own = data[static_cast<std::size_t>(rank)];

    Poisoned<T> result(count);
    must(mpib_allreduce(own.data(), result.data(), count, datatype, op), "mpib_allreduce");
    check_reduced(result.data(), count, 0, data, op, "allreduce, " + what);
    result.check_guards("allreduce, " + what);

    Poisoned<T> in_place(count);
    std::copy(own.begin(), own.end(), in_place.data());
    must(mpib_allreduce(in_place.data(), in_place.data(), count, datatype, op), "mpib_allreduce");
    check_reduced(in_place.data(), count, 0, data, op, "allreduce in place, " + what);
    in_place.check_guards("allreduce in place, " + what);
    if (count != 0 && std::memcmp(result.data(), in_place.data(), count * sizeof(T)) != 0) {
        stop("allreduce in place differs from allreduce, " + what);
    }

    check_in_shared_memory(datatype, op, data, what);
    check_reduce(datatype, op, data, what);

    // Uneven parts: rank r gets what is between the r-th and the next cut; some get nothing.
    std::vector<std::size_t> counts;
    std::size_t offset = 0;
    std::size_t own_offset = 0;
    for (int r = 0; r < size; ++r) {
        const std::size_t rest = count - offset;
        const std::size_t part = r == size - 1 ? rest : (r % 3 == 1 ? 0 : rest / 2);
        if (r == rank) own_offset = offset;
        counts.push_back(part);
        offset += part;
    }
    const std::size_t own_count = counts[static_cast<std::size_t>(rank)];
    Poisoned<T> scattered(own_count);
    must(mpib_reduce_scatter(own.data(), scattered.data(), counts.data(), datatype, op),
         "mpib_reduce_scatter");
    check_reduced(scattered.data(), own_count, own_offset, data, op, "reduce_scatter, " + what);
    scattered.check_guards("reduce_scatter, " + what);
}

using Bytes = std::vector<unsigned char>;

Bytes bytes_of(int owner, std::size_t count, std::uint64_t seed) {
    return random_values<std::uint8_t>(count, seed * 1000 + static_cast<std::uint64_t>(owner));
}

void check_bytes(const unsigned char* actual, const Bytes& expected, const std::string& what) {
    if (!std::equal(expected.begin(), expected.end(), actual)) stop(what + ": wrong bytes");
    ++cases;
}

void check_broadcasts(std::size_t count) {
    for (int root = 0; root < size; ++root) {
        const std::string what =
            "broadcast of " + std::to_string(count) + " bytes from " + std::to_string(root);
        const Bytes expected = bytes_of(root, count, 7);
        Poisoned<unsigned char> buffer(count);
        if (rank == root) std::copy(expected.begin(), expected.end(), buffer.data());
        must(mpib_broadcast(buffer.data(), count, root), "mpib_broadcast");
        check_bytes(buffer.data(), expected, what);
        buffer.check_guards(what);
    }
}

void check_allgathers(std::size_t count) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::string what = "allgather of " + std::to_string(count) + " bytes";
    const Bytes own = bytes_of(rank, count, 11);
    Poisoned<unsigned char> gathered(count * ranks);
    must(mpib_allgather(own.data(), gathered.data(), count), "mpib_allgather");
    for (int r = 0; r < size; ++r) {
        check_bytes(gathered.data() + static_cast<std::size_t>(r) * count, bytes_of(r, count, 11),
                    what);
    }
    gathered.check_guards(what);

    // Lengths differ by rank, places are in reverse order with gaps of three bytes.
    std::vector<std::size_t> lengths;
    std::vector<std::size_t> places(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
        lengths.push_back(r % 2 == 0 ? count : count / 3);
    std::size_t total = 0;
    for (std::size_t r = ranks; r-- > 0;) {
        places[r] = total;
        total += lengths[r] + 3;
    }
    const std::size_t own_length = lengths[static_cast<std::size_t>(rank)];
    Poisoned<unsigned char> parts(total);
    must(mpib_allgatherv(own.data(), own_length, parts.data(), lengths.data(), places.data()),
         "mpib_allgatherv");
    for (std::size_t r = 0; r < ranks; ++r) {
        Bytes expected = bytes_of(static_cast<int>(r), count, 11);
        expected.resize(lengths[r]);
        check_bytes(parts.data() + places[r], expected, "allgatherv");
        for (std::size_t gap = 0; gap < 3; ++gap) {
            if (parts[places[r] + lengths[r] + gap] != poison) stop("allgatherv: wrote in a gap");
        }
    }
    parts.check_guards("allgatherv");
}

void check_alltoalls(std::size_t count) {
    const auto ranks = static_cast<std::size_t>(size);
    // What rank a sends rank b; with `uneven` its length depends on both.
    const auto message = [&](std::size_t a, std::size_t b, bool uneven) {
        const std::size_t length = uneven ? count * ((a + 2 * b) % 3) / 2 : count;
        return bytes_of(static_cast<int>(a * ranks + b), length, 13);
    };
    const auto me = static_cast<std::size_t>(rank);
    for (const bool uneven : {false, true}) {
        Bytes out;
        std::vector<std::size_t> out_lengths;
        std::vector<std::size_t> in_lengths;
        std::size_t total = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
            const Bytes part = message(me, r, uneven);
            out.insert(out.end(), part.begin(), part.end());
            out_lengths.push_back(part.size());
            in_lengths.push_back(message(r, me, uneven).size());
            total += in_lengths.back();
        }
        Poisoned<unsigned char> in(total);
        if (uneven) {
            must(mpib_alltoallv(out.data(), out_lengths.data(), nullptr, in.data(),
                                in_lengths.data(), nullptr),
                 "mpib_alltoallv");
        } else {
            must(mpib_alltoall(out.data(), in.data(), count), "mpib_alltoall");
        }
        std::size_t at = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
            check_bytes(in.data() + at, message(r, me, uneven), "alltoall");
            at += in_lengths[r];
        }
        in.check_guards("alltoall");
    }
}

// Buffers that begin at an odd address.
void check_unaligned(std::size_t per_rank) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::size_t count = per_rank * ranks;
    const auto sum = static_cast<std::int32_t>(ranks * (ranks + 1) / 2);
    std::vector<std::byte> send(1 + count * sizeof sum);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t own = rank + 1;
        std::memcpy(send.data() + 1 + i * sizeof own, &own, sizeof own);
    }
    std::vector<std::byte> recv(send.size());
    const auto expect_sums = [&](std::size_t sums, const std::string& what) {
        for (std::size_t i = 0; i < sums; ++i) {
            std::int32_t value = 0;
            std::memcpy(&value, recv.data() + 1 + i * sizeof value, sizeof value);
            if (value != sum) stop(what + " of unaligned memory: wrong value");
        }
        std::fill(recv.begin(), recv.end(), std::byte{0});
        ++cases;
    };
    const void* const in = send.data() + 1;
    void* const out = recv.data() + 1;
    must(mpib_allreduce(in, out, count, MPIB_INT32, MPIB_SUM), "mpib_allreduce");
    expect_sums(count, "allreduce");
    must(mpib_reduce(in, out, count, MPIB_INT32, MPIB_SUM, 0), "mpib_reduce");
    if (rank == 0) expect_sums(count, "reduce");
    const std::vector<std::size_t> counts(ranks, per_rank);
    must(mpib_reduce_scatter(in, out, counts.data(), MPIB_INT32, MPIB_SUM), "mpib_reduce_scatter");
    expect_sums(per_rank, "reduce_scatter");
}

// A pointer to nothing may be NULL in every call.
void check_nothing() {
    const auto ranks = static_cast<std::size_t>(size);
    const std::vector<std::size_t> none(ranks, 0);
    must(mpib_allreduce(nullptr, nullptr, 0, MPIB_FLOAT32, MPIB_SUM), "mpib_allreduce");
    must(mpib_reduce(nullptr, nullptr, 0, MPIB_FLOAT32, MPIB_SUM, 0), "mpib_reduce");
    must(mpib_reduce_scatter(nullptr, nullptr, none.data(), MPIB_FLOAT32, MPIB_SUM),
         "mpib_reduce_scatter");
    must(mpib_broadcast(nullptr, 0, 0), "mpib_broadcast");
    must(mpib_allgather(nullptr, nullptr, 0), "mpib_allgather");
    must(mpib_allgatherv(nullptr, 0, nullptr, none.data(), none.data()), "mpib_allgatherv");
    must(mpib_alltoall(nullptr, nullptr, 0), "mpib_alltoall");
    must(mpib_alltoallv(nullptr, none.data(), nullptr, nullptr, none.data(), nullptr),
         "mpib_alltoallv");
    ++cases;
}

// What overlaps is refused on the rank that passes it, before anything is sent.
void check_overlaps() {
    if (size == 1) return;
    const auto ranks = static_cast<std::size_t>(size);
    std::vector<std::int32_t> memory(2 * ranks + 2);
    const auto refused = [](mpib_status status, const char* call) {
        if (status != MPIB_ERROR_INVALID_ARGUMENT) stop(std::string(call) + " took an overlap");
        ++cases;
    };
    const std::vector<std::size_t> twos(ranks, 2);
    std::int32_t* const start = memory.data();
    refused(mpib_allreduce(start, start + 1, 2, MPIB_INT32, MPIB_SUM), "mpib_allreduce");
    if (rank == 0)
        refused(mpib_reduce(start, start + 1, 2, MPIB_INT32, MPIB_SUM, 0), "mpib_reduce");
    refused(mpib_reduce_scatter(start, start + 1, twos.data(), MPIB_INT32, MPIB_SUM),
            "mpib_reduce_scatter");
    refused(mpib_alltoall(start, start + 1, sizeof *start), "mpib_alltoall");
    // Another rank's place in recv.
    const auto other = static_cast<std::size_t>((rank + 1) % size);
    refused(mpib_allgather(start + other, start, sizeof *start), "mpib_allgather");
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::size_t> counts;
    for (int i = 1; i < argc; ++i)
        counts.push_back(std::strtoull(argv[i], nullptr, 10));
    if (counts.empty()) counts = {0, 1, 2, 3, 5, 17, 1000, 2049, 4096, 4097, 16385, 262147};
    must(mpib_init(), "mpib_init");
    rank = mpib_rank();
    size = mpib_size();
    for (const std::size_t count : counts) {
        for (const auto datatype : all_datatypes) {
            for (const auto op : all_ops) {
                with_type(datatype, [&](auto type) {
                    check_reductions<decltype(type)>(datatype, op, count);
                });
            }
        }
        check_broadcasts(count);
        check_allgathers(count);
        check_alltoalls(count);
        check_unaligned(count / 7);
        must(mpib_barrier(), "mpib_barrier");
    }
    check_nothing();
    check_overlaps();
    if (rank == 0) {
        std::printf("mpi_bridge_check: %d ranks, %ld cases, all correct\n", size, cases);
    }
    must(mpib_finalize(), "mpib_finalize");
    return 0;
}
