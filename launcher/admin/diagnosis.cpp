// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/diagnosis.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "admin/masking.hpp"
#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "image/credentials.hpp"

namespace batchai::admin {

namespace {

constexpr std::size_t secrets_limit = 4UL << 20U;
// More of the end of a long file is read than is kept, and removed once it is masked: where it was
// cut it may begin inside a secret, whose rest no mask would find.
constexpr std::size_t masked_before_cut = 64UL << 10U;
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
        std::string content =
            size > diagnosis_file_limit
                ? base::end_of_file(file, 0, diagnosis_file_limit + masked_before_cut)
                : base::end_of_file(file, 0, diagnosis_file_limit);
        if (size > diagnosis_file_limit) diagnosis.cut.emplace(prefix + name, size);
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
        for (const auto& secret : {one.secrets(), one.registry_auth()})
            diagnosis.files.erase(prefix + secret.filename().string());
    }
}

namespace {

// Returns the text of a file of secrets; an empty one if there is no such file.
base::Result<std::string> secret_text(const std::filesystem::path& path) {
    auto text = base::read_private_file(path.string(), secrets_limit);
    if (!text && text.error().exit_code == base::ExitCode::not_found) return std::string();
    return text;
}

}  // namespace

base::Result<std::vector<std::string>> secrets_of(const record::JobFiles& files) {
    std::vector<std::string> secrets;
    if (const std::string text = TRY(secret_text(files.secrets())); !text.empty()) {
        const auto object = base::parse_json(text, files.secrets().string());
        // The parser's own message could quote a secret.
        if (!object || !object->is_object())
            return base::fail("is not a JSON object of strings, so nothing can be masked",
                              files.secrets().string());
        secrets = secrets_in(*object);
    }
    if (const std::string text = TRY(secret_text(files.registry_auth())); !text.empty()) {
        auto more = image::secrets_in_auth_file(text);
        if (!more) {
            more.error().where = files.registry_auth().string();
            return tl::unexpected(more.error());
        }
        std::move(more->begin(), more->end(), std::back_inserter(secrets));
    }
    // One secret may be a part of another.
    std::sort(secrets.begin(), secrets.end(), [](const std::string& one, const std::string& other) {
        return one.size() > other.size();
    });
    return secrets;
}

namespace {

// Removes what begins in the middle of a file that has `size` bytes.
void cut_front(std::string& text, std::size_t size, const std::vector<std::string>& secrets) {
    const std::size_t longest = secrets.empty() ? 0 : secrets.front().size();
    text.erase(0, std::max(masked_before_cut, longest));
    text.insert(0, fmt::format("[of {} bytes, only the end is here]\n", size));
}

}  // namespace

base::Result<void> write_archive(const Diagnosis& diagnosis,
                                 const std::vector<std::string>& secrets,
                                 const std::string& scratch, const std::string& name,
                                 const std::string& path) {
    namespace fs = std::filesystem;
    const fs::path top = fs::path(scratch) / name;
    for (const auto& [relative, content] : diagnosis.files) {
        const fs::path file = top / relative;
        TRY(base::make_directories(file.parent_path(), 0700));
        std::string text = masked(content, secrets);
        if (const auto cut = diagnosis.cut.find(relative); cut != diagnosis.cut.end())
            cut_front(text, cut->second, secrets);
        TRY(base::write_atomically(file, text, 0600));
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

}  // namespace batchai::admin
