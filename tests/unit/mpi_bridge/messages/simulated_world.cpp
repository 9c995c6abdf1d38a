// SPDX-License-Identifier: Apache-2.0
#include "simulated_world.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace message_schedules {

using namespace mpi_bridge;

namespace {

[[nodiscard]] bool fit(const Posted& receive, const Posted& send) {
    return receive.rank == send.peer && receive.tag == send.tag &&
           receive.channel == send.channel &&
           (receive.peer == Protocol::any_rank || receive.peer == send.rank);
}

}  // namespace

void World::take(const Posted& receive) {
    const auto found = contents.find(receive.at_the_end);
    if (found == contents.end()) {
        fault(fmt::format("rank {} has received what nobody has sent", receive.rank));
        return;
    }
    Posted& send = *found->second;
    if (std::exchange(send.matched, true)) fault("a message was received twice");
    if (!fit(receive, send) || receive.found_peer != send.rank)
        fault("a receive has taken a message that does not fit");
    if (send.withdrawn && !send.taken_before)
        fault("a message was received that was withdrawn before");
}

void World::check_that_nothing_is_stuck(bool gives_up) {
    int refusals = 0;  // less those that were heard
    for (const auto& one : all) {
        if (one->status == MPIB_ERROR_MISMATCH) refusals += one->receives ? 1 : -1;
        if (one->complete) continue;
        if (one->moving)
            fault(
                fmt::format("the data of message {} of rank {} is stuck", one->number, one->rank));
        for (const auto& other : all) {
            if (!one->receives || other->receives || other->complete || !fit(*one, *other))
                continue;
            fault(fmt::format("message {} of rank {} is stuck, though rank {} receives it",
                              other->number, other->rank, one->rank));
        }
    }
    if (refusals != 0 && !gives_up && !somebody_left)
        fault("a sender does not know that its message does not fit");
}

void World::check_ends() {
    // By receiver, sender and address: the latest message received.
    std::map<std::tuple<int, int, std::int64_t, std::string>, int> latest;
    for (const auto& posted : all) {
        count(*posted);
        if (!posted->complete) fault("a message has no end");
        if (!posted->receives) {
            check_end_of_send(*posted);
            continue;
        }
        const bool touched = std::any_of(posted->at_the_end.begin(), posted->at_the_end.end(),
                                         [](std::byte each) { return each != untouched; });
        if (!posted->well()) {
            if (touched)
                fault(fmt::format("a receive that failed ({}) has taken data",
                                  static_cast<int>(posted->status)));
            continue;
        }
        const Posted& send = *contents.at(posted->at_the_end);
        const auto [entry, is_first] =
            latest.try_emplace({posted->rank, send.rank, send.tag, send.channel}, send.number);
        if (!is_first && entry->second > send.number) fault("messages were received out of order");
        entry->second = send.number;
    }
}

void World::check_end_of_send(const Posted& send) {
    if (send.well() && !send.matched) fault("a message was sent, but nobody has received it");
    const bool given_up = send.status == MPIB_ERROR_TIMEOUT;
    // A sender that gives short data up may do so when it was received already.
    const bool may_be = send.status == MPIB_OK || send.status == MPIB_ERROR_NOT_INITIALIZED ||
                        (given_up && send.with_data);
    if (send.matched && !may_be)
        fault(fmt::format("a message was received whose sender was told {}",
                          static_cast<int>(send.status)));
    if (given_up && send.with_data && !send.withdrawn && !at(send.peer).left)
        fault("short data was given up, but its receiver has not heard of that");
}

void World::count(const Posted& posted) {
    if (posted.well() && posted.receives) ++result.received;
    if (posted.status == MPIB_ERROR_INVALID_ARGUMENT) ++result.cancelled;
    if (posted.status == MPIB_ERROR_TIMEOUT) ++result.given_up;
    if (posted.status == MPIB_ERROR_MISMATCH) ++result.mismatched;
    if (posted.status == MPIB_ERROR_PEER_LOST) ++result.left_behind;
}

}  // namespace message_schedules
