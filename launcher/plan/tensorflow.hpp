// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

inline constexpr const char* tensorflow_config_variable = "BATCHAI_TF_CONFIG";

// What TF_CONFIG calls worker 0, which is the master.
enum class TensorFlowMaster : std::uint8_t {
    worker,  // the first of the workers, as Batch AI did
    master,  // the only "master"; the other workers are numbered from 0
    chief,   // the only "chief", in the same way
};

// The tasks of a tensorFlowSettings job with several processes.
struct TensorFlowCluster {
    int workers = 1;
    int parameter_servers = 0;
    TensorFlowMaster master = TensorFlowMaster::worker;

    // Whether the job ends with its master. TensorFlow 2's workers beside parameter servers wait
    // for the chief's orders and never end by themselves.
    [[nodiscard]] bool ends_with_master() const {
        return parameter_servers > 0 && master != TensorFlowMaster::worker;
    }
    bool operator==(const TensorFlowCluster&) const = default;
};

// Reads the variable above from the job file's environmentVariables. Returns an error if its value
// is none of the words.
[[nodiscard]] base::Result<TensorFlowMaster> tensorflow_master(
    const std::vector<Variable>& environment);

// Returns nothing if the plan is that of another toolkit, or of one process.
[[nodiscard]] std::optional<TensorFlowCluster> tensorflow_cluster(const Plan& plan);

}  // namespace batchai::plan
