// SPDX-License-Identifier: GPL-2.0-or-later
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"

namespace batchai::cli {
namespace {

// Escapes text for roff. Hyphens stay plain hyphens, and a line that starts with "." or "'" does
// not become a request.
std::string roff(std::string_view text) {
    std::string out;
    bool line_start = true;
    for (const char c : text) {
        if (line_start && (c == '.' || c == '\'')) out += "\\&";
        line_start = c == '\n';
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return out;
}

std::string option_entry(const CLI::Option& option) {
    std::vector<std::string> words;
    for (const auto& word : option_words(option))
        words.push_back(fmt::format("\\fB{}\\fR", roff(word)));
    auto head = fmt::format("{}", fmt::join(words, ", "));
    if (words.empty()) head = fmt::format("\\fI{}\\fR", roff(option.get_name()));
    const bool flag = option.get_items_expected_max() == 0;
    if (!flag && !words.empty()) head += fmt::format(" \\fI{}\\fR", option.get_type_name());
    return fmt::format(".TP\n{}\n{}{}\n", head, roff(option.get_description()),
                       option.get_required() ? " (required)" : "");
}

std::string option_entries(const CLI::App& app) {
    std::string out;
    for (const bool positionals : {true, false}) {
        for (const auto* option : visible_options(app, positionals))
            out += option_entry(*option);
    }
    return out;
}

std::string example_of(const CLI::App& app) {
    auto text = app.get_footer();
    const auto start = text.find('\n');
    if (start == std::string::npos) return "";
    return fmt::format(".PP\nExample:\n.PP\n.nf\n.RS 4\n{}\n.RE\n.fi\n",
                       roff(base::trim(text.substr(start + 1))));
}

std::string commands_of(const CLI::App& app, const std::string& prefix) {
    std::string out;
    for (const auto* command : visible_commands(app)) {
        out += fmt::format(".TP\n\\fB{} {}\\fR\n{}\n", roff(prefix), roff(command->get_name()),
                           roff(command->get_description()));
    }
    return out;
}

constexpr std::string_view exit_status = R"(.SH EXIT STATUS
.TP
0
Done.
.TP
1
The operation failed.
.TP
2
The command line or the query is wrong.
.TP
3
The job file, the cluster file, site.lua or config.toml is wrong; nothing was changed.
.TP
4
Slurm or the store refused the request.
.TP
5
The named resource does not exist.
.TP
6
A deadline passed.
.PP
\fBbatchai job wait\fR and \fBbatchai run\fR exit with the job's exit code; \fBjob wait\fR with 255
when the job failed without one, and with 130 when it was interrupted.
)";

constexpr std::string_view environment = R"(.SH ENVIRONMENT
.TP
BATCHAI_HOME
The directory of all records, plans and the default storage [~/.batchai].
.TP
BATCHAI_SITE
The site's description, in place of the system's site.lua.
.TP
BATCHAI_DEFAULTS_GROUP, BATCHAI_DEFAULTS_WORKSPACE, BATCHAI_DEFAULTS_EXPERIMENT
Names for \-\-resource\-group, \-\-workspace and \-\-experiment that are not given; then
AZURE_DEFAULTS_GROUP, AZURE_DEFAULTS_WORKSPACE, AZURE_DEFAULTS_EXPERIMENT; then those of
config.toml; then "default".
.TP
XDG_CONFIG_HOME
The directory of batchai/config.toml [~/.config].
.TP
AZURE_BATCHAI_STORAGE_ACCOUNT, AZURE_BATCHAI_STORAGE_KEY
The storage account for the placeholders of a job file.
.TP
BATCHAI_PLAN, BATCHAI_PLAN_DIGEST
Set in jobs submitted with \-\-job\-json; read by \fBbatchai run\fR.
.TP
NO_COLOR
If set and not empty, output has no colours.
)";

constexpr std::string_view files = R"(.SH FILES
.TP
~/.config/batchai/config.toml
Your own defaults; see \fBbatchai config\fR.
.TP
~/.batchai/groups
The records of groups, workspaces, experiments, clusters and jobs.
.TP
~/.batchai/storage
The default storage, for accounts that the site does not name.
.TP
~/.batchai/hand\-over
The plans of job files that were given to sbatch, srun or salloc.
)";

