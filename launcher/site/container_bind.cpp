// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/container_bind.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"
#include "site/table_reader.hpp"

namespace batchai::site {

namespace {

constexpr const char* key = "container_binds";

bool is_at_or_below(std::string_view path, std::string_view place) {
    return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

// The path without what does not change it ("//", a last "/"); the fault if it cannot be used.
base::Result<std::string> clean_path(std::string_view text) {
    if (!text.starts_with('/')) return base::fail(fmt::format("\"{}\" is not absolute", text));
    std::string path;
    for (const std::string_view part : base::split(text, '/')) {
        if (part.empty()) continue;
        if (part == "." || part == "..")
            return base::fail(fmt::format("\"{}\" has a . or .. component", text));
        path += fmt::format("/{}", part);
    }
    for (auto at = path.find('%'); at != std::string::npos; at = path.find('%', at + 2)) {
        if (path.compare(at, 2, "%u") != 0)
            return base::fail(fmt::format("\"{}\" has a % that is not %u", text), {},
                              "%u stands for the user's name");
    }
    return path.empty() ? "/" : path;
}

// Where the container's own file systems are.
bool is_taken(std::string_view target) {
    constexpr std::array<std::string_view, 2> whole{"/", "/dev"};
    return std::find(whole.begin(), whole.end(), target) != whole.end() ||
           is_at_or_below(target, "/proc") || is_at_or_below(target, "/sys");
}

}  // namespace

base::Result<ContainerBind> parse_container_bind(std::string_view text) {
    auto parts = base::split(text, ':');
    auto source = clean_path(parts.front());
    if (!source) return tl::unexpected<base::Error>(source.error());
    ContainerBind bind{*source, *source, false, false};
    auto part = parts.begin() + 1;
    if (part != parts.end() && part->starts_with('/')) {
        auto target = clean_path(*part++);
        if (!target) return tl::unexpected<base::Error>(target.error());
        bind.target = std::move(*target);
    }
    for (; part != parts.end(); ++part) {
        if (*part == "ro")
            bind.read_only = true;
        else if (*part == "optional")
            bind.optional = true;
        else
            return base::fail(fmt::format("\"{}\" is no path and no option", *part), {},
                              "write SOURCE, SOURCE:TARGET, and after it :ro or :optional");
    }
    if (is_taken(bind.target))
        return base::fail(
            fmt::format("{} cannot be replaced in a container; give another target", bind.target));
    return bind;
}

void read_container_binds(TableReader& table, std::vector<ContainerBind>& binds) {
    std::vector<std::string> texts;
    table.words(key, texts);
    for (const std::string& text : texts) {
        auto bind = parse_container_bind(text);
        if (!bind) {
            table.refuse(key, fmt::format("entry \"{}\": {}", text, bind.error().what),
                         bind.error().hint);
            return;
        }
        const bool twice = std::any_of(binds.begin(), binds.end(), [&](const ContainerBind& other) {
            return other.target == bind->target;
        });
        if (twice) {
            table.refuse(key, fmt::format("entry \"{}\": {} is the target of another entry", text,
                                          bind->target));
            return;
        }
        binds.push_back(std::move(*bind));
    }
}

}  // namespace batchai::site
