// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "job/parse.hpp"
#include "plan/make.hpp"

namespace batchai::plan {

inline Inputs test_inputs() {
    Inputs inputs;
    inputs.identity = {
        "sub", "group", "space", "exp", "job", "", "0123abcd-4567-89ab-cdef-0123456789ab"};
    inputs.job_directory = "/home/ada/.batchai/jobs/1";
    inputs.user_id = 1000;
    inputs.user_name = "ada";
    inputs.home = "/home/ada";
    inputs.storage_root = "/home/ada/.batchai/storage";
    return inputs;
}

// Plans a job file of which only the inside of "properties" is given.
inline Made planned(std::string_view properties, const site::Site& site = {},
                    const Inputs& inputs = test_inputs()) {
    const auto parsed = job::parse(fmt::format("{{\"properties\": {{{}}}}}", properties));
    if (!parsed.spec) throw std::runtime_error(parsed.diagnostics.front().message);
    return make(*parsed.spec, parsed.positions, site, inputs);
}

// A job that has all it needs, and `more`, which starts with a comma.
inline std::string small_job(std::string_view more = {}, std::string_view nodes = "2") {
    return fmt::format(R"("nodeCount": {}, "stdOutErrPathPrefix": "/nfs/logs",
        "customMpiSettings": {{"commandLine": "./solve $X"}} {})",
                       nodes, more);
}

// "E103 the message" of each diagnostic.
inline std::string faults(const Made& made) {
    std::string out;
    for (const auto& diagnostic : made.diagnostics)
        out += fmt::format("{}{} {}", out.empty() ? "" : "\n", diagnostic.code, diagnostic.message);
    return out;
}

inline std::string value_of(const Plan& plan, std::string_view name) {
    std::string out = "(unset)";
    for (const Variable& variable : plan.environment) {
        if (variable.name == name) out = variable.value;
    }
    return out;
}

}  // namespace batchai::plan
