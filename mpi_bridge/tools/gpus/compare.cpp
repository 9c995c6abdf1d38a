// SPDX-License-Identifier: Apache-2.0
#include "tools/gpus/compare.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

#include <fmt/format.h>

#include "core/deadline.hpp"

namespace mpi_bridge::gpus {
namespace {

constexpr int rounds = 5;
// What is slow because something else is busy does not stay slow for so many tries.
constexpr int further_tries = 20;
constexpr std::chrono::seconds further_time{1};

void open_all(std::vector<Gpu>& gpus) {
    std::vector<std::thread> openers;
    openers.reserve(gpus.size());
    for (Gpu& gpu : gpus)
        openers.emplace_back([&gpu] { gpu.open(); });
    for (std::thread& opener : openers)
        opener.join();
}

template <typename Value>
Outcome<Value> named(const std::string& name, Outcome<Value> outcome) {
    if (outcome) return outcome;
    return fail(outcome.error().status, name + ": " + outcome.error().text);
}

// Measures a GPU again that is slower than half of the usual speed. `again` gives another speed of
// the one with this index. Returns the index of the first that stays slow, or their number.
Outcome<std::size_t> slow_one(std::vector<double>& speeds, double usual,
                              const std::function<Outcome<double>(std::size_t)>& again) {
    const auto end = Clock::now() + further_time;
    for (std::size_t i = 0; i < speeds.size(); ++i) {
        for (int tries = 0; tries < further_tries && speeds[i] < usual / 2 && Clock::now() < end;
             ++tries)
            speeds[i] = std::max(speeds[i], TRY(again(i)));
        if (speeds[i] < usual / 2) return i;
    }
    return speeds.size();
}

// From one GPU to another, by their indices.
struct Way {
    std::size_t from = 0;
    std::size_t to = 0;
};

// The fastest of some copies, of which the first one is not timed: it wakes the GPUs.
Outcome<double> copy(std::vector<Gpu>& gpus, Way way) {
    TRY(gpus[way.from].copy_to(gpus[way.to]));
    double fastest = 0;
    for (int round = 1; round < rounds; ++round)
        fastest = std::max(fastest, TRY(gpus[way.from].copy_to(gpus[way.to])));
    return fastest;
}

}  // namespace

double median(std::vector<double> speeds) {
    std::sort(speeds.begin(), speeds.end());
    return speeds[speeds.size() / 2];
}

Outcome<Speeds> compare_with_host(std::vector<Gpu>& gpus) {
    Speeds speeds;
    if (gpus.empty()) return speeds;
    open_all(gpus);
    for (Gpu& gpu : gpus) {
        if (auto done = gpu.prepare(); !done)
            return fail(done.error().status, gpu.name() + ": " + done.error().text);
    }
    const auto measure = [&](std::size_t i) {
        return named(gpus[i].name(), gpus[i].copy_from_and_to_host());
    };
    std::vector<double> fastest(gpus.size(), 0);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < gpus.size(); ++i)
            fastest[i] = std::max(fastest[i], TRY(measure(i)));
    }
    speeds.usual = median(fastest);
    const std::size_t slow = TRY(slow_one(fastest, speeds.usual, measure));
    if (slow < gpus.size())
        speeds.slow = fmt::format("{} copies {:.1f} GB/s, the others {:.1f}", gpus[slow].name(),
                                  fastest[slow] / 1e9, speeds.usual / 1e9);
    return speeds;
}

Outcome<Speeds> compare_with_each_other(std::vector<Gpu>& gpus, std::chrono::milliseconds time,
                                        const std::function<void(const std::string&)>& begins) {
    const auto end = Clock::now() + time;
    // 0: the driver does not give this way.
    const auto measure = [&](Way way) -> Outcome<double> {
        const std::string pair = gpus[way.from].name() + " to " + gpus[way.to].name();
        begins(pair);
        if (!gpus[way.from].connect(gpus[way.to])) return 0.0;
        return named(pair, copy(gpus, way));
    };
    std::vector<double> fastest(gpus.size(), 0);
    std::vector<Way> fastest_way(gpus.size());
    for (std::size_t distance = 1; distance < gpus.size(); ++distance) {
        for (std::size_t from = 0; from < gpus.size() && Clock::now() < end; ++from) {
            const Way way{from, (from + distance) % gpus.size()};
            const double speed = TRY(measure(way));
            for (const std::size_t gpu : {way.from, way.to}) {
                if (speed <= fastest[gpu]) continue;
                fastest[gpu] = speed;
                fastest_way[gpu] = way;
            }
        }
    }
    Speeds speeds;
    std::vector<double> measured = fastest;
    std::erase(measured, 0);
    if (measured.empty()) return speeds;
    speeds.usual = median(measured);
    // A GPU that no other one can reach has nothing to be compared by.
    for (double& speed : fastest) {
        if (speed == 0) speed = speeds.usual;
    }
    const std::size_t slow = TRY(
        slow_one(fastest, speeds.usual, [&](std::size_t i) { return measure(fastest_way[i]); }));
    if (slow < gpus.size())
        speeds.slow = fmt::format(
            "{}: its fastest direct copy to or from another GPU runs at {:.1f} GB/s, those of the "
            "others at {:.1f}",
            gpus[slow].name(), fastest[slow] / 1e9, speeds.usual / 1e9);
    return speeds;
}

}  // namespace mpi_bridge::gpus
