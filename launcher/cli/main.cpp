// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output/query.hpp"
#include "cli/report/volume_flags.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/walk.hpp"

namespace {

using namespace batchai;
using namespace batchai::cli;

int complain(const base::Error& error) {
    fmt::print(stderr, "batchai: error: {}\n", error.text());
    return static_cast<int>(error.exit_code);
}

// CLI11 reports --help and --version as parse errors with exit code 0.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "batchai: error: {}\n", error.what());
    const auto* command = &app;
    std::string words = "batchai";
    while (!command->get_subcommands().empty()) {
        command = command->get_subcommands().front();
        words += " " + command->get_name();
    }
    fmt::print(stderr, "hint: `{} --help` shows how it is used\n", words);
    return static_cast<int>(base::ExitCode::usage);
}

base::Result<OutputOptions> output_options(const GlobalOptions& global) {
    OutputOptions options;
    const auto format = TRY(output_format(global.output));
    options.format = format;
    options.query = global.query;
    const auto* no_colour = std::getenv("NO_COLOR");
    options.terminal = isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
    // An error in the query is reported before the command acts, not after.
    if (global.query) {
        TRY(check_query(*global.query));
    }
    return options;
}

int print_outcome(const Outcome& outcome, const OutputOptions& options) {
    if (!outcome.value) return outcome.exit_code;
    const auto text = render_output(*outcome.value, outcome.columns, options);
    if (!text) return complain(text.error());
    fmt::print("{}", *text);
    return outcome.exit_code;
}

int command_main(std::vector<std::string> words) {
    const auto tree = make_tree();
    auto prepared = prepare_arguments(tree->app, std::move(words));
    if (!prepared) return complain(prepared.error());
    try {
        std::vector<std::string> reversed(prepared->rbegin(), prepared->rend());
        tree->app.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
        return parse_failure(tree->app, error);
    }
    const auto options = output_options(tree->global);
    if (!options) return complain(options.error());
    const auto answer = tree->action();
    if (!answer) return complain(answer.error());
    return print_outcome(*answer, *options);
}

}  // namespace

int main(int count, char** words) {
    try {
        std::vector<std::string> copied(words + 1, words + count);
        hide_storage_key(count, words);
        const int code = command_main(std::move(copied));
        // Standard output is buffered, so a full disk may be noticed only when it is flushed.
        if (std::fflush(stdout) != 0) {
            return complain({"cannot write to standard output", "", "", base::ExitCode::failed});
        }
        return code;
    } catch (const std::exception& error) {
        return complain({error.what(), "", "", base::ExitCode::failed});
    }
}
