// SPDX-License-Identifier: Apache-2.0
//
// The conductor: control rounds, and what they find ready.
//
// A round is one allreduce of a few words, begun by whoever has news (see agreement.hpp):
//   word 0        masks: what else this round is to do, see Status; number: the digest of what this
//                 member announces
//   word 1        number: the complement of that digest, so that the largest of both tell whether
//                 all are equal
//   words 2, 3    numbers: digest of the settings that must be equal, and its complement
//   word 1+i/64   mask, bit i%64: name i of the ledger is not ready on this member
// What the masks of word 0 ask for follows in the same round, in the order of Status.
#include <algorithm>
#include <bit>
#include <map>

#include <fmt/core.h>

#include "engine/catching.hpp"
#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

enum Status : std::uint64_t {
    announces = 1,    // has something to say of names
    joins = 2,        // has joined since its last round
    leaves_plan = 4,  // asks all to leave the plan
    asks_who = 8,     // wants to know who has submitted what
    stays_open = 16,  // has not been told to close
};

constexpr std::size_t least_words = 4;
constexpr std::size_t first_name_word = 1;

bool all_equal(std::uint64_t largest, std::uint64_t largest_complement) {
    return largest == ~largest_complement;
}

void set_bit(std::vector<std::uint64_t>& bits, int at) {
    bits[static_cast<std::size_t>(at) / 64] |= std::uint64_t{1} << (at % 64);
}
bool has_bit(const std::vector<std::uint64_t>& bits, int at) {
    return (bits[static_cast<std::size_t>(at) / 64] >> (at % 64) & 1) != 0;
}
int count_bits(const std::vector<std::uint64_t>& bits) {
    int count = 0;
    for (const std::uint64_t word : bits)
        count += std::popcount(word);
    return count;
}

std::uint64_t digest_of_settings(const EngineSettings& settings) {
    const std::uint64_t sizes[] = {settings.first_bucket_bytes, settings.bucket_bytes};
    return digest_of(std::as_bytes(std::span(sizes)));
}

}  // namespace

// What this rank says in a round; afterwards, what all have said.
struct Ensemble::Report {
    std::vector<Word> words;
    std::vector<Announcement> announcements;
    std::vector<std::byte> encoded;
    std::size_t names = 0;  // of the ledger, that have a bit

    [[nodiscard]] bool asks(Status status) const { return (words[0].mask & status) != 0; }
    [[nodiscard]] bool ready(Ledger::Id id) const {
        return (words[first_name_word + id / 64].mask >> (id % 64) & 1) == 0;
    }
};

void Ensemble::conduct() {
    conduct_rounds();
    part_from_devices();
    const Lock lock(mutex_);
    conductor_ended_ = true;
    if (closed_) {
        failure_ = Failure{MPIB_ERROR_INVALID_ARGUMENT, "the process set was removed"};
        finish_all_waiting(*failure_);
        ending_ = true;
        lane_work_.notify_all();
    }
    changed_.notify_all();
}

void Ensemble::conduct_rounds() {
    const auto failed = [this](const Done& done) {
        if (!done) host_.fail_all(done.error());
        return !done;
    };
    if (failed(open(control_, Channel::Lane::control))) return;
    while (!ending_ && !closed_) {
        const auto woken =
            control_->next_call([this] { return news_ || ending_; }, next_stall_look());
        if (!woken) {
            if (!ending_) host_.fail_all(woken.error());
            return;
        }
        if (ending_) return;
        if (failed(watch_devices())) return;
        bool pulse = false;
        if (*woken == Communicator::Next::late) pulse = look_for_stalls();
        if (*woken != Communicator::Next::call && !has_news() && !pulse) continue;
        if (failed(catching([this] { return round(); }))) return;
    }
}

// True when there is something to tell the others.
bool Ensemble::has_news() {
    const Lock lock(mutex_);
    news_ = false;
    if (asks_who_ || closing_ || (wants_to_leave_ && lane_.active())) return true;
    if (joined_here_ != joined_reported_) return true;
    for (Index index = 0; index < table_.size(); ++index) {
        const Entry& entry = table_.at(index);
        if (entry.stage != Entry::Stage::waiting || entry.planned) continue;
        if (entry.descriptor.kind == Kind::join) continue;
        if (entry.settled ? !entry.reported : !entry.announced) return true;
    }
    return false;
}

