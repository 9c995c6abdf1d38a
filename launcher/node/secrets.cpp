// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/secrets.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "record/job_files.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t secrets_limit = 1UL << 20U;

}  // namespace

base::Result<std::string> read_private_file(const std::string& path) {
    return base::read_private_file(path, secrets_limit);
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
