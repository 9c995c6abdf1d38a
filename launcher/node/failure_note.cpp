// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/failure_note.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t note_limit = 1UL << 20U;
constexpr std::string_view ending = ".failure.json";

std::vector<fs::path> note_files(const std::string& job_directory) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(job_directory) / "node", error)) {
        if (!entry.path().filename().string().ends_with(ending)) continue;
        found.emplace_back(entry.last_write_time(error), entry.path());
    }
    std::sort(found.begin(), found.end());
    std::vector<fs::path> paths;
    paths.reserve(found.size());
    for (auto& [time, path] : found)
        paths.push_back(std::move(path));
    return paths;
}

}  // namespace

void write_failure_note(const std::string& job_directory, const FailureNote& note) {
    const std::string bytes = base::format_json(
        base::Value::Object{{"code", note.code}, {"text", note.text}, {"node", note.node}});
    const auto directory = fs::path(job_directory) / "node";
    if (base::make_directories(directory)) {
        const auto written =
            base::write_atomically(directory / fmt::format("{}{}", note.node, ending), bytes);
        if (!written) return;
    }
}

bool has_failure_note(const std::string& job_directory, const std::string& node) {
    std::error_code error;
    return fs::exists(fs::path(job_directory) / "node" / fmt::format("{}{}", node, ending), error);
}

std::vector<FailureNote> failure_notes(const std::string& job_directory) {
    std::vector<FailureNote> notes;
    for (const fs::path& path : note_files(job_directory)) {
        const auto text = base::read_file(path, note_limit);
        if (!text) continue;
        const auto json = base::parse_json(*text, path.string());
        if (!json) continue;
        const auto* const code = (*json)["code"].string();
        const auto* const said = (*json)["text"].string();
        const auto* const node = (*json)["node"].string();
        if (code == nullptr || said == nullptr || node == nullptr) continue;
        notes.push_back({.code = *code, .text = *said, .node = *node});
    }
    return notes;
}

void forget_failure_notes(const std::string& job_directory) {
    std::error_code error;
    for (const fs::path& path : note_files(job_directory))
        fs::remove(path, error);
}

}  // namespace batchai::node
