// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/node_path.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/paths.hpp"

namespace batchai::visit {

namespace {

// Stands around the name of a variable. No path may contain it.
constexpr char mark = '\1';

std::string last_component(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char byte) {
        return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
    });
}

}  // namespace

CopySide copy_side(const std::string& text) {
    const std::size_t colon = text.find(':');
    if (colon == 0 || colon == std::string::npos || text.find('/') < colon)
        return {.job = {}, .path = text};
    return {.job = text.substr(0, colon), .path = text.substr(colon + 1)};
}

base::Result<NodePath> node_path(const std::string& text, const plan::Plan& plan) {
    std::string path = text;
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    if (path.empty() || has_control_character(path))
        return base::fail(path.empty() ? "the path on the node is missing"
                                       : "a path with control characters cannot be copied",
                          {}, R"(write it as in 'train:$AZ_BATCHAI_OUTPUT_MODEL/model.pt')",
                          base::ExitCode::usage);
    const std::string last = last_component(path);
    if (last.empty() || last == "." || last == "..")
        return base::fail("names no file or directory of its own", text,
                          "end the path with the name of what is to be copied",
                          base::ExitCode::usage);
    if (!path.starts_with('/') && !path.starts_with('$'))
        return base::fail("is not an absolute path of the node", text,
                          R"(begin it with / or with a variable such as $AZ_BATCHAI_JOB_TEMP)",
                          base::ExitCode::usage);
    plan::Scope marked;
    for (const std::string& name : marked.expand(path).undefined) {
        if (!name.starts_with("AZ_BATCH"))
            return base::fail(fmt::format("${} is not a variable of Batch AI", name), text,
                              "only those that begin with AZ_BATCH are expanded on the node",
                              base::ExitCode::usage);
        marked.set(name, mark + name + mark);
    }
    NodePath out;
    const std::string parts = marked.expand(path).text;
    for (const std::string_view part : base::split(parts, mark))
        out.parts.emplace_back(part);
    plan::Scope known;
    for (const plan::Variable& variable : plan.environment)
        known.set(variable.name, variable.value);
    const auto expanded = known.expand(path);
    if (!expanded.undefined.empty()) {
        if (last.find('$') == std::string::npos && plan::is_component(last)) out.name = last;
        return out;
    }
    out.expected = plan::normalized(expanded.text);
    const std::string name = last_component(out.expected);
    if (plan::is_component(name)) out.name = name;
    return out;
}

bool may_be_named(const NodePath& path, std::string_view name) {
    if (!plan::is_component(std::string(name))) return false;
    // What the user wrote of the last component: the text before its first variable, and the text
    // behind its last one.
    std::size_t begin = path.parts.size() - 1;
    begin -= begin % 2;
    while (begin > 0 && path.parts[begin].find('/') == std::string::npos)
        begin -= 2;
    const std::string before = last_component(path.parts[begin]);
    if (begin == path.parts.size() - 1) return name == before;
    const std::string behind = path.parts.size() % 2 == 1 ? path.parts.back() : std::string();
    const bool hidden = name.starts_with('.') && !before.starts_with('.');
    return !hidden && name.size() >= before.size() + behind.size() && name.starts_with(before) &&
           name.ends_with(behind);
}

std::string shell_path(const NodePath& path, std::size_t first) {
    std::string line = "p=\"";
    for (std::size_t i = 0; i < path.parts.size(); ++i) {
        if (i % 2 == 0)
            line += fmt::format("${{{}}}", first + i / 2);
        else
            line += fmt::format("${{{}:?is not set on this node}}", path.parts[i]);
    }
    return line + "\"\n";
}

std::vector<std::string> texts_of(const NodePath& path) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < path.parts.size(); i += 2)
        texts.push_back(path.parts[i]);
    return texts;
}

std::string shown_path(const NodePath& path) {
    std::string text;
    for (std::size_t i = 0; i < path.parts.size(); ++i)
        text += (i % 2 == 0 ? "" : "$") + path.parts[i];
    return text;
}

}  // namespace batchai::visit
