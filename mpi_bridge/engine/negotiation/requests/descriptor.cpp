// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/requests/descriptor.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "reduce/datatypes.hpp"
#include "reduce/reduction.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view kind_names[] = {
    "allreduce", "allgather", "broadcast", "reduce_scatter",  "alltoall",
    "reduce",    "barrier",   "join",      "process_set_add", "process_set_remove"};
constexpr std::string_view reduction_names[] = {"sum",     "average", "min", "max",
                                                "product", "and",     "or"};

template <std::size_t count>
std::string_view name_in(const std::string_view (&names)[count], int value) {
    return value >= 0 && static_cast<std::size_t>(value) < count
               ? names[static_cast<std::size_t>(value)]
               : std::string_view("unknown");
}

bool has_reduction(Kind kind) {
    return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}
bool has_root(Kind kind) {
    return kind == Kind::broadcast || kind == Kind::reduce;
}
bool has_data(Kind kind) {
    return kind != Kind::barrier && kind != Kind::join;
}

double scale_of(double given) {
    return given == 0 ? 1 : given;
}

std::string_view group_of(const mpib_operation& operation) {
    return operation.group == nullptr ? std::string_view() : std::string_view(operation.group);
}

bool has_rows(Kind kind) {
    return has_free_length(kind) || kind == Kind::reduce_scatter;
}

// A scalar counts as one row for the kinds that work on rows.
std::size_t dimensions_of(Kind kind, const mpib_operation& operation) {
    if (!has_data(kind)) return 0;
    if (operation.dimensions == 0 && has_rows(kind)) return 1;
    return static_cast<std::size_t>(operation.dimensions);
}

std::int64_t length_of(Kind kind, const mpib_operation& operation, std::size_t dimension) {
    if (dimension == 0 && has_free_length(kind)) return Descriptor::any_length;
    if (operation.dimensions == 0) return 1;
    return operation.shape[dimension];
}

// Compares the bits, because a NaN scale factor must not differ from itself.
bool same(double first, double second) {
    return std::bit_cast<std::uint64_t>(first) == std::bit_cast<std::uint64_t>(second);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (const std::int64_t length : shape) {
        if (text.size() > 1) text += ", ";
        text += length == Descriptor::any_length ? std::string("any") : std::to_string(length);
    }
    return text + "]";
}

std::string group_text(const Descriptor& descriptor) {
    if (descriptor.group.empty()) return "none";
    return fmt::format("\"{}\" of {}", descriptor.group, descriptor.group_size);
}

// A property in which descriptors can differ, and how to show it.
struct Aspect {
    std::string_view name;
    std::string (*show)(const Descriptor&);
};

constexpr Aspect aspects[] = {
    {"kind of operation", [](const Descriptor& d) { return std::string(name_of(d.kind)); }},
    {"datatype", [](const Descriptor& d) { return std::string(datatype_word(d.datatype)); }},
    {"kind of memory",
     [](const Descriptor& d) { return std::string(d.device ? "MPIB_DEVICE" : "host"); }},
    {"reduction", [](const Descriptor& d) { return std::string(name_in(reduction_names, d.op)); }},
    {"root rank", [](const Descriptor& d) { return std::to_string(d.root); }},
    {"shape", [](const Descriptor& d) { return shape_text(d.shape); }},
    {"prescale factor", [](const Descriptor& d) { return fmt::format("{}", d.prescale); }},
    {"postscale factor", [](const Descriptor& d) { return fmt::format("{}", d.postscale); }},
    {"group", group_text},
};

}  // namespace

bool is_on_device(const mpib_operation& operation) {
    return (operation.flags & MPIB_DEVICE) != 0 && has_data(static_cast<Kind>(operation.kind));
}

std::string_view name_of(Kind kind) {
    return name_in(kind_names, static_cast<int>(kind));
}

Descriptor describe(const mpib_operation& operation) {
    Descriptor descriptor;
    descriptor.kind = static_cast<Kind>(operation.kind);
    const Kind kind = descriptor.kind;
    if (has_data(kind)) descriptor.datatype = operation.datatype;
    descriptor.device = is_on_device(operation);
    if (has_reduction(kind)) {
        descriptor.op = operation.op;
        descriptor.prescale = scale_of(operation.prescale);
        descriptor.postscale = scale_of(operation.postscale);
    }
    if (has_root(kind)) descriptor.root = operation.root;
    const std::size_t dimensions = dimensions_of(kind, operation);
    for (std::size_t dimension = 0; dimension < dimensions; ++dimension)
        descriptor.shape.push_back(length_of(kind, operation, dimension));
    descriptor.group = group_of(operation);
    if (!descriptor.group.empty()) descriptor.group_size = operation.group_size;
    return descriptor;
}

