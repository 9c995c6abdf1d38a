// SPDX-License-Identifier: Apache-2.0
#include "trace/stall.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>

#include "trace/activity.hpp"
#include "trace/byte_size.hpp"
#include "trace/quoting.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t word_bits = 64;
constexpr std::size_t shortest_report = 256;

std::size_t set_bits(std::span<const std::uint64_t> bits) {
    std::size_t count = 0;
    for (const std::uint64_t word : bits)
        count += static_cast<std::size_t>(std::popcount(word));
    return count;
}

// The first index from `from` on whose bit is `value`, or the number of bits when there is none.
std::size_t find_bit(std::span<const std::uint64_t> bits, std::size_t from, bool value) {
    while (from < bits.size() * word_bits) {
        const std::uint64_t word = value ? bits[from / word_bits] : ~bits[from / word_bits];
        const std::uint64_t rest = word >> (from % word_bits);
        if (rest != 0) return from + static_cast<std::size_t>(std::countr_zero(rest));
        from += word_bits - from % word_bits;
    }
    return bits.size() * word_bits;
}

std::string missing_text(std::span<const std::uint64_t> missing) {
    const std::size_t count = set_bits(missing);
    if (count == 0) return "not yet on all ranks";
    return fmt::format("missing on rank{} {}", count == 1 ? "" : "s", rank_ranges(missing));
}

std::string entry_text(const Pending& pending) {
    std::string what = quoted_for_people(pending.name);
    what += fmt::format(" ({}, {}", kind_name(pending.kind), byte_size_text(pending.bytes));
    if (pending.process_set != MPIB_WORLD) {
        what += fmt::format(", process set {}", pending.process_set);
    }
    return what + "): " + missing_text(pending.missing);
}

}  // namespace

std::string rank_ranges(std::span<const std::uint64_t> bits, std::size_t longest) {
    const std::size_t end = bits.size() * word_bits;
    std::string text;
    std::size_t left = set_bits(bits);
    for (std::size_t first = find_bit(bits, 0, true); first < end;) {
        const std::size_t after = find_bit(bits, first, false);
        const std::size_t last = after - 1;
        const std::string range =
            first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
        if (!text.empty() && text.size() + range.size() > longest) {
            return fmt::format("{} and {} more", text, left);
        }
        text += (text.empty() ? "" : ", ") + range;
        left -= after - first;
        first = find_bit(bits, after, true);
    }
    return text;
}

std::string stall_report(int rank, std::span<const Pending> pending, std::size_t longest) {
    if (pending.empty()) return "";
    std::vector<const Pending*> oldest_first;
    oldest_first.reserve(pending.size());
    for (const Pending& one : pending)
        oldest_first.push_back(&one);
    std::stable_sort(oldest_first.begin(), oldest_first.end(),
                     [](const Pending* a, const Pending* b) { return a->age > b->age; });

    const bool one = pending.size() == 1;
    std::string text =
        fmt::format("mpi_bridge: rank {}: {} {} waited for {:.0f} s: ", rank,
                    one ? "1 operation" : fmt::format("{} operations", pending.size()),
                    one ? "has" : "have", oldest_first.front()->age.count());

    // Leaves room for "; and 4294967295 more".
    constexpr std::size_t room_for_rest = 24;
    const std::size_t limit = std::max(longest, shortest_report) - room_for_rest;
    std::size_t told = 0;
    for (const Pending* operation : oldest_first) {
        const std::string entry = entry_text(*operation);
        const std::string_view between = told == 0 ? "" : "; ";
        if (text.size() + between.size() + entry.size() > limit) {
            // The oldest operation is reported in any case, as far as there is room.
            if (told == 0) {
                text += std::string_view(entry).substr(0, limit - text.size());
                ++told;
            }
            break;
        }
        text += between;
        text += entry;
        ++told;
    }
    if (told < pending.size()) text += fmt::format("; and {} more", pending.size() - told);
    return text;
}

// Whether what waits now was waiting already at the latest report.
bool StallWatch::was_reported(Seconds oldest, Clock::time_point now) const {
    return reported_ && oldest >= Seconds(now - *reported_);
}

StallWatch::Verdict StallWatch::look(Seconds oldest, Clock::time_point now) {
    if (settings_.shut_down.count() > 0 && oldest >= settings_.shut_down) return Verdict::shut_down;
    if (settings_.report.count() <= 0 || oldest < settings_.report) return Verdict::quiet;
    const bool goes_on = was_reported(oldest, now);
    if (reported_ && now < after(*reported_, (goes_on ? pause_ : 1) * settings_.report))
        return Verdict::quiet;
    pause_ = goes_on ? std::min(2 * pause_, longest_pause) : 1;
    reported_ = now;
    return Verdict::report;
}

std::optional<Seconds> StallWatch::next_look(Seconds oldest, Clock::time_point now) const {
    std::optional<Seconds> next;
    const auto consider = [&next](Seconds in) {
        const Seconds wait = std::max(in, Seconds(0));
        next = next ? std::min(*next, wait) : wait;
    };
    if (settings_.shut_down.count() > 0) consider(settings_.shut_down - oldest);
    if (settings_.report.count() > 0) {
        const int pause = was_reported(oldest, now) ? pause_ : 1;
        const Seconds quiet =
            reported_ ? pause * settings_.report - Seconds(now - *reported_) : Seconds(0);
        consider(std::max(settings_.report - oldest, quiet));
    }
    return next;
}

}  // namespace mpi_bridge
