// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/ids.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"
#include "status/resource_view.hpp"

namespace batchai::cli {

namespace {

using Words = std::vector<std::string>;

// The groups of commands with resources that have ids, and the word of each in an id.
struct Resource {
    std::string_view command;
    std::string_view type;
    std::size_t parents;  // how many of the types of `parents` its ids must name as well
};
constexpr std::array<std::string_view, 3> parents{"resourceGroups", "workspaces", "experiments"};
constexpr std::array<Resource, 6> resources{{{"workspace", "workspaces", 1},
                                             {"experiment", "experiments", 2},
                                             {"cluster", "clusters", 2},
                                             {"job", "jobs", 3},
                                             {"file-server", "fileServers", 2},
                                             {"storage account", "storageAccounts", 1}}};
constexpr std::array<std::string_view, 7> verbs{"show",   "delete",     "terminate", "wait",
                                                "resize", "auto-scale", "resume"};

// Returns the resource of a command that takes ids; nothing for any other.
const Resource* resource_of(const Words& path) {
    if (path.size() < 2 || std::find(verbs.begin(), verbs.end(), path.back()) == verbs.end())
        return nullptr;
    const Command group{nullptr, {path.begin(), path.end() - 1}};
    const auto text = group.text();
    const auto* found = std::find_if(resources.begin(), resources.end(),
                                     [&](const Resource& each) { return each.command == text; });
    return found == resources.end() ? nullptr : found;
}

bool same(std::string_view a, std::string_view b) {
    return base::lower(a) == base::lower(b);
}

base::Result<Words> options_for_id(const std::string& id, const Resource& resource) {
    const auto parts = status::id_parts(id);
    if (!parts || parts->empty() || !same(parts->back().first, resource.type))
        return base::fail(fmt::format("is not the id of a {}", resource.command), id,
                          "an id looks like what `show --query id` prints", base::ExitCode::usage);
    const auto names = [&](std::string_view type) {
        return std::any_of(parts->begin(), parts->end(),
                           [&](const auto& part) { return same(part.first, type); });
    };
    // What an id leaves out would be taken from the user's defaults.
    for (const std::string_view type : std::span(parents).first(resource.parents)) {
        if (names(type)) continue;
        return base::fail(
            fmt::format("is not the whole id of a {}: \"{}\" is missing", resource.command, type),
            id, "an id looks like what `show --query id` prints", base::ExitCode::usage);
    }
    Words words;
    for (const auto& [type, name] : *parts) {
        if (same(type, "resourceGroups")) words.insert(words.end(), {"--resource-group", name});
        if (same(type, "workspaces")) words.insert(words.end(), {"--workspace", name});
        if (same(type, "experiments") && !same(type, resource.type))
            words.insert(words.end(), {"--experiment", name});
    }
    if (!same(resource.type, "workspaces"))
        words.insert(words.end(), {"--name", parts->back().second});
    return words;
}

// Where --ids and its values are among the words.
struct IdsPlace {
    std::size_t begin = 0;
    std::size_t end = 0;
    Words ids;
};

std::optional<IdsPlace> find_ids(const Words& words) {
    IdsPlace place;
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
        constexpr std::string_view with_value = "--ids=";
        const bool joined = words[i].starts_with(with_value);
        if (words[i] != "--ids" && !joined) continue;
        place.begin = i;
        if (joined) place.ids.push_back(words[i].substr(with_value.size()));
        for (++i; i < words.size() && !words[i].starts_with('-'); ++i)
            place.ids.push_back(words[i]);
        place.end = i;
        return place;
    }
    return std::nullopt;
}

Words path_of(const CLI::App& app, const Words& words) {
    Words path;
    const auto* at = &app;
    for (const auto& word : words) {
        if (word.starts_with('-')) break;
        const auto children = visible_commands(*at);
        const auto next = std::find_if(children.begin(), children.end(), [&](const CLI::App* each) {
            return each->get_name() == word;
        });
        if (next == children.end()) break;
        at = *next;
        path.push_back(word);
    }
    return path;
}

}  // namespace

void add_ids_options(CommandTree& tree) {
    for (const auto& command : all_commands(tree.app)) {
        if (resource_of(command.path) == nullptr) continue;
        // all_commands() looks at the tree that this function changes.
        auto* leaf = const_cast<CLI::App*>(command.app);  // NOLINT
        leaf->add_option("--ids", tree.global.ids,
                         "One or more ids, as `show --query id` prints them, instead of names")
            ->type_name("ID")
            ->expected(1, -1)
            ->group(resource_arguments);
    }
}

base::Result<std::vector<Words>> expand_ids(const CLI::App& app, const Words& words) {
    const auto path = path_of(app, words);
    const auto* resource = resource_of(path);
    const auto place = resource == nullptr ? std::nullopt : find_ids(words);
    if (!place) return std::vector<Words>{words};
    if (place->ids.empty()) return base::fail("needs an id", "--ids", "", base::ExitCode::usage);
    const Words before(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(place->begin));
    const Words after(words.begin() + static_cast<std::ptrdiff_t>(place->end), words.end());
    for (const auto* rest : {&before, &after}) {
        for (const auto& word : *rest) {
            const auto name = word.substr(0, word.find('='));
            if (name == "--name" || name == "-n" || name == "--resource-group" || name == "-g" ||
                name == "--workspace" || name == "-w" || name == "--experiment" || name == "-e")
                return base::fail("cannot be used together with --ids", name,
                                  "an id has all names in it", base::ExitCode::usage);
        }
    }
    std::vector<Words> lines;
    for (const auto& id : place->ids) {
        Words line = before;
        const auto options = TRY(options_for_id(id, *resource));
        line.insert(line.end(), options.begin(), options.end());
        line.insert(line.end(), after.begin(), after.end());
        lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace batchai::cli
