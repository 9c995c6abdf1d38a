// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/selection.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/settings.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

template <typename Algorithm>
std::optional<Algorithm> algorithm_of(std::string_view name) {
    const auto& names = Names<Algorithm>::all;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<Algorithm>(found - names.begin());
}

template <typename Algorithm>
Algorithm cheapest(const Model& model, const Case& call) {
    const auto all = estimates<Algorithm>(call);
    std::size_t best = 0;
    for (std::size_t next = 1; next < all.size(); ++next) {
        if (all[next].seconds(model) < all[best].seconds(model)) best = next;
    }
    return static_cast<Algorithm>(best);
}

}  // namespace

template <typename Algorithm>
Table<Algorithm>::Table(const Model& model, int ranks, std::size_t segment_bytes) {
    constexpr int longest_exponent = 48;  // no choice of interest changes beyond this
    Case call;
    call.ranks = std::max(ranks, 2);
    call.segment_bytes = static_cast<double>(segment_bytes);
    for (int exponent = 0; exponent <= longest_exponent; ++exponent) {
        // All lengths above the previous power of two and up to this one get the best algorithm for
        // the middle of the range.
        const std::size_t limit = std::size_t{1} << exponent;
        call.bytes = 0.75 * static_cast<double>(limit);
        const auto algorithm = cheapest<Algorithm>(model, call);
        if (!ranges_.empty() && ranges_.back().algorithm == algorithm) {
            ranges_.back().up_to_bytes = limit;
        } else {
            ranges_.push_back({limit, algorithm});
        }
    }
    ranges_.back().up_to_bytes = unlimited;
}

template <typename Algorithm>
Outcome<Table<Algorithm>> Table<Algorithm>::parse(std::string_view text) requires(
    !Names<Algorithm>::variable.empty()) {
    const auto refuse = [text](std::string_view why) {
        return fail(
            MPIB_ERROR_INVALID_ARGUMENT,
            fmt::format("{}=\"{}\": {}; expected a list such as \"{}:16K,{}\", of: {}",
                        Names<Algorithm>::variable, text, why, Names<Algorithm>::all.front(),
                        Names<Algorithm>::all.back(), fmt::join(Names<Algorithm>::all, ", ")));
    };
    std::vector<Range> ranges;
    std::string_view rest = text;
    for (bool last = false; !last;) {
        const auto comma = rest.find(',');
        last = comma == std::string_view::npos;
        const std::string_view item = rest.substr(0, comma);
        if (!last) rest.remove_prefix(comma + 1);

        const auto colon = item.find(':');
        const auto name = item.substr(0, colon);
        const auto algorithm = algorithm_of<Algorithm>(name);
        if (!algorithm) {
            return refuse(
                fmt::format("\"{}\" is no algorithm of {}", name, Names<Algorithm>::collective));
        }
        const bool limited = colon != std::string_view::npos;
        if (limited == last) return refuse("all but the last algorithm need a length");
        const auto limit = limited ? parse_bytes(item.substr(colon + 1)) : unlimited;
        if (!limit) return refuse("a length is not a number of bytes");
        if (!ranges.empty() && *limit <= ranges.back().up_to_bytes) {
            return refuse("lengths must grow");
        }
        ranges.push_back({*limit, *algorithm});
    }
    return Table(std::move(ranges));
}

template <typename Algorithm>
Algorithm Table<Algorithm>::choose(std::size_t bytes) const {
    for (const Range& range : ranges_) {
        if (bytes <= range.up_to_bytes) return range.algorithm;
    }
    return ranges_.back().algorithm;
}

template <typename Algorithm>
std::string Table<Algorithm>::text() const {
    const auto length = [](std::size_t bytes) {
        for (const auto& [unit, shift] : {std::pair("G", 30U), {"M", 20U}, {"K", 10U}}) {
            const std::size_t factor = std::size_t{1} << shift;
            if (bytes % factor == 0) return fmt::format("{}{}", bytes / factor, unit);
        }
        return fmt::format("{}", bytes);
    };
    std::string out;
    for (const Range& range : ranges_) {
        if (!out.empty()) out += ',';
        out += name_of(range.algorithm);
        if (range.up_to_bytes != unlimited) out += ':' + length(range.up_to_bytes);
    }
    return out;
}

template class Table<AllreduceAlgorithm>;
template class Table<ReduceAlgorithm>;
template class Table<ReduceScatterAlgorithm>;
template class Table<AllgatherAlgorithm>;
template class Table<BroadcastAlgorithm>;

template <typename Algorithm>
const Table<Algorithm>& Selection::table(Tables<Algorithm>& tables, int ranks) {
    const auto found = tables.find(ranks);
    if (found != tables.end()) return found->second;
    return tables.emplace(ranks, Table<Algorithm>(model_, ranks, segment_bytes_)).first->second;
}

const AllreduceTable& Selection::allreduce_table(int ranks) {
    return pinned_allreduce_ ? *pinned_allreduce_ : table(allreduce_, ranks);
}

AllreduceAlgorithm Selection::allreduce(std::size_t bytes, int ranks) {
    return allreduce_table(ranks).choose(bytes);
}
ReduceAlgorithm Selection::reduce(std::size_t bytes, int ranks) {
    return table(reduce_, ranks).choose(bytes);
}
ReduceScatterAlgorithm Selection::reduce_scatter(std::size_t bytes, int ranks) {
    return table(reduce_scatter_, ranks).choose(bytes);
}
AllgatherAlgorithm Selection::allgather(std::size_t bytes, int ranks) {
    return table(allgather_, ranks).choose(bytes);
}
BroadcastAlgorithm Selection::broadcast(std::size_t bytes, int ranks) {
    return table(broadcast_, ranks).choose(bytes);
}

std::string Selection::text(int ranks) {
    std::string out;
    const auto line = [&]<typename Algorithm>(const Table<Algorithm>& table) {
        out += fmt::format("{:<15}{}\n", Names<Algorithm>::collective, table.text());
    };
    line(allreduce_table(ranks));
    line(table(reduce_, ranks));
    line(table(reduce_scatter_, ranks));
    line(table(allgather_, ranks));
    line(table(broadcast_, ranks));
    return out;
}

}  // namespace mpi_bridge
