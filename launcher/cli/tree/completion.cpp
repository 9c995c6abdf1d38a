// SPDX-License-Identifier: GPL-2.0-or-later
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/tree/builder.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"

namespace batchai::cli {
namespace {

std::string command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const auto* command : visible_commands(app))
        names.push_back(command->get_name());
    return fmt::format("{}", fmt::join(names, " "));
}

std::string option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const auto* option : visible_options(app, false)) {
        for (auto& word : option_words(*option))
            names.push_back(std::move(word));
    }
    return fmt::format("{}", fmt::join(names, " "));
}

bool takes_file(const CLI::Option& option) {
    return option.get_type_name() == "FILE";
}

bool takes_positional_file(const CLI::App& app) {
    for (const auto* option : visible_options(app, true)) {
        if (option->get_name() == "file") return true;
    }
    return false;
}

// Returns a shell pattern of the options that take a file, such as "--config-file|-f"; empty if
// there are none.
std::string file_options(const CLI::App& app) {
    std::vector<std::string> words;
    for (const auto* option : visible_options(app, false)) {
        if (!takes_file(*option)) continue;
        for (auto& word : option_words(*option))
            words.push_back(std::move(word));
    }
    return fmt::format("{}", fmt::join(words, "|"));
}

// Returns a shell pattern of all command paths. The script uses it to find the command that the
// words typed so far name.
std::string path_arms(const CLI::App& app) {
    std::vector<std::string> arms;
    for (const auto& command : all_commands(app)) {
        if (!command.path.empty()) arms.push_back("\"" + command.text() + "\"");
    }
    return fmt::format("{}", fmt::join(arms, "|"));
}

// Under the name "az" the word "batchai" may come first.
std::string word_arms(const CLI::App& app, const std::string& name,
                      const std::string& file_action) {
    std::string arms;
    for (const auto& command : all_commands(app)) {
        const auto files = file_options(*command.app);
        std::string file_case;
        if (!files.empty()) {
            file_case =
                fmt::format("case \"$previous\" in {}) {}; return;; esac; ", files, file_action);
        }
        if (takes_positional_file(*command.app)) {
            file_case += fmt::format("[[ $current != -* ]] && {{ {}; return; }}; ", file_action);
        }
        arms += fmt::format("        \"{}\") {}words=\"{}\";;\n", command.text(), file_case,
                            (command.path.empty() && name == "az" ? "batchai " : "") +
                                command_names(*command.app) + " " + option_names(*command.app));
    }
    return arms;
}

// The real Azure CLI has completion of its own, so that for "az" must do nothing where "az" is not
// a link to batchai.
constexpr std::string_view bash_guard =
    "[[ $(readlink -f -- \"$(type -P az)\") == */batchai ]] || return 0\n";
constexpr std::string_view zsh_guard = "[[ ${commands[az]:A} == */batchai ]] || return 0\n";
constexpr std::string_view fish_guard =
    "string match -q '*/batchai' (realpath (command -s az) 2>/dev/null); or return 0\n";

std::string guard(std::string_view text, const std::string& name) {
    return name == "az" ? std::string(text) : "";
}

std::string bash_script(const CLI::App& app, const std::string& name) {
    return fmt::format(
        R"(# bash completion of {0}, made by `batchai completion bash`
{1}_{0}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local at="" word words=""
    # Bash splits "--option=value" into three words.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]] && ((COMP_CWORD > 1)); then
        previous=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ -z $at && $word == batchai ]] && continue
        case "${{at:+$at }}$word" in
            {2}) at="${{at:+$at }}$word";;
        esac
    done
    COMPREPLY=()
    case "$at" in
{3}    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
# Bash takes completions for names of files only here, where a file is expected.
_{0}_files() {{
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}}
complete -F _{0} {0}
)",
        name, guard(bash_guard, name), path_arms(app),
        word_arms(app, name, fmt::format("_{}_files \"$current\"", name)));
}

std::string zsh_script(const CLI::App& app, const std::string& name) {
    return fmt::format(
        R"(#compdef {0}
# zsh completion of {0}, made by `batchai completion zsh`
{1}_{0}() {{
    local current="${{words[CURRENT]}}" previous="${{words[CURRENT-1]}}"
    local at="" word
    local -a typed=("${{(@)words[2,CURRENT-1]}}")
    for word in "${{typed[@]}}"; do
        [[ -z $at && $word == batchai ]] && continue
        case "${{at:+$at }}$word" in
            {2}) at="${{at:+$at }}$word";;
        esac
    done
    local words=""
    case "$at" in
{3}    esac
    compadd -- ${{=words}}
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
        name, guard(zsh_guard, name), path_arms(app), word_arms(app, name, "_files"));
}

// Inside single quotes, only ' and \ are special in fish.
std::string fish_quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

std::string fish_script(const CLI::App& app, const std::string& name) {
    std::string paths;
    std::string lines;
    for (const auto& command : all_commands(app)) {
        if (!command.path.empty()) paths += " " + fish_quoted(command.text());
        const auto at = fish_quoted(fmt::format("__{}_at {}", name, fish_quoted(command.text())));
        if (command.path.empty() && name == "az")
            lines += fmt::format("complete -c az -f -n {} -a batchai\n", at);
        for (const auto* child : visible_commands(*command.app)) {
            lines += fmt::format("complete -c {} -f -n {} -a {} -d {}\n", name, at,
                                 child->get_name(), fish_quoted(child->get_description()));
        }
        for (const auto* option : visible_options(*command.app, false)) {
            lines += fmt::format("complete -c {} -n {}", name, at);
            for (const auto& long_name : option->get_lnames())
                lines += " -l " + long_name;
            for (const auto& short_name : option->get_snames())
                lines += " -s " + short_name;
            const bool flag = option->get_items_expected_max() == 0;
            if (!flag) lines += takes_file(*option) ? " -r -F" : " -x";
            lines += " -d " + fish_quoted(option->get_description()) + "\n";
        }
    }
    return fmt::format(
        R"(# fish completion of {0}, made by `batchai completion fish`
{1}function __{0}_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        set -l next (string trim -- "$at $word")
        if contains -- "$next"{2}
            set at $next
        end
    end
    test "$at" = "$argv[1]"
end
{3})",
        name, guard(fish_guard, name), paths, lines);
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell,
                              const std::string& name) {
    if (shell == "zsh") return zsh_script(app, name);
    if (shell == "fish") return fish_script(app, name);
    return bash_script(app, name);
}

namespace {

struct CompletionOptions {
    std::string shell;
    std::string name = "batchai";
};

}  // namespace

const Verbs completion_verbs("", 160, [](CommandTree& tree, Parser app) {
    auto options = std::make_shared<CompletionOptions>();
    const Parser leaf = add_leaf(
        tree, app, "completion", "Print a shell's completion script",
        "source <(batchai completion bash)", Printing::by_itself, [&tree, options]() -> Answer {
            fmt::print("{}", completion_script(tree.app, options->shell, options->name));
            return Outcome{};
        });
    leaf.add_option("shell", options->shell, "bash, zsh or fish")
        .required()
        .one_of({"bash", "zsh", "fish"});
    leaf.add_option("--name", options->name,
                    "The program that is completed: batchai, or az for the link of that name")
        .type_name("NAME")
        .one_of({"batchai", "az"})
        .show_default();
});

}  // namespace batchai::cli
