// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/process.hpp"
#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/output/query.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/ids.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"
#include "clusters/volume_flags.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

namespace {

using namespace batchai;
using namespace batchai::cli;

int complain(const base::Error& error) {
    say_error(error.text());
    return static_cast<int>(error.exit_code);
}

// Says all that is wrong with the options of a command at once.
int complain_of_options(const CLI::App& app, const std::vector<std::string>& messages) {
    for (const std::string& message : messages)
        say_error(message);
    const auto* command = &app;
    std::string words = "batchai";
    while (!command->get_subcommands().empty()) {
        command = command->get_subcommands().front();
        words += " " + command->get_name();
    }
    base::print_error("hint: `{} --help` shows how it is used\n", words);
    return static_cast<int>(base::ExitCode::usage);
}

// CLI11 reports --help and --version as parse errors with exit code 0.
int parse_failure(const CommandTree& tree, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return tree.app.exit(error);
    auto messages = tree.refused_options;
    messages.emplace_back(error.what());
    return complain_of_options(tree.app, messages);
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

void trace(bool with_times) {
    const auto store = store::Store::open_default();
    const auto site = site::load_default();
    if (store) say(fmt::format("the records are in {}", store->home().string()));
    if (site)
        say(site->source.empty() ? "there is no site.lua"
                                 : fmt::format("the site is described in {}", site->source));
    base::trace_runs([with_times](const base::Arguments& arguments, const auto& completed,
                                  std::chrono::milliseconds time) {
        std::string line = "ran";
        for (const auto& word : arguments)
            line += " " + base::shell_quote(word);
        if (with_times)
            line += completed
                        ? fmt::format(" ({} ms, exit code {})", time.count(), completed->exit_code)
                        : fmt::format(" ({} ms: {})", time.count(), completed.error().what);
        say(line);
    });
}

// The values of the command lines that --ids stands for, to be printed as one list.
struct Collected {
    Value::Array values;
    Columns columns;
    OutputOptions options;
};

// Carries out one command line. If it is the only one, its value is printed, else it is collected.
int run_line(CommandTree& tree, std::vector<std::string> words, Collected* collected) {
    try {
        std::reverse(words.begin(), words.end());
        tree.app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
        return parse_failure(tree, error);
    }
    if (!tree.refused_options.empty()) return complain_of_options(tree.app, tree.refused_options);
    const auto options = output_options(tree.global);
    if (!options) return complain(options.error());
    if (tree.global.only_show_errors) show_only_errors();
    if (tree.global.verbose || tree.global.debug) trace(tree.global.debug);
    for (const std::string& note : tree.noted_options)
        say(base::printable_lines(note));
    const auto answer = tree.action();
    if (!answer) return complain(answer.error());
    if (collected == nullptr) return print_outcome(*answer, *options);
    if (answer->value) collected->values.push_back(*answer->value);
    collected->columns = answer->columns;
    collected->options = *options;
    return answer->exit_code;
}

int command_main(std::vector<std::string> words) {
    auto tree = make_tree();
    auto prepared = prepare_arguments(tree->app, std::move(words));
    if (!prepared) return complain(prepared.error());
    const auto lines = expand_ids(tree->app, *prepared);
    if (!lines) return complain(lines.error());
    if (lines->size() == 1) return run_line(*tree, lines->front(), nullptr);
    Collected collected;
    int code = 0;
    for (std::size_t i = 0; i < lines->size(); ++i) {
        if (i > 0) tree = make_tree();  // the options of a tree keep their values
        const int one = run_line(*tree, (*lines)[i], &collected);
        if (code == 0) code = one;
    }
    if (collected.values.empty()) return code;
    const int printed =
        print_outcome({.value = Value(std::move(collected.values)), .columns = collected.columns},
                      collected.options);
    return code != 0 ? code : printed;
}

// A descriptor that the caller has closed would be that of the next file that is opened, and get
// what is printed. /dev/null is opened for the other direction, so that reading and writing fail as
// they would have.
void open_standard_descriptors() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(descriptor, F_GETFD) >= 0) continue;
        static_cast<void>(open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
}

}  // namespace

int main(int count, char** words) {
    open_standard_descriptors();
    // Under services and some CI systems SIGPIPE is ignored. A reader that has seen enough ends the
    // command as quietly there as in a shell.
    std::signal(SIGPIPE, SIG_DFL);
    // A file that would become larger than the user's limit (`ulimit -f`) is an error like a full
    // disk.
    std::signal(SIGXFSZ, SIG_IGN);
    try {
        std::vector<std::string> copied(words + 1, words + count);
        clusters::hide_storage_key(count, words);
        const int code = command_main(std::move(copied));
        // Standard output is buffered, so a full disk may be noticed only when it is flushed. What
        // the parser of the options prints is flushed already.
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            return complain({"cannot write to standard output", "", "", base::ExitCode::failed});
        }
        return code == 0 && output_is_lost() ? static_cast<int>(base::ExitCode::failed) : code;
    } catch (const std::exception& error) {
        return complain({error.what(), "", "", base::ExitCode::failed});
    }
}
