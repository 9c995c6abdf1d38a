// SPDX-License-Identifier: Apache-2.0
#include "tools/gpus/compare.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

#include <fmt/format.h>

namespace mpi_bridge::gpus {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int rounds = 5;
// What is slow because something else is busy does not stay slow for so many tries.
constexpr int further_tries = 20;
constexpr std::chrono::seconds further_time{1};
// Sixteen GPUs have 240 ways between them. What has not had its turn by then is not checked.
constexpr std::chrono::seconds time_for_peers{3};

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

// Measures those again that are slower than half of the median, and returns the words for the first
// that stays so. `again` gives another speed of the GPU with this index.
Outcome<std::string> slow_one(const std::vector<Gpu>& gpus, std::vector<double>& speeds,
                              const char* does,
                              const std::function<Outcome<double>(std::size_t)>& again) {
    const double usual = median(speeds);
    const auto end = Clock::now() + further_time;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (int tries = 0; tries < further_tries && speeds[i] < usual / 2 && Clock::now() < end;
             ++tries)
            speeds[i] = std::max(speeds[i], TRY(again(i)));
        if (speeds[i] < usual / 2)
            return fmt::format("{} {} {:.1f} GB/s, the others {:.1f}", gpus[i].name(), does,
                               speeds[i] / 1e9, usual / 1e9);
    }
    return std::string();
}

// Two GPUs of which the first can reach the other's memory.
struct Way {
    std::size_t from;
    std::size_t to;
};

Outcome<double> copy(std::vector<Gpu>& gpus, Way way) {
    return named(gpus[way.from].name() + " to " + gpus[way.to].name(),
                 gpus[way.from].copy_to(gpus[way.to]));
}

Outcome<std::vector<Way>> ways_between(std::vector<Gpu>& gpus) {
    std::vector<Way> ways;
    // Neighbours first: every GPU has had its turn before the time may be up.
    for (std::size_t distance = 1; distance < gpus.size(); ++distance) {
        for (std::size_t from = 0; from < gpus.size(); ++from) {
            const std::size_t to = (from + distance) % gpus.size();
            if (TRY(named(gpus[from].name() + " to " + gpus[to].name(),
                          gpus[from].connect(gpus[to]))))
                ways.push_back({from, to});
        }
    }
    return ways;
}

Outcome<Speeds> compare_peers(std::vector<Gpu>& gpus, Speeds speeds) {
    const auto end = Clock::now() + time_for_peers;
    const auto ways = TRY(ways_between(gpus));
    if (ways.empty()) return speeds;
    std::vector<double> fastest(gpus.size(), 0);
    std::vector<Way> fastest_way(gpus.size());
    for (const Way& way : ways) {
        if (Clock::now() > end) break;
        const double speed = TRY(copy(gpus, way));
        for (const std::size_t gpu : {way.from, way.to}) {
            if (speed <= fastest[gpu]) continue;
            fastest[gpu] = speed;
            fastest_way[gpu] = way;
        }
    }
    // A GPU that no other one can reach has no speed, and none to be compared with.
    std::vector<double> measured = fastest;
    std::erase(measured, 0);
    speeds.peers = median(measured);
    for (double& speed : fastest) {
        if (speed == 0) speed = speeds.peers;
    }
    const auto slow = TRY(slow_one(gpus, fastest, "copies to and from its nearest GPU",
                                   [&](std::size_t i) { return copy(gpus, fastest_way[i]); }));
    if (speeds.slow.empty()) speeds.slow = slow;
    return speeds;
}

}  // namespace

double median(std::vector<double> speeds) {
    std::sort(speeds.begin(), speeds.end());
    return speeds[speeds.size() / 2];
}

Outcome<Speeds> compare(std::vector<Gpu>& gpus, bool direct) {
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
    std::vector<double> of_host(gpus.size(), 0);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < gpus.size(); ++i)
            of_host[i] = std::max(of_host[i], TRY(measure(i)));
    }
    speeds.host = median(of_host);
    speeds.slow = TRY(slow_one(gpus, of_host, "copies", measure));
    if (!direct || gpus.size() == 1) return speeds;
    return compare_peers(gpus, std::move(speeds));
}

}  // namespace mpi_bridge::gpus
