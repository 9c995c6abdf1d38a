// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/walk.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/tree/refused.hpp"

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

namespace {

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_name() == name) return command;
    }
    return nullptr;
}

std::string guess_text(std::string_view word, const std::vector<std::string>& known) {
    const std::vector<std::string_view> views(known.begin(), known.end());
    const auto guess = base::nearest(word, views);
    return guess ? fmt::format("; did you mean \"{}\"?", *guess) : "";
}

base::Error unknown_command(const Command& at, const std::string& word) {
    std::vector<std::string> known;
    for (const auto* command : visible_commands(*at.app))
        known.push_back(command->get_name());
    const auto full = at.path.empty() ? "batchai" : "batchai " + at.text();
    Command asked = at;
    asked.path.push_back(word);
    if (const auto* answer = refused_command(asked.text())) {
        return {fmt::format("`{}` is not available on Slurm: {}", azure_command(asked.text()),
                            answer->reason),
                "", std::string(answer->instead), base::ExitCode::usage};
    }
    return {fmt::format("unknown command \"{}\"{}", word, guess_text(word, known)), full,
            fmt::format("`{} --help` lists the commands", full), base::ExitCode::usage};
}

// Returns the option that was probably meant: one that is spelt nearly so, or whose name is the
// beginning of the word, as that of --cluster is of --cluster-name.
std::string option_guess(const std::string& name, const std::vector<std::string>& known) {
    auto near = guess_text(name, known);
    if (!near.empty()) return near;
    const auto begins = std::find_if(known.begin(), known.end(), [&](const std::string& option) {
        return name.starts_with(option + "-");
    });
    return begins == known.end() ? "" : fmt::format("; did you mean \"{}\"?", *begins);
}

// Returns the word with the whole name of the option. The error is only a message.
base::Result<std::string> complete_option(const Command& at, const std::string& word) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto value = equals == std::string::npos ? "" : word.substr(equals);
    std::vector<std::string> known;
    std::vector<std::string> matches;
    for (const auto* option : at.app->get_options()) {
        for (const auto& long_name : option->get_lnames()) {
            known.push_back("--" + long_name);
            if (known.back() == name) return word;
            if (known.back().starts_with(name) && option->get_group() != old_names)
                matches.push_back(known.back());
        }
    }
    if (matches.size() == 1) return matches.front() + value;
    return base::fail(fmt::format("unknown option \"{}\"{}", name, option_guess(name, known)));
}

base::Error unknown_options(const Command& at, const std::vector<std::string>& messages) {
    const auto full = at.path.empty() ? "batchai" : "batchai " + at.text();
    return {fmt::format("{}", fmt::join(messages, "\n")), full,
            fmt::format("`{} --help` lists the options", full), base::ExitCode::usage};
}

// Returns the option of the command that this word is, up to a "="; nothing if it is none.
const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
    const auto name = word.substr(0, word.find('='));
    for (const auto* option : app.get_options()) {
        const auto words = option_words(*option);
        if (std::find(words.begin(), words.end(), name) != words.end()) return option;
    }
    return nullptr;
}

// Returns whether the word is like "-n=NAME".
bool is_short_with_value(const std::string& word) {
    return word.size() > 3 && word[0] == '-' && word[1] != '-' && word[2] == '=';
}

// Returns whether the word is an option of the command, which may be abbreviated.
bool begins_an_option(const CLI::App& app, const std::string& word) {
    if (!word.starts_with("--")) return word.starts_with('-') && option_of(app, word) != nullptr;
    const auto name = word.substr(0, word.find('='));
    const auto options = app.get_options();
    return name != "--" && std::any_of(options.begin(), options.end(), [&](const auto* option) {
               const auto words = option_words(*option);
               return std::any_of(words.begin(), words.end(), [&](const std::string& known) {
                   return known.starts_with(name);
               });
           });
}

// CLI11 would take the next word for the value, whatever it is: with `--name $UNSET --dry-run`, a
// job named --dry-run would be submitted.
base::Result<void> check_value(const Command& at, const CLI::Option& option,
                               const std::vector<std::string>& words, std::size_t i) {
    if (option.get_items_expected_min() == 0 || i + 1 >= words.size()) return {};
    const auto& next = words[i + 1];
    if (!begins_an_option(*at.app, next)) return {};
    return base::fail(fmt::format("{} needs a value, and {} is an option", words[i], next),
                      "batchai " + at.text(),
                      fmt::format("write {}=VALUE for a value that begins with \"-\"",
                                  words[i].starts_with("--") ? words[i] : "--OPTION"),
                      base::ExitCode::usage);
}

}  // namespace

base::Result<std::vector<std::string>> prepare_arguments(const CLI::App& app,
                                                         std::vector<std::string> words) {
    if (!words.empty() && words.front() == "batchai") words.erase(words.begin());
    Command at{&app, {}};
    std::vector<std::string> unknown;
    for (std::size_t i = 0; i < words.size(); ++i) {
        auto& word = words[i];
        if (word == "--") {
            // CLI11 would take "[a,b]" for a list. What follows is for another program.
            for (std::size_t rest = i + 1; rest < words.size(); ++rest) {
                if (words[rest].starts_with('[') && words[rest].ends_with(']'))
                    words[rest] += literal_mark;
            }
            break;
        }
        if (word.starts_with("--")) {
            auto completed = complete_option(at, word);
            if (!completed) {
                unknown.push_back(completed.error().what);
                continue;
            }
            word = std::move(*completed);
        }
        if (word.starts_with('-')) {
            const auto* option = option_of(*at.app, word);
            if (option == nullptr || option->get_items_expected_max() == 0) continue;
            // As for the Azure CLI, -n=NAME is --name=NAME. For CLI11, the "=" is part of the
            // value.
            if (is_short_with_value(word)) {
                words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, word.substr(3));
                words[i].resize(2);
                ++i;
                continue;
            }
            if (word.ends_with('=')) {
                // CLI11 would take the next word for the value.
                word.pop_back();
                words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::string());
            } else if (word.find('=') == std::string::npos) {
                if (auto value = check_value(at, *option, words, i); !value) {
                    if (!unknown.empty()) break;
                    return tl::unexpected(std::move(value).error());
                }
                if (option->get_items_expected_min() == 0 && i + 1 < words.size() &&
                    words[i + 1].starts_with('-'))
                    continue;
            } else {
                continue;
            }
            ++i;
            continue;
        }
        if (visible_commands(*at.app).empty()) continue;
        const auto* next = command_named(*at.app, word);
        // It may be the value of an option that is not known.
        if (next == nullptr && !unknown.empty()) break;
        if (next == nullptr) return tl::unexpected(unknown_command(at, word));
        at.app = next;
        at.path.push_back(word);
    }
    if (!unknown.empty()) return tl::unexpected(unknown_options(at, unknown));
    return words;
}

}  // namespace batchai::cli