bool describes(const Descriptor& descriptor, const mpib_operation& operation) {
    const auto kind = static_cast<Kind>(operation.kind);
    if (descriptor.kind != kind) return false;
    if (has_data(kind) && descriptor.datatype != operation.datatype) return false;
    if (descriptor.device != is_on_device(operation)) return false;
    if (has_reduction(kind) && (descriptor.op != operation.op ||
                                !same(descriptor.prescale, scale_of(operation.prescale)) ||
                                !same(descriptor.postscale, scale_of(operation.postscale)))) {
        return false;
    }
    if (has_root(kind) && descriptor.root != operation.root) return false;
    const std::size_t dimensions = dimensions_of(kind, operation);
    if (descriptor.shape.size() != dimensions) return false;
    for (std::size_t dimension = 0; dimension < dimensions; ++dimension) {
        if (descriptor.shape[dimension] != length_of(kind, operation, dimension)) return false;
    }
    return descriptor.group == group_of(operation) &&
           (descriptor.group.empty() || descriptor.group_size == operation.group_size);
}

std::size_t row_elements(const Descriptor& descriptor) {
    std::size_t count = 1;
    for (std::size_t dimension = 1; dimension < descriptor.shape.size(); ++dimension)
        count *= static_cast<std::size_t>(descriptor.shape[dimension]);
    return count;
}

std::size_t row_bytes(const Descriptor& descriptor) {
    return row_elements(descriptor) * datatype_bytes(descriptor.datatype);
}

std::size_t elements(const Descriptor& descriptor) {
    if (!has_data(descriptor.kind)) return 0;
    return descriptor.shape.empty()
               ? 1
               : static_cast<std::size_t>(descriptor.shape.front()) * row_elements(descriptor);
}

bool has_free_length(Kind kind) {
    return kind == Kind::allgather || kind == Kind::alltoall;
}

bool is_plannable(const Descriptor& descriptor, std::string_view name) {
    if (name.find(counted_name_infix) != std::string_view::npos) return false;
    switch (descriptor.kind) {
        case Kind::allreduce:
        case Kind::allgather:
        case Kind::broadcast:
        case Kind::reduce_scatter:
        case Kind::alltoall:
        case Kind::reduce:
        case Kind::barrier:
            return true;
        default:
            return false;
    }
}

bool can_share_bucket(const Descriptor& first, const Descriptor& second) {
    return first.kind == Kind::allreduce && second.kind == Kind::allreduce &&
           first.device == second.device && first.datatype == second.datatype &&
           first.op == second.op && same(first.prescale, second.prescale) &&
           same(first.postscale, second.postscale);
}

namespace {

std::size_t lowest_rank(std::span<const std::uint64_t> ranks) {
    const auto word = std::find_if(ranks.begin(), ranks.end(), [](auto bits) { return bits != 0; });
    if (word == ranks.end()) return ranks.size() * 64;
    return static_cast<std::size_t>(word - ranks.begin()) * 64 +
           static_cast<std::size_t>(std::countr_zero(*word));
}

}  // namespace

std::string mismatch_text(std::string_view name, std::span<const Claim> claims) {
    for (const Aspect& aspect : aspects) {
        // Collect every distinct value once, with all ranks that hold it, and order by the lowest
        // rank.
        std::vector<std::pair<std::string, std::vector<std::uint64_t>>> values;
        for (const Claim& claim : claims) {
            const std::string value = aspect.show(claim.descriptor);
            auto held = std::find_if(values.begin(), values.end(),
                                     [&](const auto& other) { return other.first == value; });
            if (held == values.end()) held = values.insert(values.end(), {value, {}});
            auto& ranks = held->second;
            ranks.resize(std::max(ranks.size(), claim.ranks.size()));
            for (std::size_t word = 0; word < claim.ranks.size(); ++word)
                ranks[word] |= claim.ranks[word];
        }
        if (values.size() < 2) continue;
        // The claims come in the order in which they arrived.
        std::sort(values.begin(), values.end(), [](const auto& one, const auto& other) {
            return lowest_rank(one.second) < lowest_rank(other.second);
        });
        std::string text = fmt::format("\"{}\": ranks disagree in the {}: ", name, aspect.name);
        bool first = true;
        for (const auto& [value, ranks] : values) {
            int holders = 0;
            for (const std::uint64_t word : ranks)
                holders += std::popcount(word);
            text += fmt::format("{}{} on {} {}", first ? "" : ", ", value,
                                holders == 1 ? "rank" : "ranks", rank_ranges(ranks));
            first = false;
        }
        return text + "; every rank must pass the same under one name";
    }
    return fmt::format("\"{}\": ranks disagree", name);
}

}  // namespace mpi_bridge
