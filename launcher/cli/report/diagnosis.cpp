// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/diagnosis.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "cli/report/masking.hpp"

namespace batchai::cli {

namespace {

constexpr std::size_t secrets_limit = 4UL << 20U;
constexpr std::chrono::minutes longest_packing{2};

std::size_t total(const Diagnosis& diagnosis) {
    std::size_t sum = 0;
    for (const auto& [path, content] : diagnosis.files)
        sum += content.size();
    return sum;
}

// Adds the regular files of an open directory.
void add_files_in(Diagnosis& diagnosis, int directory, const std::string& prefix) {
    std::vector<std::string> names = base::names_in(directory);
    std::sort(names.begin(), names.end());
    std::size_t so_far = total(diagnosis);
    for (const std::string& name : names) {
        if (name == "." || name == "..") continue;
        // A FIFO must not be waited for.
        const base::FileDescriptor file =
            base::open_beneath(directory, name, O_RDONLY | O_NONBLOCK);
        struct stat status {};
        if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
        if (so_far >= diagnosis_total_limit) {
            diagnosis.missing.push_back(
                fmt::format("{}{} is left out, because the archive is full", prefix, name));
            continue;
        }
        const auto size = static_cast<std::size_t>(status.st_size);
        std::string content = base::end_of_file(file, 0, diagnosis_file_limit);
        if (size > content.size())
            content.insert(
                0, fmt::format("[the first {} bytes are left out]\n", size - content.size()));
        so_far += content.size();
        diagnosis.files.insert_or_assign(prefix + name, std::move(content));
    }
}

void add_directory(Diagnosis& diagnosis, const std::filesystem::path& path,
                   const std::string& prefix) {
    const base::FileDescriptor directory(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid()) {
        if (errno != ENOENT)
            diagnosis.missing.push_back(base::system_error("read", path).value().text());
        return;
    }
    add_files_in(diagnosis, directory.get(), prefix);
}

}  // namespace

void add_job_files(Diagnosis& diagnosis, const record::JobFiles& files) {
    for (const record::JobFiles& one : files.with_array_tasks()) {
        const auto relative = one.directory().lexically_relative(files.directory());
        const std::string prefix =
            relative == "." ? "job/" : fmt::format("job/{}/", relative.string());
        add_directory(diagnosis, one.directory(), prefix);
        add_directory(diagnosis, one.attempts(), prefix + one.attempts().filename().string() + "/");
        add_directory(diagnosis, one.node_logs(),
                      prefix + one.node_logs().filename().string() + "/");
        diagnosis.files.erase(prefix + one.secrets().filename().string());
    }
}

base::Result<std::vector<std::string>> secrets_of(const record::JobFiles& files) {
    const std::string path = files.secrets().string();
    const auto text = base::read_private_file(path, secrets_limit);
    if (!text && text.error().exit_code == base::ExitCode::not_found)
        return std::vector<std::string>();
    if (!text) return tl::unexpected(text.error());
    const auto object = base::parse_json(*text, path);
    // The parser's own message could quote a secret.
    if (!object || !object->is_object())
        return base::fail("is not a JSON object of strings, so nothing can be masked", path);
    return secrets_in(*object);
}

base::Result<void> write_archive(const Diagnosis& diagnosis,
                                 const std::vector<std::string>& secrets,
                                 const std::string& scratch, const std::string& name,
                                 const std::string& path) {
    namespace fs = std::filesystem;
    const fs::path top = fs::path(scratch) / name;
    for (const auto& [relative, content] : diagnosis.files) {
        const fs::path file = top / relative;
        TRY(base::make_directories(file.parent_path(), 0700));
        TRY(base::write_atomically(file, masked(content, secrets), 0600));
    }
    base::RunOptions options;
    options.deadline = longest_packing;
    options.ends_with_us = true;
    const auto packed =
        TRY(base::run({"tar", "--create", "--gzip", "--file=-", "--owner=0", "--group=0",
                       "--numeric-owner", "--sort=name", "--directory=" + scratch, "--", name},
                      options));
    if (packed.exit_code != 0)
        return base::fail("tar cannot make the archive: " + packed.standard_error, path);
    return base::create_exclusively(path, packed.standard_output, 0600);
}

}  // namespace batchai::cli
