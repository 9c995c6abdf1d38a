// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

// TRY, for functions that return a Result.
#include "mpi_bridge/core/try.hpp"

namespace batchai::base {

// The exit code of a command that ends with an error. batchai(1) documents the codes; never
// renumber them.
enum class ExitCode : int {
    ok = 0,
    failed = 1,        // the operation itself failed
    usage = 2,         // the command line is wrong
    bad_job_file = 3,  // job.json, cluster.json, site.lua or config.toml is wrong
    refused = 4,       // Slurm refused the request
    not_found = 5,     // the named resource does not exist
    timed_out = 6,     // a deadline passed
};

// An error is a value: what went wrong, where (a path, host or option), and what to do about it.
// `where` and `hint` may be empty. None of the three ends with a full stop or newline.
struct Error {
    std::string what;
    std::string where;
    std::string hint;
    ExitCode exit_code = ExitCode::failed;

    // Returns "where: what" and, on a second line, "hint: …", without a trailing newline.
    [[nodiscard]] std::string text() const {
        std::string out = where.empty() ? what : where + ": " + what;
        if (!hint.empty()) out += "\nhint: " + hint;
        return out;
    }
};

template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(std::string what, std::string where = {},
                                                std::string hint = {},
                                                ExitCode exit_code = ExitCode::failed) {
    return tl::unexpected<Error>(
        Error{std::move(what), std::move(where), std::move(hint), exit_code});
}

}  // namespace batchai::base
