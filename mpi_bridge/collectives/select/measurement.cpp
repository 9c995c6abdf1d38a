// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/measurement.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/chunks.hpp"
#include "collectives/select/algorithms.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t short_message = 8;
constexpr std::size_t long_message = 256UL * 1024;
// No network is faster than this; the limit keeps a model usable even with a bad clock.
constexpr double least_latency = 50e-9;
constexpr double least_per_byte = 1e-12;
constexpr double least_further = 1.0 / 16;
constexpr double least_streamed = least_further;

// The measured time of one exchange is the best of several batches, because every disturbance makes
// a measurement longer.
struct Batches {
    int count = 0;
    int exchanges = 0;
};

// Exchanges so many bytes with the neighbours, in that number of messages that follow each other.
Outcome<double> time_exchanges(Conversation& talk, std::size_t bytes, std::size_t messages,
                               Batches batches, std::uint32_t step) {
    const int size = talk.size();
    const int above = wrapped(talk.rank() - size + 1, size);
    const int below = wrapped(talk.rank() - 1, size);
    const Bytes memory = talk.scratch().take(2 * long_message);
    const std::size_t length = bytes / messages;
    std::vector<Conversation::Pending> pending;
    double best = std::numeric_limits<double>::infinity();
    for (int batch = 0; batch < batches.count; ++batch) {
        const auto start = Clock::now();
        for (int exchange = 0; exchange < batches.exchanges; ++exchange) {
            pending.clear();
            for (std::size_t at = long_message; at < long_message + bytes; at += length)
                pending.push_back(TRY(talk.receive(below, step, memory.subspan(at, length))));
            for (std::size_t at = 0; at < bytes; at += length)
                pending.push_back(TRY(talk.send(above, step, memory.subspan(at, length))));
            TRY(talk.wait_all(pending));
        }
        const Seconds taken = Clock::now() - start;
        best = std::min(best, taken.count() / batches.exchanges);
    }
    return best;
}

// A step of recursive doubling, whose partners exchange short messages. In a ring, where each rank
// waits for another one than waits for it, ranks that share processors would hold each other up.
Outcome<double> time_doubling_step(Conversation& talk) {
    constexpr Batches batches{8, 8};
    const Reduction& most = *find_reduction(MPIB_FLOAT64, MPIB_MAX);
    double value = 0;
    auto* const memory = reinterpret_cast<std::byte*>(&value);
    const Case call{.ranks = talk.size(), .bytes = sizeof value};
    const auto* const doubling = find_algorithm<Allreduce>("recursive_doubling");
    const double steps = doubling->estimate(call).steps.messages;
    double best = std::numeric_limits<double>::infinity();
    for (int batch = 0; batch < batches.count; ++batch) {
        const auto start = Clock::now();
        for (int run = 0; run < batches.exchanges; ++run)
            TRY(allreduce_recursive_doubling(talk, most, memory, memory, 1));
        const Seconds taken = Clock::now() - start;
        best = std::min(best, taken.count() / (batches.exchanges * steps));
    }
    return best;
}

// Measures how much longer a step takes for each further message, as a share of the time with one
// message. The step has up to three partners, as in recursive quadrupling.
Outcome<double> time_further_messages(Conversation& talk, double alpha, std::uint32_t step) {
    const int size = talk.size();
    const int partners = std::min(3, size - 1);
    if (partners < 2) return Model::further_message;
    constexpr Batches batches{4, 8};
    const Bytes memory = talk.scratch().take(2 * long_message);
    double best = std::numeric_limits<double>::infinity();
    for (int batch = 0; batch < batches.count; ++batch) {
        const auto start = Clock::now();
        for (int exchange = 0; exchange < batches.exchanges; ++exchange) {
            std::vector<Conversation::Pending> pending;
            for (int partner = 1; partner <= partners; ++partner) {
                const auto place = static_cast<std::size_t>(partner) * short_message;
                const int from = wrapped(talk.rank() - partner, size);
                pending.push_back(
                    TRY(talk.receive(from, step, memory.subspan(place, short_message))));
            }
            for (int partner = 1; partner <= partners; ++partner) {
                const int to = wrapped(talk.rank() - size + partner, size);
                pending.push_back(TRY(talk.send(to, step, memory.last(short_message))));
            }
            TRY(talk.wait_all(pending));
        }
        const Seconds taken = Clock::now() - start;
        best = std::min(best, taken.count() / batches.exchanges);
    }
    return std::clamp((best / alpha - 1) / (partners - 1), least_further, 1.0);
}

double time_reduction(Conversation& talk) {
    const Reduction& sum = *find_reduction(MPIB_FLOAT32, MPIB_SUM);
    const Bytes memory = talk.scratch().take(2 * long_message);
    std::fill(memory.begin(), memory.end(), std::byte{0});
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
        const auto start = Clock::now();
        sum.add(memory.data(), memory.data() + long_message, long_message / sum.element_bytes);
        best = std::min(best, Seconds(Clock::now() - start).count());
    }
    return best;
}

// Every number becomes the largest that any rank has.
Done agree_on_costs(Conversation& talk, std::array<double, 5>& numbers) {
    const Reduction& most = *find_reduction(MPIB_FLOAT64, MPIB_MAX);
    auto* memory = reinterpret_cast<std::byte*>(numbers.data());
    return allreduce_recursive_doubling(talk, most, memory, memory, numbers.size());
}

}  // namespace

Outcome<Model> measure(Conversation& talk) {
    if (talk.size() == 1) return shared_memory_model();
    // The first messages make connections, and let the transport learn how much the network accepts
    // at once.
    constexpr Batches warm_up{1, 2};
    std::uint32_t step = 100;  // beyond those of agree_on_costs()
    for (const std::size_t bytes : {short_message, long_message}) {
        TRY(time_exchanges(talk, bytes, 1, warm_up, step++));
    }
    // Several exchanges each: the message of a single one may have come before it began.
    constexpr Batches long_ones{3, 4};
    constexpr std::size_t segments = 16;
    const auto transfer = TRY(time_exchanges(talk, long_message, 1, long_ones, step++));
    const auto streamed = TRY(time_exchanges(talk, long_message, segments, long_ones, step++));
    const double alpha = std::max(TRY(time_doubling_step(talk)), least_latency);

    constexpr auto bytes = static_cast<double>(long_message);
    // The first exchanges make connections; the best batch is one that does not.
    const auto further = TRY(time_further_messages(talk, alpha, step++));
    std::array<double, 5> costs = {
        alpha, std::max((transfer - alpha) / bytes, least_per_byte),
        std::max(time_reduction(talk) / bytes, least_per_byte), further,
        std::clamp((streamed - transfer) / (segments - 1) / alpha, least_streamed, 1.0)};
    TRY(agree_on_costs(talk, costs));
    return Model{costs[0], costs[1], costs[2], costs[3], costs[4]}.rounded();
}

}  // namespace mpi_bridge
