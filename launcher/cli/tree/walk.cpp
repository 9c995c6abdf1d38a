// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/walk.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace batchai::cli {
namespace {

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<Command>& commands) {
    commands.push_back({&app, path});
    for (const auto* child : visible_commands(app)) {
        auto below = path;
        below.push_back(child->get_name());
        collect(*child, below, commands);
    }
}

}  // namespace

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
    std::vector<const CLI::App*> commands;
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (!command->get_group().empty()) commands.push_back(command);
    }
    return commands;
}

std::vector<const CLI::Option*> visible_options(const CLI::App& app, bool positionals) {
    std::vector<const CLI::Option*> options;
    for (const auto* option : app.get_options()) {
        if (!option->get_group().empty() && option->get_positional() == positionals) {
            options.push_back(option);
        }
    }
    return options;
}

std::string Command::text() const {
    return fmt::format("{}", fmt::join(path, " "));
}

std::vector<Command> all_commands(const CLI::App& app) {
    std::vector<Command> commands;
    collect(app, {}, commands);
    return commands;
}

std::vector<std::string> option_words(const CLI::Option& option) {
    std::vector<std::string> words;
    for (const auto& name : option.get_lnames())
        words.push_back("--" + name);
    for (const auto& name : option.get_snames())
        words.push_back("-" + name);
    return words;
}

}  // namespace batchai::cli
