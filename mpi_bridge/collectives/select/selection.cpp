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

template <typename Collective>
const Algorithm<Collective>* cheapest(const Model& model, const Case& call) {
    const auto all = algorithms<Collective>();
    const auto seconds = [&](const auto& algorithm) {
        return algorithm.estimate(call).seconds(model);
    };
    const auto* best = &all.front();
    for (const auto& next : all.subspan(1)) {
        if (seconds(next) < seconds(*best)) best = &next;
    }
    return best;
}

template <typename Collective>
std::vector<std::string_view> names() {
    std::vector<std::string_view> names;
    for (const auto& algorithm : algorithms<Collective>())
        names.push_back(algorithm.name);
    return names;
}

}  // namespace

template <typename Collective>
Table<Collective>::Table(const Model& model, int ranks, std::size_t segment_bytes) {
    constexpr int longest_exponent = 48;  // no choice of interest changes beyond this
    Case call;
    call.ranks = std::max(ranks, 2);
    call.segment_bytes = static_cast<double>(segment_bytes);
    for (int exponent = 0; exponent <= longest_exponent; ++exponent) {
        // All lengths above the previous power of two and up to this one get the best algorithm for
        // the middle of the range.
        const std::size_t limit = std::size_t{1} << exponent;
        call.bytes = 0.75 * static_cast<double>(limit);
        const auto* algorithm = cheapest<Collective>(model, call);
        if (!ranges_.empty() && ranges_.back().algorithm == algorithm) {
            ranges_.back().up_to_bytes = limit;
        } else {
            ranges_.push_back({limit, algorithm});
        }
    }
    ranges_.back().up_to_bytes = unlimited;
}

template <typename Collective>
Outcome<Table<Collective>> Table<Collective>::parse(std::string_view text) requires(
    !Collective::variable.empty()) {
    const auto refuse = [text](std::string_view why) {
        const auto all = names<Collective>();
        return invalid(fmt::format("{}=\"{}\": {}; expected a list such as \"{}:16K,{}\", of: {}",
                                   Collective::variable, text, why, all.front(), all.back(),
                                   fmt::join(all, ", ")));
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
        const auto* algorithm = find_algorithm<Collective>(name);
        if (algorithm == nullptr) {
            return refuse(fmt::format("\"{}\" is not an algorithm of {}", name, Collective::name));
        }
        const bool limited = colon != std::string_view::npos;
        if (limited == last) return refuse("all but the last algorithm need a length");
        const auto limit = limited ? parse_bytes(item.substr(colon + 1)) : unlimited;
        if (!limit) return refuse("a length is not a number of bytes");
        if (!ranges.empty() && *limit <= ranges.back().up_to_bytes) {
            return refuse("lengths must grow");
        }
        ranges.push_back({*limit, algorithm});
    }
    return Table(std::move(ranges));
}

template <typename Collective>
const Algorithm<Collective>& Table<Collective>::choose(std::size_t bytes) const {
    for (const Range& range : ranges_) {
        if (bytes <= range.up_to_bytes) return *range.algorithm;
    }
    return *ranges_.back().algorithm;
}

template <typename Collective>
std::string Table<Collective>::text() const {
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
        out += range.algorithm->name;
        if (range.up_to_bytes != unlimited) out += ':' + length(range.up_to_bytes);
    }
    return out;
}

template <typename Collective>
const Table<Collective>& Selection::table(int ranks) {
    if constexpr (std::is_same_v<Collective, Allreduce>) {
        if (pinned_allreduce_) return *pinned_allreduce_;
    }
    auto& tables = std::get<Tables<Collective>>(tables_);
    const auto found = tables.find(ranks);
    if (found != tables.end()) return found->second;
    return tables.emplace(ranks, Table<Collective>(model_, ranks, segment_bytes_)).first->second;
}

template <typename Collective>
const Algorithm<Collective>& Selection::choose(std::size_t bytes, int ranks) {
    return table<Collective>(ranks).choose(bytes);
}

std::string Selection::text(int ranks) {
    std::string out;
    const auto line = [&]<typename Collective>(const std::map<int, Table<Collective>>& /*tables*/) {
        out += fmt::format("{:<15}{}\n", Collective::name, table<Collective>(ranks).text());
    };
    std::apply([&](const auto&... tables) { (line(tables), ...); }, tables_);
    return out;
}

template class Table<Allreduce>;
template class Table<Reduce>;
template class Table<ReduceScatter>;
template class Table<Allgather>;
template class Table<Broadcast>;
template class Table<Alltoall>;
template const Algorithm<Allreduce>& Selection::choose(std::size_t, int);
template const Algorithm<Reduce>& Selection::choose(std::size_t, int);
template const Algorithm<ReduceScatter>& Selection::choose(std::size_t, int);
template const Algorithm<Allgather>& Selection::choose(std::size_t, int);
template const Algorithm<Broadcast>& Selection::choose(std::size_t, int);
template const Algorithm<Alltoall>& Selection::choose(std::size_t, int);

}  // namespace mpi_bridge
