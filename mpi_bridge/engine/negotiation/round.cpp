// SPDX-License-Identifier: Apache-2.0
//
// The words of a round:
//   word 0        mask: what else this round is to do, see Status; number: the digest of what this
//                 member announces
//   word 1        number: the complement of that digest, so that the largest of both tell whether
//                 all are equal
//   words 2, 3    numbers: digest of the settings that must be equal, and its complement
//   word 1+i/64   mask, bit i%64: name i of the pending table is not ready on this member
// What the mask of word 0 asks for follows in the same round, in the order of Status.
#include "engine/negotiation/round.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

using Id = PendingTable::Id;
using Index = RequestTable::Index;
using Stage = OwnRequest::Stage;

enum Status : std::uint64_t {
    announces = 1,    // has something to say of names
    joins = 2,        // has joined since its last round
    leaves_plan = 4,  // asks all to leave the plan
    asks_who = 8,     // wants to know who has submitted what
    stays_open = 16,  // has not been told to close
};

constexpr std::size_t least_words = 4;
constexpr std::size_t first_name_word = 1;

bool all_equal(const Word& largest, const Word& largest_complement) {
    return largest.number == ~largest_complement.number;
}

std::vector<std::byte> bytes_of(const Bits& words) {
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
    collect();
    wait_ = Wait::words;
    return Reduce{.what = "control round", .words = heard_};
}

// Writes down what this rank says in the round.
void Round::collect() {
    bits_ = member_.names.size();
    heard_.assign(std::max(least_words, first_name_word + (bits_ + 63) / 64), Word{});
    if (!member_.joined) {
        for (std::size_t word = first_name_word; word < heard_.size(); ++word)
            heard_[word].mask = ~std::uint64_t{0};
    }
    std::vector<Index> to_announce;
    for (Index index = 0; index < member_.requests.size(); ++index) {
        OwnRequest& request = member_.requests.at(index);
        if (request.stage != Stage::waiting || request.planned) continue;
        if (request.descriptor.kind == Kind::join) continue;
        if (request.settled) {
            heard_[first_name_word + request.id / 64].mask &=
                ~(std::uint64_t{1} << (request.id % 64));
            request.reported = true;
        } else if (!request.announced) {
            to_announce.push_back(index);
        }
    }
    std::sort(to_announce.begin(), to_announce.end(), [&](Index first, Index second) {
        return member_.requests.at(first).number < member_.requests.at(second).number;
    });
    announced_.clear();
    for (const Index index : to_announce) {
        OwnRequest& request = member_.requests.at(index);
        request.announced = true;
        announced_.push_back({request.name, request.descriptor});
    }
    encoded_ = encode(announced_);

    std::uint64_t status = 0;
    if (!announced_.empty()) status |= announces;
    if (member_.joined != member_.joined_reported) status |= joins;
    if (member_.wants_to_leave_plan()) status |= leaves_plan;
    if (member_.asks_who) status |= asks_who;
    if (!member_.closing) status |= stays_open;
    member_.joined_reported = member_.joined;
    member_.asks_who = false;
    heard_[0].mask |= status;
    heard_[0].number = digest_of(encoded_);
    heard_[1].number = ~heard_[0].number;
    heard_[2].number = member_.options.settings_digest;
    heard_[3].number = ~heard_[2].number;
}

Outcome<Step> Round::reduced(const std::vector<Word>& words) {
    switch (wait_) {
        case Wait::words:
            heard_ = words;
            if (!all_equal(heard_[2], heard_[3])) {
                return fail(MPIB_ERROR_MISMATCH,
                            "ranks have different bucket sizes; set MPI_BRIDGE_BUCKET_BYTES, "
                            "HOROVOD_FUSION_THRESHOLD and MPI_BRIDGE_FIRST_BUCKET_BYTES to the "
                            "same on every rank");
            }
            to_do_ = heard_[0].mask & (announces | joins | leaves_plan | asks_who);
            return next_exchange();
        case Wait::joins:
            count_joined(words);
            return next_exchange();
        case Wait::leave:
        case Wait::pause:
        case Wait::grow:
        case Wait::close:
            words_.clear();
            for (const Word& word : words)
                words_.push_back(word.mask);
            return StopPlan{words.front().number};
        case Wait::plan:
            if (auto done = adopt_plan(words); !done) return pass_on(std::move(done));
            return over();
        default:
            return fail(MPIB_ERROR_INTERNAL, "a round has got words that it did not ask for");
    }
}

