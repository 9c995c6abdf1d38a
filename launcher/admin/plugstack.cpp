// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/plugstack.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <glob.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::admin {

namespace {

constexpr std::size_t file_limit = 1UL << 20U;
// Slurm itself does not limit how deep files include each other.
constexpr int deepest = 16;

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t begin = line.find_first_not_of(" \t\r", at);
        if (begin == std::string_view::npos) break;
        const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
        words.emplace_back(line.substr(begin, end - begin));
        at = end;
    }
    return words;
}

std::vector<std::string> matches_of(const std::string& pattern) {
    glob_t found{};
    std::vector<std::string> paths;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    return paths;
}

void read_lines(const std::string& path, std::string_view text, int depth, Plugstack& into);

void include(const std::string& pattern, const std::string& place, int depth, Plugstack& into) {
    if (depth == deepest) {
        into.faults.push_back(fmt::format("{}: files include each other too deeply", place));
        return;
    }
    for (const std::string& path : matches_of(pattern)) {
        if (const auto text = base::read_file(path, file_limit))
            read_lines(path, *text, depth + 1, into);
        else
            into.faults.push_back(fmt::format("{}: {}", place, text.error().text()));
    }
}

void read_line(std::string_view line, const std::string& path, const std::string& place, int depth,
               Plugstack& into) {
    std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return;
    const std::string kind = words.front();
    if (words.size() == 1) {
        into.faults.push_back(fmt::format("{}: nothing follows \"{}\"", place, kind));
    } else if (kind == "include") {
        // A relative name is searched beside the file that includes it.
        const std::filesystem::path pattern = std::filesystem::path(path).parent_path() / words[1];
        include(pattern.string(), place, depth, into);
    } else if (kind == "required" || kind == "optional") {
        into.lines.push_back({.place = place,
                              .required = kind == "required",
                              .plugin = std::move(words[1]),
                              .arguments = {std::make_move_iterator(words.begin() + 2),
                                            std::make_move_iterator(words.end())}});
    } else {
        into.faults.push_back(
            fmt::format("{}: \"{}\" is neither required nor optional nor include", place, kind));
    }
}

void read_lines(const std::string& path, std::string_view text, int depth, Plugstack& into) {
    into.files.push_back(path);
    int number = 0;
    for (const std::string_view line : base::split(text, '\n'))
        read_line(line, path, fmt::format("{}:{}", path, ++number), depth, into);
}

}  // namespace

std::string plugstack_path(const node::SlurmConf& conf) {
    if (conf.path.empty()) return {};
    std::string set = node::slurm_conf_value(conf.text, "PlugStackConfig").value_or("");
    std::erase(set, '"');
    const std::filesystem::path directory = std::filesystem::path(conf.path).parent_path();
    return (directory / (set.empty() ? "plugstack.conf" : set)).string();
}

base::Result<Plugstack> read_plugstack(const std::string& path) {
    const std::string text = TRY(base::read_file(path, file_limit));
    Plugstack plugstack;
    read_lines(path, text, 0, plugstack);
    return plugstack;
}

std::vector<PlugstackLine> lines_of_batchai(const Plugstack& plugstack) {
    std::vector<PlugstackLine> ours;
    std::copy_if(plugstack.lines.begin(), plugstack.lines.end(), std::back_inserter(ours),
                 [](const PlugstackLine& line) {
                     return std::filesystem::path(line.plugin).filename() == "batchai.so";
                 });
    return ours;
}

}  // namespace batchai::admin
