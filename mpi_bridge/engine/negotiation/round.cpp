// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/round.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

using Wish = Announcement::Wish;

std::vector<std::byte> bytes_of_bits(const Bits& words) {
    std::vector<std::byte> bytes(words.size() * sizeof(std::uint64_t));
    if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
}

Bits words_of(const std::vector<std::byte>& bytes) {
    Bits words(bytes.size() / sizeof(std::uint64_t));
    if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof words[0]);
    return words;
}

}  // namespace

Step Round::begin() {
    wait_ = Wait::call;
    return CallTogether{};
}

Outcome<Step> Round::called_together() {
    said_ = announce(member_);
    wait_ = Wait::words;
    return ReduceWords{.what = "control round", .words = said_.words};
}

Outcome<Step> Round::reduced(const std::vector<Word>& words) {
    switch (wait_) {
        case Wait::words:
            said_.words = words;
            TRY(said_.settings_agree());
            if (said_.plan_is_used()) plan_change_.plan_used();
            to_do_ = said_.wishes();
            return next_exchange();
        case Wait::joins:
            joined_.count(words, member_.options.ranks);
            member_.recorder.restart();
            return next_exchange();
        case Wait::leave:
        case Wait::pause:
        case Wait::grow:
        case Wait::close:
            objections_ = words;
            return StopPlan{words.front().number};
        case Wait::plan:
            TRY(plan_change_.adopt(words, now_));
            return over();
        default:
            return fail(MPIB_ERROR_INTERNAL, "a round has got words that it did not ask for");
    }
}

// Takes the next of the exchanges that the members have asked for in the words of this round.
Outcome<Step> Round::next_exchange() {
    const auto takes = [this](Wish wish) {
        const bool taken = (to_do_ & wish) != 0;
        to_do_ &= ~std::uint64_t{wish};
        return taken;
    };
    if (takes(Wish::announces)) {
        if (!said_.all_announce_the_same()) {
            wait_ = Wait::requests;
            return GatherBytes{.what = "control round (new names)", .bytes = said_.encoded};
        }
        // All members announce the same, so there is nothing to exchange.
        hear_from_all();
    }
    if (takes(Wish::joins)) {
        std::vector<Word> words((member_.options.ranks.size() + 63) / 64);
        const auto own = static_cast<std::size_t>(member_.options.own);
        if (member_.joined_reported) words[own / 64].mask |= std::uint64_t{1} << (own % 64);
        wait_ = Wait::joins;
        return ReduceWords{.what = "control round (join)", .words = std::move(words)};
    }
    if (takes(Wish::leaves_plan))
        return stop_plan(Wait::leave, "control round (leaving the plan)",
                         plan_change_.objections());
    if (takes(Wish::asks_who)) {
        Bits submitted((member_.names.size() + 63) / 64);
        for (PendingTable::Id id = 0; id < member_.names.size(); ++id) {
            const RequestTable::Index index = member_.requests.of(id);
            const bool here = index != RequestTable::none &&
                              member_.requests.at(index).state != OwnRequest::State::free;
            if (here || member_.joined) set_bit(submitted, id);
        }
        wait_ = Wait::who;
        return GatherBytes{.what = "control round (who has what)",
                           .bytes = bytes_of_bits(submitted)};
    }
    return after_exchanges();
}

Outcome<Step> Round::gathered(const std::vector<std::vector<std::byte>>& bytes) {
    if (wait_ == Wait::who) {
        submitted_.clear();
        for (const auto& each : bytes)
            submitted_.push_back(words_of(each));
        who_heard = true;
        return next_exchange();
    }
    TRY(hear(bytes));
    return next_exchange();
}

// Brings all members to the same place of the plan, where nothing runs and nothing is started.
// words[0] is overwritten; the other words are reduced along with it.
Step Round::stop_plan(Wait for_what, std::string_view what, std::vector<Word> words) {
    member_.plan.frozen = true;
    words[0].number = member_.plan.started();
    wait_ = for_what;
    return ReduceWords{.what = what, .words = std::move(words)};
}

Outcome<Step> Round::plan_stopped(Clock::time_point now) {
    now_ = now;
    switch (wait_) {
        case Wait::leave:
            plan_change_.leave(objections_, true);
            return next_exchange();
        case Wait::grow:
        case Wait::close:
            plan_change_.leave(objections_, false);
            return over();
        case Wait::pause:
            // A bucket that was not executed, because a member lacked some of it, runs again later.
            paused_ = true;
            return next_group();
        default:
            return fail(MPIB_ERROR_INTERNAL, "a round has stopped a plan that it uses");
    }
}

Outcome<Step> Round::after_exchanges() {
    if (joined_.all(member_.options.ranks)) {
        member_.complete_join(joined_.last);
        joined_.members.clear();
        return over();
    }
    const std::vector<PendingTable::Id> ready =
        find_ready(member_, joined_, said_.not_ready(), said_.names);
    // All operations are submitted on all members, so none depends on another.
    std::vector<Sequenced> sequence;
    bool pauses_plan = false;
    for (const PendingTable::Id id : ready) {
        const Descriptor& what = member_.names.at(id).descriptor;
        sequence.push_back({.id = id,
                            .descriptor = &what,
                            .serial = 1,
                            .after = 0,
                            .name = member_.names.at(id).name});
        pauses_plan = pauses_plan || what.device || what.kind == Kind::add_process_set;
    }
    const std::size_t limit = member_.options.limits.others;
    groups_.clear();
    for (Bucket& bucket : arrange(sequence, {limit, limit})) {
        for (FusedGroup& group : bucket.groups)
            groups_.push_back(std::move(group));
    }
    if (pauses_plan && member_.plan.on_device())
        return stop_plan(Wait::pause, "control round (pausing the plan)", std::vector<Word>(1));
    return next_group();
}