// The exchanges that the members have asked for in the words of this round.
Outcome<Step> Round::next_exchange() {
    const auto takes = [this](Status status) {
        const bool taken = (to_do_ & status) != 0;
        to_do_ &= ~std::uint64_t{status};
        return taken;
    };
    if (takes(announces)) {
        if (!all_equal(heard_[0], heard_[1])) {
            wait_ = Wait::requests;
            return Gather{.what = "control round (new names)", .bytes = encoded_};
        }
        // All say the same, so they need not tell it to each other.
        hear_from_all();
    }
    if (takes(joins)) {
        std::vector<Word> words((member_.options.ranks.size() + 63) / 64);
        const auto own = static_cast<std::size_t>(member_.options.own);
        if (member_.joined_reported) words[own / 64].mask |= std::uint64_t{1} << (own % 64);
        wait_ = Wait::joins;
        return Reduce{.what = "control round (join)", .words = std::move(words)};
    }
    if (takes(leaves_plan))
        return stop_plan(Wait::leave, "control round (leaving the plan)", leave_words());
    if (takes(asks_who)) {
        Bits submitted((member_.names.size() + 63) / 64);
        for (Id id = 0; id < member_.names.size(); ++id) {
            const Index index = member_.requests.of(id);
            const bool here =
                index != RequestTable::none && member_.requests.at(index).stage != Stage::free;
            if (here || member_.joined) set_bit(submitted, id);
        }
        wait_ = Wait::who;
        return Gather{.what = "control round (who has what)", .bytes = bytes_of(submitted)};
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
    if (auto done = hear(bytes); !done) return pass_on(std::move(done));
    return next_exchange();
}

// Brings all members to the same place of the plan, where nothing runs and nothing is started.
// words[0] is overwritten, the others are agreed on.
Step Round::stop_plan(Wait for_what, std::string_view what, std::vector<Word> words) {
    member_.plan.frozen = true;
    words[0].number = member_.plan.started();
    wait_ = for_what;
    return Reduce{.what = what, .words = std::move(words)};
}

Outcome<Step> Round::plan_stopped(Clock::time_point now) {
    now_ = now;
    switch (wait_) {
        case Wait::leave:
            leave_plan(true);
            return next_exchange();
        case Wait::grow:
        case Wait::close:
            leave_plan(false);
            return over();
        case Wait::pause:
            // A bucket that not all members had is tried again afterwards.
            paused_ = true;
            return next_group();
        default:
            return fail(MPIB_ERROR_INTERNAL, "a round has stopped a plan that it uses");
    }
}

Outcome<Step> Round::after_exchanges() {
    if (all_have_joined()) {
        member_.complete_join(joined_.last);
        joined_.members.clear();
        return over();
    }
    Bits not_ready;
    for (std::size_t word = first_name_word; word < heard_.size(); ++word)
        not_ready.push_back(heard_[word].mask);
    const std::vector<Id> ready = find_ready(member_, joined_, not_ready, bits_);
    // All are submitted on all members, so no two of them depend on each other.
    std::vector<Sequenced> sequence;
    bool on_device = false;
    for (const Id id : ready) {
        const Descriptor& what = member_.names.at(id).descriptor;
        sequence.push_back({.id = id, .descriptor = &what, .serial = 1, .after = 0});
        on_device = on_device || what.device;
    }
    const std::size_t limit = member_.options.limits.others;
    groups_.clear();
    for (Bucket& bucket : arrange(sequence, {limit, limit})) {
        for (FusedGroup& group : bucket.groups)
            groups_.push_back(std::move(group));
    }
    if (on_device && member_.plan.on_device())
        return stop_plan(Wait::pause, "control round (pausing the plan)", std::vector<Word>(1));
    return next_group();
}

Outcome<Step> Round::next_group() {
    if (groups_.empty()) return after_groups();
    RunGroup run{.group = std::move(groups_.front()), .requests = {}, .counts = {}};
    groups_.pop_front();
    if (member_.failure) return tl::unexpected(*member_.failure);
    for (const Id id : run.group.ids) {
        Index index = member_.requests.of(id);
        // This rank has joined.
        if (index != RequestTable::none && member_.requests.at(index).stage != Stage::waiting)
            index = RequestTable::none;
        if (index != RequestTable::none) member_.requests.at(index).stage = Stage::running;
        run.requests.push_back(index);
        const Descriptor& what = member_.names.at(id).descriptor;
        run.counts.push_back(what.kind == Kind::allreduce ? elements(what) : 0);
    }
    wait_ = Wait::nothing;
    return run;
}

Outcome<Step> Round::group_done(const RunGroup& done, const Done& outcome, bool refused,
                                Clock::time_point now) {
    now_ = now;
    std::optional<Failure> failure;
    // What failed first explains more than what its end has broken here.
    if (!outcome) failure = member_.failure ? *member_.failure : outcome.error();
    for (std::size_t at = 0; at < done.group.ids.size(); ++at) {
        const Id id = done.group.ids[at];
        const auto& record = member_.names.at(id);
        member_.names.executed(id, ++member_.serial);
        // What all members refuse has no place in a plan.
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
    // A member that is in the middle of the plan must not be left there.
    if (closed() && member_.plan.active())
        return stop_plan(Wait::close, "control round (closing)", leave_words());
    if (joined_.any()) return over();
    auto step = member_.recorder.step();
    if (!step) return over();
    auto sequence = choose_planned(member_.names, *step);
    if (!member_.plan.active()) {
        member_.recorder.restart();
        if (sequence.empty()) return over();
        return verify_plan(std::move(sequence));
    }
    member_.recorder.restart_after_step();
    if (sequence.empty() || !growth_.step_seen()) return over();
    return stop_plan(Wait::grow, "control round (leaving the plan)", leave_words());
}

// All members have seen the same step after the same round. They compare it, and each adds to it
// what only it knows: which requests must not share a bucket.
Step Round::verify_plan(std::vector<Sequenced> sequence) {
    std::vector<NamedRequest> contents;
    std::vector<Word> words(sequence.size() + 2);
    for (std::size_t at = 0; at < sequence.size(); ++at) {
        const auto& record = member_.names.at(sequence[at].id);
        contents.push_back({record.name, record.descriptor});
        const Index index = member_.requests.of(sequence[at].id);
        words[at].number =
            index == RequestTable::none ? 0 : member_.requests.at(index).executed_after;
    }
    digest_ = digest_of(encode(contents));
    words[sequence.size()].number = digest_;
    words[sequence.size() + 1].number = ~digest_;
    sequence_ = std::move(sequence);
    wait_ = Wait::plan;
    return Reduce{.what = "control round (plan)", .words = std::move(words), .verifies_plan = true};
}

Done Round::adopt_plan(const std::vector<Word>& words) {
    const std::size_t count = sequence_.size();
    if (words[count].number != digest_ || words[count + 1].number != ~digest_)
        return fail(MPIB_ERROR_INTERNAL, "ranks have recorded different plans");
    for (std::size_t at = 0; at < count; ++at)
        sequence_[at].after = words[at].number;
    growth_.restart();
    member_.adopt(make_buckets(member_.names, sequence_, member_.options.limits), now_);
    return {};
}

Step Round::over() {
    forget_names();
    wait_ = Wait::nothing;
    return RoundOver{.closed = closed()};
}

bool Round::closed() const {
    return (heard_[0].mask & stays_open) == 0;
}

void Round::hear_from_all() {
    for (const NamedRequest& each : announced_)
        heard(member_.names.hear_from_all(each, member_.options.ranks));
}

Done Round::hear(const std::vector<std::vector<std::byte>>& bytes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        const auto requests = decode(bytes[at]);
        if (!requests) return tl::unexpected(requests.error());
        const int rank = member_.options.ranks[at];
        for (const NamedRequest& each : *requests) {
            const Id id = member_.names.hear(static_cast<int>(at), rank, each);
            heard(id);
            const Index index = member_.requests.of(id);
            if (index != RequestTable::none) heard_from.emplace_back(index, rank);
        }
    }
    return {};
}

// A name is open, for the first time or again. If it is in use here, the others must hear of it.
void Round::heard(Id id) {
    Index index = member_.requests.of(id);
    if (index == RequestTable::none) {
        index = member_.requests.find(member_.names.at(id).name);
        if (index == RequestTable::none) return;
        member_.requests.link(index, id);
    }
    member_.requests.at(index).settled = false;
}

void Round::count_joined(const std::vector<Word>& words) {
    for (std::size_t at = 0; at < member_.options.ranks.size(); ++at) {
        const bool has_joined = (words[at / 64].mask >> (at % 64) & 1) != 0;
        if (!has_joined || has_bit(joined_.members, at)) continue;
        set_bit(joined_.members, at);
        joined_.last = member_.options.ranks[at];
    }
    member_.recorder.restart();
}

bool Round::all_have_joined() const {
    for (std::size_t at = 0; at < member_.options.ranks.size(); ++at) {
        if (!has_bit(joined_.members, at)) return false;
    }
    return true;
}

// The names that keep this rank's plan from going on, bit by bit after the first word.
std::vector<Word> Round::leave_words() const {
    std::vector<Word> words(1 + (member_.names.size() + 63) / 64);
    PlannedOrder& plan = member_.plan;
    if (!member_.order_changed || plan.busy || plan.head().missing == 0) return words;
    for (const PlannedGroup& group : plan.head().groups) {
        for (const Id id : group.ids) {
            const Index index = member_.requests.of(id);
            if (index == RequestTable::none || !member_.requests.at(index).planned)
                words[1 + id / 64].mask |= std::uint64_t{1} << (id % 64);
        }
    }
    return words;
}

void Round::leave_plan(bool asked) {
    member_.drop_plan();
    for (Id id = 0; id < member_.names.size(); ++id) {
        if ((words_[1 + id / 64] >> (id % 64) & 1) != 0) member_.names.plan_broken_by(id);
    }
    member_.recorder.restart();
    growth_.restart();
    if (asked) ++member_.plans_left;
}

void Round::forget_names() {
    const auto kept = [this](Id id) {
        const Index index = member_.requests.of(id);
        return member_.plan.active() && index != RequestTable::none &&
               member_.requests.at(index).bucket >= 0;
    };
    for (const Id id : member_.names.forget(kept))
        member_.requests.unlink(id);
}

Bits Round::missing(Index index) const {
    const Id id = member_.requests.at(index).id;
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
