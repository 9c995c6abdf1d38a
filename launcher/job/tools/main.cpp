// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/file.hpp"
#include "job/tools/documents.hpp"

namespace {

bool write(const std::filesystem::path& path, const std::string& text) {
    const auto written = batchai::base::write_atomically(path, text);
    if (!written) fmt::print(stderr, "{}\n", written.error().text());
    return written.has_value();
}

bool is_current(const std::filesystem::path& path, const std::string& text) {
    const auto present = batchai::base::read_file(path);
    if (!present) {
        fmt::print(stderr, "{}\n", present.error().text());
        return false;
    }
    if (*present == text) return true;
    fmt::print(stderr, "{}: differs from the tables in the code\nhint: run batchai_job_docs {}\n",
               path.string(), path.parent_path().string());
    return false;
}

int run(int count, char** words) {
    const bool check = count == 3 && std::string_view(words[1]) == "--check";
    if (count != 2 && !check) {
        fmt::print(stderr, "usage: batchai_job_docs [--check] DIRECTORY\n");
        return 2;
    }
    const std::filesystem::path directory = words[count - 1];
    const auto handle = check ? is_current : write;
    const bool page = handle(directory / "job-json.md", batchai::job::reference_page());
    const bool errors = handle(directory / "errors.md", batchai::job::errors_page());
    const bool schema = handle(directory / "job.schema.json", batchai::job::schema_document());
    return page && errors && schema ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    try {
        return run(count, words);
    } catch (const std::exception& error) {
        std::fputs(error.what(), stderr);
        return 1;
    }
}
