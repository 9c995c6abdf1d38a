// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/parser.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <CLI/App.hpp>
#include <fmt/format.h>

namespace batchai::cli {

namespace {

// As CLI::PositiveNumber and CLI::NonNegativeNumber, which name the largest double, in 309 digits.
CLI::Validator number_from(bool with_zero, const std::string& name, const std::string& limit) {
    return {[with_zero, limit](const std::string& text) {
                double number = 0;
                const bool fits = CLI::detail::lexical_cast(text, number) &&
                                  (number > 0 || (number == 0 && with_zero));
                return fits ? std::string() : fmt::format("\"{}\" is not a number {}", text, limit);
            },
            name};
}

}  // namespace

Option Option::required(bool is) const {
    option_->required(is);
    return *this;
}

Option Option::type_name(const std::string& name) const {
    option_->type_name(name);
    return *this;
}

Option Option::group(const std::string& title) const {
    option_->group(title);
    return *this;
}

Option Option::show_default() const {
    option_->capture_default_str();
    return *this;
}

Option Option::one_of(const std::vector<std::string>& words) const {
    option_->check(CLI::IsMember(words));
    return *this;
}

Option Option::positive() const {
    option_->check(number_from(false, "POSITIVE", "above 0"));
    return *this;
}

Option Option::non_negative() const {
    option_->check(number_from(true, "NONNEGATIVE", "from 0 on"));
    return *this;
}

Option Option::between(int least, int most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}

Option Option::excludes(const Option& other) const {
    option_->excludes(other.option_);
    return *this;
}

Option Option::needs(const Option& other) const {
    option_->needs(other.option_);
    return *this;
}

Option Option::expected(int least, int most) const {
    option_->expected(least, most);
    return *this;
}

Option Option::take_all() const {
    option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return *this;
}

std::size_t Option::count() const {
    return option_->count();
}

template <typename T>
Option Parser::add_option(const std::string& names, T& value,
                          const std::string& description) const {
    return Option(app_->add_option(names, value, description));
}

Option Parser::add_flag(const std::string& names, bool& value,
                        const std::string& description) const {
    return Option(app_->add_flag(names, value, description));
}

Option Parser::get_option(const std::string& name) const {
    return Option(app_->get_option(name));
}

void Parser::group(const std::string& title) const {
    app_->group(title);
}

template <typename T>
Option add_optional(Parser leaf, const std::string& names, std::optional<T>& value,
                    const std::string& description) {
    return Option(leaf.app().add_option_function<T>(
        names, [&value](const T& given) { value = given; }, description));
}

// The types that values of options have.
#define BATCHAI_OPTION_OF(T)                                                              \
    template Option Parser::add_option(const std::string&, T&, const std::string&) const; \
    template Option add_optional(Parser, const std::string&, std::optional<T>&, const std::string&);

BATCHAI_OPTION_OF(std::string)
BATCHAI_OPTION_OF(std::vector<std::string>)
BATCHAI_OPTION_OF(int)
BATCHAI_OPTION_OF(std::int64_t)
BATCHAI_OPTION_OF(std::size_t)
BATCHAI_OPTION_OF(double)

#undef BATCHAI_OPTION_OF

}  // namespace batchai::cli
