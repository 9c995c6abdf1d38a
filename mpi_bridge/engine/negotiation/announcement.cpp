// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/announcement.hpp"

#include <algorithm>

namespace mpi_bridge {
namespace {

constexpr std::size_t least_words = 4;
constexpr std::size_t first_name_word = 1;

bool all_equal(const Word& largest, const Word& largest_complement) {
    return largest.number == ~largest_complement.number;
}

// Returns them in the order in which they were submitted.
std::vector<NamedRequest> requests_of(Member& member, std::vector<RequestTable::Index> indices) {
    std::sort(indices.begin(), indices.end(),
              [&](RequestTable::Index first, RequestTable::Index second) {
                  return member.requests.at(first).number < member.requests.at(second).number;
              });
    std::vector<NamedRequest> requests;
    for (const RequestTable::Index index : indices) {
        OwnRequest& request = member.requests.at(index);
        request.announced = true;
        requests.push_back({request.name, request.descriptor});
    }
    return requests;
}

std::uint64_t wishes_of(Member& member, bool announces) {
    std::uint64_t wishes = 0;
    if (announces) wishes |= Announcement::announces;
    if (member.joined != member.joined_reported) wishes |= Announcement::joins;
    if (member.wants_to_leave_plan()) wishes |= Announcement::leaves_plan;
    if (member.asks_who) wishes |= Announcement::asks_who;
    if (!member.closing) wishes |= Announcement::stays_open;
    if (member.uses_plan) wishes |= Announcement::uses_plan;
    member.joined_reported = member.joined;
    member.closing_reported = member.closing;
    member.asks_who = false;
    member.uses_plan = false;
    return wishes;
}

}  // namespace

Announcement announce(Member& member) {
    Announcement said;
    said.names = member.names.size();
    std::vector<Word>& words = said.words;
    words.assign(std::max(least_words, first_name_word + (said.names + 63) / 64), Word{});
    if (!member.joined) {
        for (std::size_t word = first_name_word; word < words.size(); ++word)
            words[word].mask = ~std::uint64_t{0};
    }
    std::vector<RequestTable::Index> to_announce;
    for (RequestTable::Index index = 0; index < member.requests.size(); ++index) {
        OwnRequest& request = member.requests.at(index);
        if (request.state != OwnRequest::State::waiting || request.planned) continue;
        if (request.descriptor.kind == Kind::join) continue;
        if (request.settled) {
            words[first_name_word + request.id / 64].mask &=
                ~(std::uint64_t{1} << (request.id % 64));
            request.reported = true;
        } else if (!request.announced) {
            to_announce.push_back(index);
        }
    }
    said.requests = requests_of(member, std::move(to_announce));
    said.encoded = encode(said.requests);
    words[0].mask |= wishes_of(member, !said.requests.empty());
    words[0].number = digest_of(said.encoded);
    words[1].number = ~words[0].number;
    words[2].number = member.options.settings_digest;
    words[3].number = ~words[2].number;
    return said;
}

Done Announcement::settings_agree() const {
    if (all_equal(words[2], words[3])) return {};
    return fail(MPIB_ERROR_MISMATCH,
                "ranks have different bucket sizes; set MPI_BRIDGE_BUCKET_BYTES, "
                "HOROVOD_FUSION_THRESHOLD and MPI_BRIDGE_FIRST_BUCKET_BYTES to the same on every "
                "rank");
}

bool Announcement::all_announce_the_same() const {
    return all_equal(words[0], words[1]);
}

Bits Announcement::not_ready() const {
    Bits bits;
    for (std::size_t word = first_name_word; word < words.size(); ++word)
        bits.push_back(words[word].mask);
    return bits;
}

}  // namespace mpi_bridge