Ensemble::Report Ensemble::collect() {
    const Lock lock(mutex_);
    news_ = false;
    Report report;
    report.names = ledger_.size();
    report.words.resize(std::max(least_words, first_name_word + (report.names + 63) / 64));
    if (!joined_here_) {
        for (std::size_t word = first_name_word; word < report.words.size(); ++word)
            report.words[word].mask = ~std::uint64_t{0};
    }
    std::vector<Entry*> to_announce;
    for (Index index = 0; index < table_.size(); ++index) {
        Entry& entry = table_.at(index);
        if (entry.stage != Entry::Stage::waiting || entry.planned) continue;
        if (entry.descriptor.kind == Kind::join) continue;
        if (entry.settled) {
            report.words[first_name_word + entry.id / 64].mask &=
                ~(std::uint64_t{1} << (entry.id % 64));
            entry.reported = true;
        } else if (!entry.announced) {
            to_announce.push_back(&entry);
        }
    }
    std::sort(to_announce.begin(), to_announce.end(), [](const Entry* first, const Entry* second) {
        return first->number < second->number;
    });
    for (Entry* entry : to_announce) {
        entry->announced = true;
        report.announcements.push_back({entry->name, entry->descriptor});
    }
    report.encoded = encode(report.announcements);

    Word* const words = report.words.data();
    if (!report.announcements.empty()) words[0].mask |= announces;
    if (joined_here_ != joined_reported_) words[0].mask |= joins;
    if (wants_to_leave_ && lane_.active()) words[0].mask |= leaves_plan;
    if (asks_who_) words[0].mask |= Status::asks_who;
    if (!closing_) words[0].mask |= stays_open;
    joined_reported_ = joined_here_;
    asks_who_ = false;
    words[0].number = digest_of(report.encoded);
    words[1].number = ~words[0].number;
    words[2].number = digest_of_settings(host_.parts().settings);
    words[3].number = ~words[2].number;
    return report;
}

Done Ensemble::check_settings(const Report& report) const {
    if (all_equal(report.words[2].number, report.words[3].number)) return {};
    return fail(MPIB_ERROR_MISMATCH,
                "ranks have different bucket sizes; set MPI_BRIDGE_BUCKET_BYTES, "
                "HOROVOD_FUSION_THRESHOLD and MPI_BRIDGE_FIRST_BUCKET_BYTES to the "
                "same on every rank");
}

Done Ensemble::round() {
    const Activity activity{{}, Phase::control_round, MPIB_BARRIER, process_set_};
    const auto began = Clock::now();
    trace().timeline.begin(activity);
    if (auto done = call_together(*control_, timeout()); !done) return done;
    Report report = collect();
    if (auto done = agree(*control_, "control round", timeout(), report.words); !done) return done;
    if (auto done = check_settings(report); !done) return done;
    if (report.asks(announces)) {
        if (auto done = hear(report); !done) return done;
    }
    if (report.asks(joins)) {
        if (auto done = count_joined(); !done) return done;
    }
    if (report.asks(leaves_plan)) {
        if (auto done = leave_plan(true); !done) return done;
    }
    if (report.asks(Status::asks_who)) {
        if (auto done = ask_who(); !done) return done;
    }
    trace().timeline.end(activity);
    trace().counters.add_negotiation(Clock::now() - began);
    if (count_bits(joined_) == group_.size()) {
        complete_join();
        return {};
    }
    latest_round_ = Clock::now();
    if (auto done = run_ready(find_ready(report)); !done) return done;
    if (auto done = consider_plan(); !done) return done;
    forget_names();
    closed_ = !report.asks(stays_open);
    return {};
}

// Takes down what all members announce.
Done Ensemble::hear(const Report& report) {
    if (all_equal(report.words[0].number, report.words[1].number)) {
        // All say the same: no need to tell it to each other.
        const Lock lock(mutex_);
        for (const Announcement& each : report.announcements)
            heard(ledger_.hear_from_all(each, group_.ranks));
        return {};
    }
    const auto all = gather_announcements(*control_, timeout(), report.encoded);
    if (!all) return tl::unexpected(all.error());
    const Lock lock(mutex_);
    for (int member = 0; member < group_.size(); ++member) {
        const int rank = group_.ranks[static_cast<std::size_t>(member)];
        for (const Announcement& each : (*all)[static_cast<std::size_t>(member)]) {
            const Ledger::Id id = ledger_.hear(member, rank, each);
            heard(id);
            const Entry* entry = table_.of(id);
            if (entry != nullptr) trace().timeline.tick(shown(*entry, Phase::negotiate), rank);
        }
    }
    return {};
}

