// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/job_file.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/file.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

// One byte more than the parser accepts, so that the parser reports a file that is too large.
constexpr std::size_t read_limit = job::maximum_file_size + 1;

base::Result<JobText> read_text(const std::string& path) {
    if (path == "-") {
        JobText out{"<stdin>", std::string(read_limit, '\0')};
        std::cin.read(out.text.data(), static_cast<std::streamsize>(out.text.size()));
        out.text.resize(static_cast<std::size_t>(std::cin.gcount()));
        if (std::cin.bad()) return base::fail("cannot read standard input");
        return out;
    }
    std::error_code code;
    if (std::filesystem::is_regular_file(path, code) &&
        std::filesystem::file_size(path, code) > read_limit) {
        return base::fail("the file is larger than 1 MiB", path, "is it a job file?",
                          base::ExitCode::bad_job_file);
    }
    auto text = base::read_file(path, read_limit);
    if (!text) {
        auto error = text.error();
        if (std::filesystem::is_fifo(path, code)) error.hint = "give \"-\" to read a pipe on stdin";
        return tl::unexpected(std::move(error));
    }
    return JobText{path, std::move(*text)};
}

}  // namespace

std::string job_name_from_file(const std::string& path) {
    auto name = path == "-" ? std::string() : std::filesystem::path(path).stem().string();
    for (char& c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x80 || (std::isalnum(byte) == 0 && c != '_' && c != '-')) c = '-';
    }
    name.resize(std::min<std::size_t>(name.size(), 60));
    const bool empty = name.find_first_not_of('-') == std::string::npos;
    return empty ? "job" : name;
}

void parse_text(Submission& submission, JobText text) {
    submission.text = std::move(text);
    job::Parsed parsed = job::parse(submission.text.text);
    submission.diagnostics = std::move(parsed.diagnostics);
    submission.positions = std::move(parsed.positions);
    if (parsed.spec) submission.spec = std::move(*parsed.spec);
}

base::Result<void> read_job_file(Submission& submission) {
    parse_text(submission, TRY(read_text(submission.options.path)));
    return {};
}

}  // namespace batchai::submit