Outcome<Step> Round::next_group() {
    if (groups_.empty()) return after_groups();
    RunGroup run{.group = std::move(groups_.front()), .requests = {}};
    groups_.pop_front();
    if (member_.failure) return tl::unexpected(*member_.failure);
    for (const PendingTable::Id id : run.group.ids) {
        RequestTable::Index index = member_.requests.of(id);
        // This rank has joined and takes part without a tensor.
        if (index != RequestTable::none &&
            member_.requests.at(index).state != OwnRequest::State::waiting)
            index = RequestTable::none;
        if (index != RequestTable::none)
            member_.requests.at(index).state = OwnRequest::State::running;
        run.requests.push_back(index);
    }
    wait_ = Wait::nothing;
    return run;
}

Outcome<Step> Round::group_done(const RunGroup& done, const Done& outcome, bool refused,
                                Clock::time_point now) {
    now_ = now;
    std::optional<Failure> failure;
    // The first failure explains more than the errors that follow from it here.
    if (!outcome) failure = member_.failure ? *member_.failure : outcome.error();
    for (std::size_t at = 0; at < done.group.ids.size(); ++at) {
        const PendingTable::Id id = done.group.ids[at];
        const auto& record = member_.names.at(id);
        member_.names.executed(id, ++member_.serial);
        // A group that all members refuse has no place in a plan, so only successful executions
        // count.
        if (!failure && is_plannable(record.descriptor, record.name))
            member_.recorder.executed({id, member_.serial});
        if (done.requests[at] == RequestTable::none) continue;
        OwnRequest& request = member_.requests.at(done.requests[at]);
        request.serial = member_.serial;
        request.executed_after = request.after;
        member_.complete(done.requests[at], failure);
    }
    if (failure && (!refused || member_.failure)) return tl::unexpected(*failure);
    return next_group();
}

Outcome<Step> Round::after_groups() {
    if (paused_) {
        paused_ = false;
        if (!member_.failure) member_.plan.frozen = false;
    }
    // A member that is in the middle of a bucket of the plan must not be left there.
    if (said_.all_close() && member_.plan.active())
        return stop_plan(Wait::close, "control round (closing)", plan_change_.objections());
    if (joined_.any()) return over();
    switch (plan_change_.next()) {
        case PlanChange::Next::verify:
            wait_ = Wait::plan;
            return ReduceWords{.what = "control round (plan)",
                               .words = plan_change_.proposal(),
                               .verifies_plan = true};
        case PlanChange::Next::leave:
            return stop_plan(Wait::grow, "control round (leaving the plan)",
                             plan_change_.objections());
        case PlanChange::Next::nothing:
            break;
    }
    return over();
}

Step Round::over() {
    forget_names();
    wait_ = Wait::nothing;
    return RoundOver{.closed = said_.all_close()};
}

void Round::hear_from_all() {
    for (const NamedRequest& each : said_.requests)
        heard(member_.names.hear_from_all(each, member_.options.ranks));
}

Done Round::hear(const std::vector<std::vector<std::byte>>& bytes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        const auto requests = TRY(decode(bytes[at]));
        const int rank = member_.options.ranks[at];
        for (const NamedRequest& each : requests) {
            const PendingTable::Id id = member_.names.hear(static_cast<int>(at), rank, each);
            heard(id);
            const RequestTable::Index index = member_.requests.of(id);
            if (index != RequestTable::none) heard_from.emplace_back(index, rank);
        }
    }
    return {};
}

// The name is open, for the first time or again. If this rank uses it, its request has to be
// announced.
void Round::heard(PendingTable::Id id) {
    RequestTable::Index index = member_.requests.of(id);
    if (index == RequestTable::none) {
        index = member_.requests.find(member_.names.at(id).name);
        if (index == RequestTable::none) return;
        member_.requests.link(index, id);
    }
    member_.requests.at(index).settled = false;
}

void Round::forget_names() {
    const auto kept = [this](PendingTable::Id id) {
        const RequestTable::Index index = member_.requests.of(id);
        return member_.plan.active() && index != RequestTable::none &&
               member_.requests.at(index).bucket >= 0;
    };
    for (const PendingTable::Id id : member_.names.forget(kept))
        member_.requests.unlink(id);
}

Bits Round::missing(RequestTable::Index index) const {
    const PendingTable::Id id = member_.requests.at(index).id;
    const auto& ranks = member_.options.ranks;
    Bits mask;
    if (submitted_.empty() || id == PendingTable::none) return mask;
    mask.assign(static_cast<std::size_t>(ranks.back()) / 64 + 1, 0);
    for (std::size_t at = 0; at < submitted_.size(); ++at) {
        if (!has_bit(submitted_[at], id)) set_bit(mask, static_cast<std::size_t>(ranks[at]));
    }
    return mask;
}

}  // namespace mpi_bridge
