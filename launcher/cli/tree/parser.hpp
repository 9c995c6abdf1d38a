// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// How the file of a verb declares its options. CLI11 does the work, behind these two classes: it is
// a header of templates, which cost ten seconds of compiling in each file that uses them.
namespace batchai::cli {

// An option or positional argument of a command. Copies mean the same one, which lives as long as
// the tree.
class Option {
  public:
    Option() = default;
    explicit Option(CLI::Option* option) : option_(option) {}

    // Each of these returns the option itself.
    Option required(bool is = true) const;
    Option type_name(const std::string& name) const;  // for --help: what its value is
    Option group(const std::string& title) const;     // of --help; empty: it is not shown
    Option show_default() const;
    Option one_of(const std::vector<std::string>& words) const;
    Option positive() const;
    Option non_negative() const;
    Option between(int least, int most) const;
    Option excludes(const Option& other) const;
    Option needs(const Option& other) const;
    Option expected(int least, int most) const;  // how many values one use of it takes
    Option take_all() const;                     // one value each time that it is given

    // Returns how often it was given.
    [[nodiscard]] std::size_t count() const;

  private:
    CLI::Option* option_ = nullptr;
};

// A command while its options are declared: a verb, or a group of verbs.
class Parser {
  public:
    explicit Parser(CLI::App& app) : app_(&app) {}

    // `value` is what the option sets, and must live as long as the tree. Defined for the types
    // that parser.cpp lists.
    template <typename T>
    Option add_option(const std::string& names, T& value, const std::string& description) const;
    Option add_flag(const std::string& names, bool& value, const std::string& description) const;
    [[nodiscard]] Option get_option(const std::string& name) const;
    void group(const std::string& title) const;  // of its parent's --help; empty: it is not shown

    [[nodiscard]] CLI::App& app() const { return *app_; }

  private:
    CLI::App* app_;
};

// Adds an option that leaves `value` empty if it is not given. Defined for the same types.
template <typename T>
Option add_optional(Parser leaf, const std::string& names, std::optional<T>& value,
                    const std::string& description);

}  // namespace batchai::cli