// A name is open, for the first time or again: if it is in use here, the others must hear of it.
void Ensemble::heard(Ledger::Id id) {
    Entry* entry = table_.of(id);
    if (entry == nullptr) {
        const Index index = table_.find(ledger_.at(id).name);
        if (index == EntryTable::none) return;
        table_.link(index, id);
        entry = &table_.at(index);
    }
    entry->settled = false;
    if (entry->stage == Entry::Stage::waiting && !entry->announced) news_ = true;
}

Done Ensemble::count_joined() {
    std::vector<Word> words(joined_.size());
    if (joined_reported_) {
        words[static_cast<std::size_t>(group_.own) / 64].mask |= std::uint64_t{1}
                                                                 << (group_.own % 64);
    }
    if (auto done = agree(*control_, "control round (join)", timeout(), words); !done) return done;
    for (int member = 0; member < group_.size(); ++member) {
        const bool joined =
            (words[static_cast<std::size_t>(member) / 64].mask >> (member % 64)) & 1;
        if (!joined || has_bit(joined_, member)) continue;
        set_bit(joined_, member);
        last_joined_ = group_.ranks[static_cast<std::size_t>(member)];
    }
    recorder_.restart();
    return {};
}

void Ensemble::complete_join() {
    const Lock lock(mutex_);
    std::fill(joined_.begin(), joined_.end(), 0);
    joined_here_ = false;
    joined_reported_ = false;
    for (Index index = 0; index < table_.size(); ++index) {
        Entry& entry = table_.at(index);
        if (entry.stage != Entry::Stage::waiting) continue;
        if (entry.descriptor.kind == Kind::join) {
            entry.last_joined = last_joined_;
            finish(entry, {});
        } else {
            entry.reported = false;
            news_ = true;
        }
    }
    progress_ = Clock::now();
    changed_.notify_all();
}

// The names that every member has submitted, or that no member that has not joined lacks;
// ascending.
std::vector<Ledger::Id> Ensemble::find_ready(const Report& report) {
    std::vector<Ledger::Id> ready;
    const Lock lock(mutex_);
    for (Ledger::Id id = 0; id < report.names; ++id) {
        const auto& record = ledger_.at(id);
        if (!record.name.empty() && record.settled && report.ready(id)) ready.push_back(id);
    }
    settle_open(ready);
    refuse_while_joined(ready);
    hold_back_groups(ready);
    return ready;
}

// Adds the names of which all have now said the same; fails those of which they have not.
void Ensemble::settle_open(std::vector<Ledger::Id>& ready) {
    for (Ledger::Id id = 0; id < ledger_.size(); ++id) {
        if (!ledger_.is_complete(id, joined_)) continue;
        const auto mismatch = ledger_.settle(id);
        Entry* entry = table_.of(id);
        if (!mismatch) {
            if (entry != nullptr) reconsider(*entry);
            ready.push_back(id);
        } else if (entry != nullptr && entry->stage == Entry::Stage::waiting) {
            finish(*entry, fail(MPIB_ERROR_MISMATCH,
                                fmt::format("{} {}", name_of(entry->descriptor.kind), *mismatch)));
            changed_.notify_all();
        }
    }
    std::sort(ready.begin(), ready.end());
}

void Ensemble::refuse_while_joined(std::vector<Ledger::Id>& ready) {
    if (count_bits(joined_) == 0) return;
    const auto refused = [this](Ledger::Id id) {
        if (ledger_.at(id).descriptor.kind == Kind::allreduce) return false;
        Entry* entry = table_.of(id);
        if (entry == nullptr || entry->stage != Entry::Stage::waiting) return true;
        finish(*entry, fail(MPIB_ERROR_INVALID_ARGUMENT,
                            fmt::format("{} cannot run, because rank {} has joined; "
                                        "only allreduce can until all have",
                                        described(*entry), last_joined_)));
        return true;
    };
    std::erase_if(ready, refused);
    changed_.notify_all();
}

// Of a group of which some are not ready yet, the others must wait.
void Ensemble::hold_back_groups(std::vector<Ledger::Id>& ready) const {
    std::map<std::string_view, int> counts;
    for (const Ledger::Id id : ready)
        ++counts[ledger_.at(id).descriptor.group];
    std::erase_if(ready, [&](Ledger::Id id) {
        const Descriptor& what = ledger_.at(id).descriptor;
        return !what.group.empty() && counts[what.group] < what.group_size;
    });
}

}  // namespace mpi_bridge
