// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/function_names.hpp"

#include <cstdlib>
#include <memory>

#include <cxxabi.h>

#include "base/utf8.hpp"

namespace batchai::node {

namespace {

constexpr std::string_view operator_word = "operator";

// Takes out balanced "<…>", but not those of operators such as "operator<".
std::string without_templates(std::string_view name) {
    std::string out;
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const bool of_operator = depth == 0 && out.ends_with(operator_word);
        if (of_operator && (name[i] == '<' || name[i] == '>' || name.substr(i, 2) == "->")) {
            while (i < name.size() &&
                   std::string_view("<>=-*").find(name[i]) != std::string_view::npos)
                out += name[i++];
            --i;
            continue;
        }
        if (name[i] == '<') ++depth;
        if (depth == 0) out += name[i];
        if (name[i] == '>' && depth > 0) --depth;
    }
    return out;
}

}  // namespace

std::string without_arguments(std::string_view name) {
    constexpr std::string_view anonymous = "(anonymous namespace)::";
    std::string text(name);
    for (std::size_t at = text.find(anonymous); at != std::string::npos; at = text.find(anonymous))
        text.erase(at, anonymous.size());
    text = without_templates(text);
    std::size_t arguments = text.find('(');
    // "operator()" has no arguments in its first parentheses.
    if (arguments != std::string::npos && text.substr(0, arguments).ends_with(operator_word))
        arguments = text.find('(', arguments + 1);
    if (arguments != std::string::npos) text.resize(arguments);
    // Only functions made from templates have their return type.
    const std::size_t blank = text.rfind(' ');
    if (blank != std::string::npos && text.find(operator_word) == std::string::npos)
        text.erase(0, blank + 1);
    return text.empty() ? std::string(name) : text;
}

std::string readable_function(const std::string& symbol) {
    if (!symbol.starts_with("_Z")) {
        std::string name = base::printable_line(symbol);
        // A function of MPI has two names, of which this one is for tools that measure it.
        if (name.starts_with("PMPI_")) name.erase(0, 1);
        return name;
    }
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    return base::printable_line(text ? without_arguments(text.get()) : symbol);
}

}  // namespace batchai::node
