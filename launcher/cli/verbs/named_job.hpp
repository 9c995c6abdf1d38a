// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cli/tree/builder.hpp"
#include "status/job_facts.hpp"
#include "status/job_view.hpp"
#include "user/parents.hpp"

// The job that a verb is about, as a word or by --name, and the task of an array job.
namespace batchai::cli {

struct NamedJob {
    std::optional<std::string> word;
    std::optional<std::string> option;
    std::optional<int> task;
    user::ParentOptions parents;
};

inline void add_named_job(Parser leaf, NamedJob& job) {
    // Not "job": from CLI11 2.4 on, a word and an option cannot have the same name.
    add_optional(leaf, "job-name", job.word, "Name of the job").type_name("NAME");
    add_optional(leaf, "--name,-n,--job,-j", job.option, "Name of the job, instead of the word")
        .type_name("NAME")
        .group(resource_arguments);
    add_experiment_option(leaf, job.parents);
    add_optional(leaf, "--task", job.task, "The task of an array job")
        .type_name("NUMBER")
        .non_negative();
}

[[nodiscard]] inline base::Result<status::FactsOf> key_of(const NamedJob& job,
                                                          const std::string& verb) {
    if (job.word.has_value() == job.option.has_value())
        return base::fail("name one job", "batchai job " + verb, "batchai job " + verb + " train",
                          base::ExitCode::usage);
    return status::FactsOf{
        .key = user::job_key({.job = job.word ? *job.word : *job.option, .parents = job.parents}),
        .task = job.task};
}

// Returns the error of a verb that the job's state, or its kind, does not allow.
[[nodiscard]] inline tl::unexpected<base::Error> refusal_for(const status::JobView& view,
                                                             std::string what,
                                                             std::string hint = {}) {
    return base::fail(std::move(what), view.job.key.job, std::move(hint), base::ExitCode::refused);
}

}  // namespace batchai::cli
