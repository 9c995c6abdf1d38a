// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/query.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <jsoncons/json.hpp>
#include <jsoncons_ext/jmespath/jmespath.hpp>

namespace batchai::cli {
namespace {

using Json = jsoncons::ojson;
using Expression = jsoncons::jmespath::jmespath_expression<Json>;

Json to_jsoncons(const Value& value) {
    if (const auto* object = value.object()) {
        Json out(jsoncons::json_object_arg);
        for (const auto& [key, member] : *object)
            out.insert_or_assign(key, to_jsoncons(member));
        return out;
    }
    if (const auto* array = value.array()) {
        Json out(jsoncons::json_array_arg);
        for (const auto& item : *array)
            out.push_back(to_jsoncons(item));
        return out;
    }
    if (const auto* text = value.string()) return Json(*text);
    if (const auto* integer = value.integer()) return Json(*integer);
    if (const auto* real = value.real()) return Json(*real);
    if (const auto* flag = value.boolean()) return Json(*flag);
    return Json::null();
}

Value from_jsoncons(const Json& json) {
    if (json.is_object()) {
        Value::Object out;
        for (const auto& member : json.object_range())
            out.emplace_back(member.key(), from_jsoncons(member.value()));
        return out;
    }
    if (json.is_array()) {
        Value::Array out;
        for (const auto& item : json.array_range())
            out.push_back(from_jsoncons(item));
        return out;
    }
    if (json.is_null()) return nullptr;
    if (json.is_bool()) return json.as<bool>();
    if (json.is_double()) return json.as<double>();
    if (json.is<std::int64_t>()) return json.as<std::int64_t>();
    if (json.is_number()) return json.as<double>();
    return json.as<std::string>();
}

tl::unexpected<base::Error> fault(std::string_view expression, const std::error_code& code,
                                  std::size_t column) {
    auto reason = code.message();
    if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z' && reason.substr(1, 1) != "-") {
        reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
    }
    auto what = fmt::format("not a JMESPath expression: {}", reason);
    // A caret below an expression of several lines would not point at the right place.
    if (column > 0 && expression.find('\n') == std::string_view::npos) {
        what += fmt::format("\n  {}\n  {:>{}}", expression, '^',
                            std::min(column, expression.size() + 1));
    }
    return base::fail(what, "--query", "see https://jmespath.org for the language",
                      base::ExitCode::usage);
}

bool is_json(std::string_view text) {
    try {
        static_cast<void>(Json::parse(std::string(text)));
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

// Returns the length of what begins with a quotation mark and ends with the next one that has no
// backslash in front; of the whole text if there is none.
std::size_t quoted_length(std::string_view text) {
    std::size_t at = 1;
    while (at < text.size() && text[at] != text.front())
        at += text[at] == '\\' ? 2U : 1U;
    return std::min(at + 1, text.size());
}

// The Azure CLI takes a literal that is not JSON, such as `failed`, for a string. So did JMESPath
// in its first years, and many scripts are written like that.
std::string with_json_literals(std::string_view expression) {
    std::string out;
    while (!expression.empty()) {
        const char first = expression.front();
        const bool quotes = first == '`' || first == '\'' || first == '"';
        const std::size_t length = quotes ? quoted_length(expression) : 1;
        const std::string_view part = expression.substr(0, length);
        expression.remove_prefix(length);
        if (first != '`' || length < 2 || part.back() != '`' ||
            is_json(part.substr(1, length - 2))) {
            out += part;
            continue;
        }
        std::string_view text = part.substr(1, length - 2);
        text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
        out += fmt::format("`\"{}\"`", text);
    }
    return out;
}

base::Result<Expression> compile(std::string_view given) {
    const std::string expression = with_json_literals(given);
    try {
        return jsoncons::jmespath::make_expression<Json>(expression);
    } catch (const jsoncons::jmespath::jmespath_error& error) {
        return fault(expression, error.code(), error.column());
    } catch (const std::exception& error) {
        return base::fail(fmt::format("not a JMESPath expression: {}", error.what()), "--query", "",
                          base::ExitCode::usage);
    }
}

// The command has been carried out by the time its result is looked at.
tl::unexpected<base::Error> does_not_fit(const std::string& why) {
    return base::fail(fmt::format("the result does not fit the expression: {}", why), "--query",
                      "the command itself has been carried out");
}

}  // namespace

base::Result<Value> query(const Value& value, std::string_view expression) {
    auto compiled = TRY(compile(expression));
    try {
        std::error_code code;
        const auto document = to_jsoncons(value);
        const auto result = compiled.evaluate(document, code);
        if (code) return does_not_fit(code.message());
        return from_jsoncons(result);
    } catch (const std::exception& error) {
        return does_not_fit(error.what());
    }
}

base::Result<void> check_query(std::string_view expression) {
    // The compiler of expressions calls itself for each pair of brackets.
    constexpr std::size_t longest = 8192;
    if (expression.size() > longest)
        return base::fail(fmt::format("is longer than {} bytes", longest), "--query", "",
                          base::ExitCode::usage);
    TRY(compile(expression));
    return {};
}

}  // namespace batchai::cli
