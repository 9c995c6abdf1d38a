// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/secrets.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "record/job_files.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t file_limit = 1UL << 20U;

base::Result<void> check_mode(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0)
        return base::fail(fmt::format("cannot be read: {}", std::strerror(errno)), path);
    if (S_ISREG(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077U) == 0)
        return {};
    return base::fail("must be a file of yours that nobody else can read", path,
                      fmt::format("chmod 600 {}", path));
}

}  // namespace

base::Result<std::string> read_private_file(const std::string& path) {
    TRY(check_mode(path));
    return base::read_file(path, file_limit);
}

base::Result<std::vector<plan::Variable>> read_secrets(const std::string& job_directory,
                                                       const std::vector<std::string>& names) {
    std::vector<plan::Variable> values;
    if (names.empty()) return values;
    const std::string path = record::JobFiles(job_directory).secrets().string();
    const std::string text = TRY(read_private_file(path));
    const auto object = base::parse_json(text, path);
    // The parser's own message is not shown, because it could quote a secret.
    if (!object || !object->is_object())
        return base::fail("is not a JSON object of strings", path, "submit the job again");
    for (const std::string& name : names) {
        const std::string* const value = (*object)[name].string();
        if (value == nullptr)
            return base::fail(fmt::format("has no value for the secret variable {}", name), path,
                              "submit the job again");
        values.push_back({name, *value});
    }
    return values;
}

}  // namespace batchai::node