std::string page_head(const std::string& page, const std::string& version,
                      const std::string& description) {
    return fmt::format(".TH {} 1 \"\" \"batchai {}\" \"Batch AI for Slurm\"\n.SH NAME\n{} \\- {}\n",
                       roff(base::upper(page)), version, roff(page), roff(description));
}

std::string root_page(const CLI::App& app, const std::string& version) {
    auto out = page_head("batchai", version, app.get_description());
    out +=
        ".SH SYNOPSIS\n\\fBbatchai\\fR \\fIcommand\\fR [\\fIsubcommand\\fR] "
        "[\\fIoptions\\fR]\n";
    out +=
        ".SH DESCRIPTION\nTakes the commands, options and job files of Batch AI and runs the "
        "jobs on Slurm.\nStarted under the name \\fBaz\\fR, or with \\fBbatchai\\fR as its "
        "first word, it takes the command lines of the Azure CLI.\n";
    out += ".SH COMMANDS\n" + commands_of(app, "batchai");
    out += ".SH OPTIONS\n" + option_entries(app);
    out += exit_status;
    out += environment;
    out += files;
    out += ".SH EXAMPLES\n" + example_of(app);
    std::vector<std::string> others;
    for (const auto& page : manual_pages(app)) {
        if (page != "batchai") others.push_back(fmt::format("\\fB{}\\fR(1)", roff(page)));
    }
    out += fmt::format(".SH SEE ALSO\n{}, \\fBsbatch\\fR(1), \\fBsqueue\\fR(1)\n",
                       fmt::join(others, ", "));
    return out;
}

std::string verb_page(const CLI::App& app, const std::string& page, const std::string& version) {
    auto out = page_head(page, version, app.get_description());
    std::string synopsis;
    std::string body;
    for (const auto& command : all_commands(app)) {
        if (!visible_commands(*command.app).empty()) continue;
        const auto words =
            "batchai " + app.get_name() + (command.path.empty() ? "" : " " + command.text());
        synopsis += fmt::format(".br\n\\fB{}\\fR [\\fIoptions\\fR]\n", roff(words));
        body +=
            fmt::format(".SS \"{}\"\n{}.\n{}{}", roff(words), roff(command.app->get_description()),
                        option_entries(*command.app), example_of(*command.app));
    }
    out += ".SH SYNOPSIS\n" + synopsis + ".SH COMMANDS\n" + body;
    out += exit_status;
    out += environment;
    out += files;
    out += ".SH SEE ALSO\n\\fBbatchai\\fR(1)\n";
    return out;
}

}  // namespace

std::vector<std::string> manual_pages(const CLI::App& app) {
    std::vector<std::string> pages{"batchai"};
    for (const auto* command : visible_commands(app))
        pages.push_back("batchai-" + command->get_name());
    return pages;
}

base::Result<std::string> manual_page(const CLI::App& app, const std::string& page,
                                      const std::string& version) {
    if (page == "batchai") return root_page(app, version);
    for (const auto* command : visible_commands(app)) {
        if (page == "batchai-" + command->get_name()) return verb_page(*command, page, version);
    }
    return base::fail(fmt::format("there is no manual page \"{}\"", page), "",
                      fmt::format("there are {}", fmt::join(manual_pages(app), ", ")),
                      base::ExitCode::not_found);
}

namespace {

struct ManualOptions {
    std::string page;
};

}  // namespace

const Verbs manual_verbs("", 170, [](CommandTree& tree, Parser app) {
    auto options = std::make_shared<ManualOptions>();
    const Parser leaf = add_leaf(
        tree, app, "man", "Print a manual page in roff", "batchai man batchai-job | man -l -",
        Printing::by_itself, [&tree, options]() -> Answer {
            const auto page = TRY(manual_page(tree.app, options->page, BATCHAI_VERSION));
            fmt::print("{}", page);
            return Outcome{};
        });
    leaf.add_option("page", options->page, "batchai, batchai-job, …").required();
    leaf.group("");
});

}  // namespace batchai::cli
