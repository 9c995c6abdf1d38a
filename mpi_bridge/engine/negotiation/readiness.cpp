// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/readiness.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

// Notes that an operation of the group has failed on all members, and the others have to.
void spoil(Member& member, const std::string& group, int size, const std::string& why) {
    const auto spoilt = member.spoilt_groups.try_emplace(group, size, why).first;
    if (--spoilt->second.left <= 0) member.spoilt_groups.erase(spoilt);
}

// Spoils the group of an operation that the members have announced differently, if they agree on
// the group.
void spoil_group_of(Member& member, std::span<const Claim> claims, const std::string& why) {
    const Descriptor& first = claims.front().descriptor;
    const bool agreed = std::all_of(claims.begin(), claims.end(), [&](const Claim& claim) {
        return claim.descriptor.group == first.group &&
               claim.descriptor.group_size == first.group_size;
    });
    if (agreed && !first.group.empty()) spoil(member, first.group, first.group_size, why);
}

// Adds to `ready` the names that all members have now announced alike, and fails the requests of
// those that they have announced differently.
void settle_open(Member& member, const Joined& joined, std::vector<PendingTable::Id>& ready) {
    for (PendingTable::Id id = 0; id < member.names.size(); ++id) {
        if (!member.names.is_complete(id, joined.members)) continue;
        const std::vector<Claim> claims = member.names.at(id).claims;
        const auto mismatch = member.names.settle(id);
        if (mismatch) spoil_group_of(member, claims, *mismatch);
        const RequestTable::Index index = member.requests.of(id);
        if (!mismatch) {
            if (index != RequestTable::none) member.reconsider(member.requests.at(index));
            ready.push_back(id);
        } else if (index != RequestTable::none &&
                   member.requests.at(index).state == OwnRequest::State::waiting) {
            const Kind kind = member.requests.at(index).descriptor.kind;
            member.complete(index, Failure{MPIB_ERROR_MISMATCH,
                                           fmt::format("{} {}", name_of(kind), *mismatch)});
        }
    }
    std::sort(ready.begin(), ready.end());
}

// Fails what is ready of spoilt groups, which would wait for the rest of its group for ever.
void fail_spoilt_groups(Member& member, std::vector<PendingTable::Id>& ready) {
    std::erase_if(ready, [&](PendingTable::Id id) {
        const Descriptor& what = member.names.at(id).descriptor;
        const auto spoilt = member.spoilt_groups.find(what.group);
        if (spoilt == member.spoilt_groups.end()) return false;
        const std::string why = spoilt->second.why;
        spoil(member, what.group, what.group_size, why);
        const RequestTable::Index index = member.requests.of(id);
        if (index == RequestTable::none) return true;
        const OwnRequest& request = member.requests.at(index);
        if (request.state == OwnRequest::State::waiting)
            member.complete(index,
                            Failure{MPIB_ERROR_MISMATCH,
                                    fmt::format("{} cannot run, because another operation of the "
                                                "group \"{}\" cannot: {}",
                                                member.described(request), what.group, why)});
        return true;
    });
}

std::string_view horovods_name(Kind kind) {
    switch (kind) {
        case Kind::allgather:
            return "Allgather";
        case Kind::broadcast:
            return "Broadcast";
        case Kind::reduce_scatter:
            return "Reducescatter";
        case Kind::alltoall:
            return "Alltoall";
        case Kind::reduce:
            return "Reduce";
        case Kind::barrier:
            return "Barrier";
        default:
            return "This operation";
    }
}

// A member that has joined takes part in allreduces with neutral elements, and in nothing else.
void refuse_while_joined(Member& member, const Joined& joined,
                         std::vector<PendingTable::Id>& ready) {
    if (!joined.any()) return;
    std::erase_if(ready, [&](PendingTable::Id id) {
        if (member.names.at(id).descriptor.kind == Kind::allreduce) return false;
        const RequestTable::Index index = member.requests.of(id);
        if (index == RequestTable::none) return true;
        const OwnRequest& request = member.requests.at(index);
        if (request.state != OwnRequest::State::waiting) return true;
        // The text begins with Horovod's words, because scripts look for them.
        member.complete(
            index, Failure{MPIB_ERROR_INVALID_ARGUMENT,
                           fmt::format("{} is not supported with Join at this time: {} cannot run, "
                                       "because rank {} has joined; only allreduce can until all "
                                       "have",
                                       horovods_name(request.descriptor.kind),
                                       member.described(request), joined.last)});
        return true;
    });
}

// Holds back the operations of a named group until all of them are ready.
void hold_back_groups(const Member& member, std::vector<PendingTable::Id>& ready) {
    std::map<std::string_view, int> counts;
    for (const PendingTable::Id id : ready)
        ++counts[member.names.at(id).descriptor.group];
    std::erase_if(ready, [&](PendingTable::Id id) {
        const Descriptor& what = member.names.at(id).descriptor;
        return !what.group.empty() && counts[what.group] < what.group_size;
    });
}

}  // namespace

bool Joined::all(std::span<const int> ranks) const {
    for (std::size_t at = 0; at < ranks.size(); ++at) {
        if (!has_bit(members, at)) return false;
    }
    return true;
}

void Joined::count(std::span<const Word> words, std::span<const int> ranks) {
    for (std::size_t at = 0; at < ranks.size(); ++at) {
        const bool has_joined = (words[at / 64].mask >> (at % 64) & 1) != 0;
        if (!has_joined || has_bit(members, at)) continue;
        set_bit(members, at);
        last = ranks[at];
    }
}

std::vector<PendingTable::Id> find_ready(Member& member, const Joined& joined,
                                         const Bits& not_ready, std::size_t bits) {
    std::vector<PendingTable::Id> ready;
    for (PendingTable::Id id = 0; id < bits; ++id) {
        const auto& record = member.names.at(id);
        if (!record.name.empty() && record.settled && !has_bit(not_ready, id)) ready.push_back(id);
    }
    settle_open(member, joined, ready);
    fail_spoilt_groups(member, ready);
    refuse_while_joined(member, joined, ready);
    hold_back_groups(member, ready);
    return ready;
}

}  // namespace mpi_bridge
