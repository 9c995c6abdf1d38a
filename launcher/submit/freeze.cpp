// SPDX-License-Identifier: GPL-2.0-or-later
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "base/text.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/findings.hpp"
#include "plan/plan_file.hpp"
#include "plan/sweep_file.hpp"
#include "snapshot/copy.hpp"
#include "submit/local_secrets.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

// Says what a snapshot has that a user may not expect.
void describe(const plan::Snapshot& snapshot, const snapshot::Listing& listing,
              std::vector<std::string>& notices) {
    const record::Snapshot made = snapshot::described(snapshot, listing);
    std::string text =
        fmt::format("the snapshot of {} has {} files, {}", job::printable(snapshot.source),
                    made.files, base::size_text(made.bytes));
    if (made.commit)
        text += fmt::format(" (git commit {}{})",
                            made.commit->empty() ? "none" : made.commit->substr(0, 12),
                            *made.dirty ? ", with changes" : "");
    notices.push_back(std::move(text));
    const auto name = [&](const std::vector<std::string>& paths, std::string_view what) {
        if (!paths.empty())
            notices.push_back(fmt::format("{} {} (in all {})", job::printable(paths.front()), what,
                                          paths.size()));
    };
    name(listing.not_frozen,
         "is a link with an absolute path: what it leads to is not in the snapshot and may change");
    name(listing.left_out, "is not a file, directory or link, and is not in the snapshot");
    for (const std::string& why : listing.why_no_repository)
        notices.push_back(fmt::format("all files are copied, because git cannot be asked: {}",
                                      job::printable(why)));
}

// Lists the directory of the snapshot, if the plan has one.
void list_snapshot(Submission& submission) {
    plan::Plan& plan = *submission.plan;
    if (!plan.snapshot) return;
    auto listed = snapshot::list(*plan.snapshot, secret_files(holders_of(submission)));
    if (listed) {
        describe(*plan.snapshot, *listed, plan.notices);
        submission.snapshot = std::move(*listed);
        return;
    }
    plan::Findings findings(submission.positions);
    findings.add(plan::Finding::bad_snapshot, "/properties/snapshot",
                 fmt::format("{}: {}", listed.error().where, listed.error().what),
                 listed.error().hint);
    auto faults = findings.take();
    std::move(faults.begin(), faults.end(), std::back_inserter(submission.diagnostics));
}

}  // namespace

base::Result<void> freeze(Submission& submission) {
    if (submission.goal != Goal::checked) list_snapshot(submission);
    plan::Plan& plan = *submission.plan;
    if (submission.cluster) {
        const auto& notices = submission.cluster->notices;
        plan.notices.insert(plan.notices.end(), notices.begin(), notices.end());
    }
    if (submission.sweep) {
        submission.sweep_json = plan::to_json(*submission.sweep);
        plan.sweep->digest = base::sha256_hex(submission.sweep_json);
    }
    submission.json = plan::to_json(plan);
    submission.digest = base::sha256_hex(submission.json);
    return {};
}

}  // namespace batchai::submit
