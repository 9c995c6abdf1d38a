// SPDX-License-Identifier: Apache-2.0
#include "liveness/liveness_check.hpp"

#include <algorithm>

namespace mpi_bridge {
namespace {

constexpr Seconds longest_interval{1};
constexpr Seconds shortest_interval{0.05};
constexpr Seconds longest_peer_pause{30};

// This gives four looks before the first report if that is due soon.
Seconds interval_of(const StallSettings& settings) {
    Seconds interval = longest_interval;
    for (const Seconds limit : {settings.report, settings.shut_down}) {
        if (limit.count() > 0) interval = std::min(interval, limit / 4);
    }
    return std::max(interval, shortest_interval);
}

}  // namespace

LivenessCheck::LivenessCheck(int own_rank, const StallSettings& settings)
    : own_rank_(own_rank),
      settings_(settings),
      interval_(interval_of(settings)),
      answer_time_(interval_),
      stall_watch_({settings.report, Seconds(0)}) {}

void LivenessCheck::take_waits(std::span<const Waits::Blocked> blocked, Clock::time_point now) {
    std::map<std::pair<int, std::uint32_t>, Clock::time_point> waits;
    std::map<int, Peer> peers;
    for (const Waits::Blocked& wait : blocked) {
        const std::pair key(wait.place, wait.serial);
        const auto known = waits_.find(key);
        auto since = known == waits_.end() ? now : known->second;
        if (wait.since) since = std::min(since, *wait.since);
        waits.emplace(key, since);
        auto entered = peers.find(wait.rank);
        if (entered == peers.end()) {
            const auto before = peers_.find(wait.rank);
            Peer peer = before == peers_.end() ? Peer() : before->second;
            if (before == peers_.end()) {
                peer.pause = interval_;
                peer.next_question = after(now, interval_);
            }
            peer.since = since;
            peer.direct = peer.engine = false;
            entered = peers.emplace(wait.rank, peer).first;
        }
        entered->second.since = std::min(entered->second.since, since);
        switch (wait.lane) {
            case Waits::Lane::direct:
                entered->second.direct = true;
                break;
            case Waits::Lane::engine:
                entered->second.engine = true;
                break;
            case Waits::Lane::negotiation:
                entered->second.direct = entered->second.engine = true;
                break;
        }
    }
    waits_ = std::move(waits);
    peers_ = std::move(peers);
}

bool LivenessCheck::silent(const Peer& peer, Clock::time_point now) const {
    return peer.asked && now >= after(*peer.asked, answer_time_);
}

LivenessCheck::Orders LivenessCheck::look(std::span<const Waits::Blocked> blocked,
                                          Clock::time_point now) {
    take_waits(blocked, now);
    Orders orders;
    Seconds oldest{0};
    for (const auto& [rank, peer] : peers_) {
        const Seconds waited(now - peer.since);
        oldest = std::max(oldest, waited);
        if (settings_.shut_down.count() <= 0 || orders.give_up) continue;
        // The rank to blame is one that is not waiting itself, and the ranks that wait for it give
        // up first. If ranks wait for each other in a circle, there is no such rank, so they are
        // given up a little later.
        const Seconds respite = peer.waits_for >= 0 ? 4 * interval_ : Seconds(0);
        if (waited >= settings_.shut_down + respite) orders.give_up.emplace(rank, waited);
    }
    // A rank is asked just before the report, so that the report is up to date.
    const Seconds ahead = answer_time_ + interval_;
    const bool soon =
        oldest.count() > 0 && stall_watch_.look(oldest + ahead, now) == StallWatch::Verdict::report;
    if (soon) report_at_ = after(now, ahead);
    for (auto& [rank, peer] : peers_) {
        if (peer.gone) {
            // It is only reported at the next look, because what it sent before it ended may be
            // arriving now.
            if (peer.gone_was_told) orders.gone.push_back(rank);
            peer.gone_was_told = true;
            continue;
        }
        if (!peer.asked && (soon || now >= peer.next_question)) {
            orders.ask.push_back(rank);
            peer.asked = now;
            peer.asked_about = false;
            peer.pause = std::min(2 * peer.pause, longest_peer_pause);
            peer.next_question = after(now, peer.pause);
        }
        const bool again = soon && silent(peer, now);
        if (silent(peer, now) && (!peer.asked_about || again)) {
            orders.ask_about.push_back(rank);
            peer.asked_about = true;
        }
    }
    if (report_at_ && now >= *report_at_) {
        report_at_.reset();
        orders.report = true;
    }
    return orders;
}

void LivenessCheck::note_state(Peer& peer, char state, Clock::time_point now) {
    if (peer.state == state) return;
    peer.state = state;
    peer.state_since = now;
}

void LivenessCheck::answered(int rank, int waits_for, char state, Clock::time_point now) {
    const auto found = peers_.find(rank);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    peer.asked.reset();
    peer.answered = true;
    peer.waits_for = waits_for;
    peer.silent_neighbour = -1;
    note_state(peer, state, now);
}

void LivenessCheck::told_about(int rank, char state, Clock::time_point now) {
    const auto found = peers_.find(rank);
    if (found == peers_.end()) return;
    found->second.silent_neighbour = -1;
    note_state(found->second, state, now);
}

void LivenessCheck::neighbour_is_silent(int rank, int neighbour) {
    const auto found = peers_.find(rank);
    if (found == peers_.end()) return;
    found->second.silent_neighbour = neighbour;
}

void LivenessCheck::gone(int rank) {
    if (const auto found = peers_.find(rank); found != peers_.end()) found->second.gone = true;
}

std::vector<int> LivenessCheck::unanswered() const {
    std::vector<int> ranks;
    for (const auto& [rank, peer] : peers_) {
        if (peer.asked && !peer.gone) ranks.push_back(rank);
    }
    return ranks;
}

std::vector<Finding> LivenessCheck::findings(Clock::time_point now) const {
    std::vector<Finding> findings;
    for (const auto& [rank, peer] : peers_) {
        Finding found;
        found.rank = rank;
        found.waited = Seconds(now - peer.since);
        found.waits_for = peer.waits_for;
        // An earlier answer of the neighbour says nothing about now.
        found.state = peer.silent_neighbour < 0 ? peer.state : process_state::unknown;
        found.state_for = Seconds(now - peer.state_since);
        found.silent_neighbour = peer.silent_neighbour;
        if (silent(peer, now)) {
            found.verdict = Finding::Verdict::silent;
        } else if (!peer.answered || !peer.direct) {
            // The rank was not asked yet, or the engine reports it.
            continue;
        } else if (peer.waits_for >= 0) {
            found.verdict = Finding::Verdict::waits;
            if (own_rank_ != 0) continue;
        }
        findings.push_back(std::move(found));
    }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.waited > b.waited; });
    return findings;
}

}  // namespace mpi_bridge
