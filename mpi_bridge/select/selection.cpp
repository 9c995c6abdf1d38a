// SPDX-License-Identifier: Apache-2.0
#include "select/selection.hpp"

#include <array>
#include <limits>
#include <optional>

#include "core/settings.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

struct Named {
    std::string_view name;
    AllreduceAlgorithm algorithm;
};
constexpr std::array algorithms = {
    Named{"recursive_doubling", AllreduceAlgorithm::recursive_doubling},
    Named{"ring", AllreduceAlgorithm::ring},
};

std::optional<AllreduceAlgorithm> algorithm_of(std::string_view name) {
    for (const Named& named : algorithms) {
        if (named.name == name) return named.algorithm;
    }
    return std::nullopt;
}

}  // namespace

std::string_view name_of(AllreduceAlgorithm algorithm) {
    for (const Named& named : algorithms) {
        if (named.algorithm == algorithm) return named.name;
    }
    return "unknown";
}

AllreduceTable::AllreduceTable()
    : ranges_{{16UL * 1024, AllreduceAlgorithm::recursive_doubling},
              {unlimited, AllreduceAlgorithm::ring}} {}

Outcome<AllreduceTable> AllreduceTable::parse(std::string_view text) {
    const auto refuse = [text](std::string_view why) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    "MPI_BRIDGE_ALLREDUCE=\"" + std::string(text) + "\": " + std::string(why) +
                        "; expected a list such as \"recursive_doubling:16K,ring\"");
    };
    std::vector<Range> ranges;
    std::string_view rest = text;
    for (bool last = false; !last;) {
        const auto comma = rest.find(',');
        last = comma == std::string_view::npos;
        const std::string_view item = rest.substr(0, comma);
        if (!last) rest.remove_prefix(comma + 1);

        const auto colon = item.find(':');
        const auto algorithm = algorithm_of(item.substr(0, colon));
        if (!algorithm)
            return refuse("\"" + std::string(item.substr(0, colon)) +
                          "\" is no algorithm of allreduce");
        const bool limited = colon != std::string_view::npos;
        if (limited == last) return refuse("all but the last algorithm need a length");
        const auto limit = limited ? parse_bytes(item.substr(colon + 1)) : unlimited;
        if (!limit) return refuse("a length is not a number of bytes");
        if (!ranges.empty() && *limit <= ranges.back().up_to_bytes) {
            return refuse("lengths must grow");
        }
        ranges.push_back({*limit, *algorithm});
    }
    return AllreduceTable(std::move(ranges));
}

AllreduceAlgorithm AllreduceTable::choose(std::size_t bytes) const {
    for (const Range& range : ranges_) {
        if (bytes <= range.up_to_bytes) return range.algorithm;
    }
    return ranges_.back().algorithm;
}

std::string AllreduceTable::text() const {
    std::string out;
    for (const Range& range : ranges_) {
        if (!out.empty()) out += ',';
        out += name_of(range.algorithm);
        if (range.up_to_bytes != unlimited) out += ':' + std::to_string(range.up_to_bytes);
    }
    return out;
}

}  // namespace mpi_bridge
