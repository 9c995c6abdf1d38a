// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/failure_note.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

#include "base/file.hpp"

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
    jsoncons::ojson json(jsoncons::json_object_arg);
    json["code"] = note.code;
    json["text"] = note.text;
    json["node"] = note.node;
    std::string bytes;
    json.dump(bytes);
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
        try {
            const auto json = jsoncons::json::parse(*text);
            notes.push_back({json.at("code").as<std::string>(), json.at("text").as<std::string>(),
                             json.at("node").as<std::string>()});
        } catch (const std::exception&) {
            continue;
        }
    }
    return notes;
}

void forget_failure_notes(const std::string& job_directory) {
    std::error_code error;
    for (const fs::path& path : note_files(job_directory))
        fs::remove(path, error);
}

}  // namespace batchai::node
