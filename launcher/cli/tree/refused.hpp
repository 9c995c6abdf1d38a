// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

// The commands and options of the Azure CLI that have no meaning on Slurm, and what is said when
// somebody uses them. docs/az.md has the same tables, which a test compares.
namespace batchai::cli {

struct CommandTree;

struct RefusedCommand {
    std::string_view path;     // without "az": "storage blob copy" also stands for all below it
    std::string_view reason;   // completes "`az …` is not available on Slurm: "
    std::string_view instead;  // what to do; may be empty
};

// What becomes of an option: its use is an error; it is taken and does nothing; or it is taken, and
// a note says why it does nothing, because somebody may count on it.
enum class Effect { refused, accepted, noted };

struct AzureOption {
    std::string_view command;  // "batchai cluster create" is "cluster create"
    std::string_view names;    // "--image,-i"
    bool is_flag = false;
    Effect effect = Effect::refused;
    std::string_view reason;
};

[[nodiscard]] std::span<const RefusedCommand> refused_commands();
[[nodiscard]] std::span<const AzureOption> azure_options();

// Returns the command as a user of the Azure CLI types it: "az batchai cluster create".
[[nodiscard]] std::string azure_command(std::string_view path);

// Returns the two tables in Markdown, as docs/az.md has them.
[[nodiscard]] std::string refused_commands_page();
[[nodiscard]] std::string azure_options_page();

// Returns the entry of a command, or of the command above it that has one; null if there is none.
[[nodiscard]] const RefusedCommand* refused_command(std::string_view path);

// Adds the options to their commands, except where a command has an option of that name.
void add_azure_options(CommandTree& tree);

}  // namespace batchai::cli
