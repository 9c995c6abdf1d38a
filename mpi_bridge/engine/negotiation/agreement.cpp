// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/agreement.hpp"

#include <algorithm>
#include <cstring>

#include "core/parts.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

Word get(const void* words, std::size_t at) {
    Word word;
    std::memcpy(&word, static_cast<const std::byte*>(words) + at * sizeof word, sizeof word);
    return word;
}

void put(void* words, std::size_t at, Word word) {
    std::memcpy(static_cast<std::byte*>(words) + at * sizeof word, &word, sizeof word);
}

void copy_words(void* to, const void* from, std::size_t count) {
    if (count != 0) std::memcpy(to, from, count * sizeof(Word));
}

void merge_words(void* result, const void* first, const void* second, std::size_t count) {
    for (std::size_t at = 0; at < count; ++at) {
        const Word a = get(first, at);
        const Word b = get(second, at);
        put(result, at, {a.mask | b.mask, std::max(a.number, b.number)});
    }
}

void add_words(void* accumulators, const void* elements, std::size_t count) {
    merge_words(accumulators, accumulators, elements, count);
}

void store_words(void* elements, const void* accumulators, std::size_t count, int /*ranks*/) {
    copy_words(elements, accumulators, count);
}

void combine_partial(void* accumulators, const void* const* sources, std::size_t sources_count,
                     std::size_t count) {
    for (std::size_t at = 0; at < count; ++at) {
        Word word = get(sources[0], at);
        for (std::size_t source = 1; source < sources_count; ++source) {
            const Word other = get(sources[source], at);
            word = {word.mask | other.mask, std::max(word.number, other.number)};
        }
        put(accumulators, at, word);
    }
}

void combine(void* elements, const void* const* sources, std::size_t sources_count,
             std::size_t count, int /*ranks*/) {
    combine_partial(elements, sources, sources_count, count);
}

void combine_pair(void* const* targets, const void* const* sources, std::size_t count,
                  int /*ranks*/) {
    for (std::size_t at = 0; at < count; ++at) {
        const Word a = get(sources[0], at);
        const Word b = get(sources[1], at);
        const Word word{a.mask | b.mask, std::max(a.number, b.number)};
        put(targets[0], at, word);
        put(targets[1], at, word);
    }
}

void keep(void* /*elements*/, std::size_t /*count*/, double /*factor*/) {}

constexpr Reduction agreement_reduction{.element_bytes = sizeof(Word),
                                        .accumulator_bytes = sizeof(Word),
                                        .load = copy_words,
                                        .add = add_words,
                                        .merge = merge_words,
                                        .store = store_words,
                                        .combine = combine,
                                        .combine_pair = combine_pair,
                                        .combine_partial = combine_partial,
                                        .scale = keep};

}  // namespace

Done call_together(Communicator& control, Seconds patience) {
    return control.barrier({"control round (beginning)", 0, patience});
}

Done agree(Communicator& control, std::string_view what, Seconds patience, std::span<Word> words) {
    auto* data = reinterpret_cast<std::byte*>(words.data());
    return control.allreduce({what, words.size(), patience}, agreement_reduction, data, data,
                             words.size());
}

Outcome<std::vector<std::vector<std::byte>>> gather_bytes(Communicator& control,
                                                          std::string_view what, Seconds patience,
                                                          std::span<const std::byte> bytes) {
    const auto members = static_cast<std::size_t>(control.group().size());
    const auto own = static_cast<std::size_t>(control.group().own);
    std::vector<std::uint64_t> lengths(members);
    lengths[own] = bytes.size();
    const std::vector<std::size_t> one_each(members, sizeof(std::uint64_t));
    TRY(control.allgather({what, members, patience},
                          cut(std::as_writable_bytes(std::span(lengths)).data(), one_each)));
    std::size_t total = 0;
    for (const std::uint64_t each : lengths)
        total += each;
    std::vector<std::byte> all(total);
    const auto parts = cut(all.data(), lengths);
    std::copy(bytes.begin(), bytes.end(), parts[own].begin());
    TRY(control.allgather({what, total, patience}, parts));
    std::vector<std::vector<std::byte>> gathered;
    gathered.reserve(parts.size());
    for (const Bytes part : parts)
        gathered.emplace_back(part.begin(), part.end());
    return gathered;
}

}  // namespace mpi_bridge
