// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/host_updates.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "plan/elastic.hpp"
#include "record/elastic_files.hpp"
#include "run/context.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds between_update_looks{1};
constexpr mode_t of_the_user = 0700;
// A controller that takes longer has enough to do.
constexpr std::chrono::seconds slow_answer{1};

constexpr const char* cannot_tell = "the ranks cannot be told that the nodes change: ";

void say(const Context& context, const std::string& line) {
    context.log.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    std::fflush(stdout);
}

void warn(const Context& context, const std::string& line) {
    context.log.master(line);
    std::fprintf(stderr, "batchai: warning: %s\n", line.c_str());
}

}  // namespace

HostUpdates::HostUpdates(const Context& context, Hosts& hosts, Ask ask)
    : context_(context), ask_(std::move(ask)), hosts_(hosts) {
    record::forget_resize_request(context.files());
}

void HostUpdates::complain(const std::string& line) {
    if (std::exchange(complaint_, line) != line) warn(context_, line);
}

void HostUpdates::begin(Clock::time_point now) {
    told_.clear();
    returned_.clear();
    next_look_ = now;
    interval_ = between_questions;
    next_question_ = now + interval_;
    record::forget_hosts_updates(context_.files());
    // The ranks would make it with the permissions of the user's umask.
    const auto made = base::make_directories(context_.files().elastic(), of_the_user).and_then([&] {
        return base::check_own_directory(context_.files().elastic().string());
    });
    if (!made) complain(cannot_tell + made.error().text());
}

void HostUpdates::poll(Clock::time_point now) {
    if (now >= next_look_) {
        next_look_ = now + between_update_looks;
        take_request(now);
    }
    if (now < next_question_ || !told_.empty()) return;
    const auto before = Clock::now();
    const bool answered = ask_slurm();
    interval_ = answered && Clock::now() - before < slow_answer
                    ? between_questions
                    : std::min(2 * interval_, longest_between_questions);
    next_question_ = now + interval_;
}

bool HostUpdates::ranks_have_left() const {
    return !told_.empty() && record::ranks_have_left(context_.files(), context_.start());
}

void HostUpdates::ranks_went_on(const Nodes& nodes, const Nodes& dead) {
    hosts_.place = without(hosts_.place, nodes);
    hosts_.unfit.insert(dead.begin(), dead.end());
}

void HostUpdates::take_request(Clock::time_point now) {
    const auto request = record::take_resize_request(context_.files());
    if (!request) {
        complain("a request to resize the job is ignored: " + request.error().text());
        return;
    }
    if (!*request || (*request)->attempt != context_.attempt()) return;
    const int wanted = (*request)->nodes;
    if (wanted < hosts_.least) {
        warn(context_, fmt::format("a request to resize the job to {} nodes is ignored, because it "
                                   "needs {} ({})",
                                   wanted, hosts_.least, plan::elastic_nodes_variable));
        return;
    }
    hosts_.wanted = wanted;
    say(context_, fmt::format("the job is to keep {} of its nodes", wanted));
    // Which nodes leave depends on their present states.
    next_question_ = now;
}

// The request stays until it can be met, or until nothing is left to do.
void HostUpdates::check_request(const SlurmsView& view) {
    if (!hosts_.wanted) return;
    if (static_cast<int>(view.job.nodes.size()) <= *hosts_.wanted) {
        say(context_, fmt::format("the job has only {} nodes already", view.job.nodes.size()));
        hosts_.wanted.reset();
        return;
    }
    const std::size_t usable = decide(hosts_, view).nodes.size();
    if (static_cast<int>(usable) < hosts_.least)
        complain(
            fmt::format("the job does not give back nodes yet, because it could use only {} "
                        "afterwards, but needs {} ({})",
                        usable, hosts_.least, plan::elastic_nodes_variable));
}

bool HostUpdates::ask_slurm() {
    const auto view = ask_();
    // The controller may be busy. The question is asked again.
    if (!view) return false;
    check_request(*view);
    Difference due = due_for(hosts_, *view);
    const Nodes before = std::exchange(returned_, due.added);
    std::erase_if(due.added, [&](const std::string& name) {
        return std::find(before.begin(), before.end(), name) == before.end() ||
               returns_[name] >= most_returns;
    });
    if (due.empty()) return true;
    for (const std::string& name : due.added)
        ++returns_[name];
    tell(due);
    return true;
}

void HostUpdates::tell(const Difference& difference) {
    if (!told_.empty()) return;
    const auto announced = record::announce(
        context_.files(), {.start = context_.start(), .change = difference.change()});
    if (!announced) {
        complain(cannot_tell + announced.error().text());
        return;
    }
    told_ = difference.text();
    say(context_, told_ + ": the ranks start again after their next commit");
}

}  // namespace batchai::run
