// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/named_job.hpp"
#include "job/syntax/utf8.hpp"
#include "status/history/findings.hpp"
#include "status/history/numbers.hpp"
#include "status/job_facts.hpp"
#include "status/page/page.hpp"
#include "status/usage/efficiency.hpp"

namespace batchai::cli {
namespace {

struct JobReportOptions {
    NamedJob job;
    std::optional<std::string> file;
};

// Returns the mode of a new file, as the user's umask has it.
mode_t mode_of_new_files() {
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

base::Result<void> write_page(const std::string& file, const std::string& page) {
    if (file == "-") {
        (void)print_bytes(page);
        return {};
    }
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
        return base::fail("is a directory", file, "name a file, such as report.html",
                          base::ExitCode::usage);
    // A device or a pipe would be replaced by a file.
    if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
        return base::fail("is not a regular file", file, "name a file, such as report.html",
                          base::ExitCode::usage);
    TRY(base::write_atomically(std::filesystem::absolute(file), page, mode_of_new_files()));
    say(fmt::format("the report is in {}", file));
    return {};
}

// Columns for people: what to change. The other numbers are in the JSON.
Table advice_columns(const Value& value) {
    const auto* const advice = value["advice"].array();
    if (advice == nullptr || advice->empty()) return {};
    Table table{{"What to change"}, {}};
    for (const Value& one : *advice)
        table.rows.push_back(
            {one["text"].string() == nullptr ? "" : job::printable(*one["text"].string())});
    return table;
}

Answer job_report(const JobReportOptions& options) {
    const auto of = TRY(key_of(options.job, "report"));
    const auto here = TRY(open_context());
    TRY(status::check_task(here.store, of));
    const auto view = TRY(status::view_job(here.store, here.slurm, of.key, of.task));
    auto facts = TRY(status::facts_of(here.store, view, of, {}));
    // What cannot be read hides nothing else.
    const auto used = status::efficiency_of_job(here.store, here.slurm, view);
    if (used && *used) {
        facts.advice_on_use = (*used)->advice_on_use;
        facts.advice_on_waits = (*used)->advice_on_waits;
    }
    const auto findings = status::judge(facts);
    if (!options.file) return Outcome{status::numbers_of(findings), advice_columns};
    TRY(write_page(*options.file, status::page_of(findings)));
    return Outcome{};
}

}  // namespace

const Verbs job_report_verbs("job", 70, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(
        tree, job, "report", "Make a page about a job: its phases, its ranks, and what to change",
        "batchai job report train --file report.html\n"
        "  batchai job report train --query 'advice[].text'",
        job_report);
    add_named_job(leaf, options->job);
    add_optional(leaf, "--file", options->file,
                 "Write the page to this file (\"-\": to standard output) instead of printing the "
                 "numbers")
        .type_name("FILE");
});

}  // namespace batchai::cli
