// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/rules.hpp"

#include <string>

#include <fmt/format.h>

namespace batchai::job {

namespace {

// The older schemas' number becomes the class that it most resembles.
void derive_priority(JobSpec& spec) {
    if (!spec.priority) return;
    if (*spec.priority < 0) spec.scheduling_priority = SchedulingPriority::low;
    if (*spec.priority > 0) spec.scheduling_priority = SchedulingPriority::high;
}

void check_cntk(CntkSettings& cntk, const PositionTable& positions, Faults& faults) {
    if (cntk.config_file_path.has_value() == cntk.python_script_file_path.has_value()) return;
    const CntkLanguage language =
        cntk.config_file_path ? CntkLanguage::brain_script : CntkLanguage::python;
    if (cntk.language_type && *cntk.language_type != language) {
        faults.add(Fault::conflict, positions.find("/properties/cntkSettings/languageType"),
                   fmt::format("\"languageType\" contradicts \"{}\"",
                               cntk.config_file_path ? "configFilePath" : "pythonScriptFilePath"),
                   fmt::format("write \"{}\", or leave it out",
                               cntk.config_file_path ? "BrainScript" : "Python"));
    }
    cntk.language_type = language;
}

void check_tensorflow(const TensorFlowSettings& tensorflow, int nodes,
                      const PositionTable& positions, Faults& faults) {
    const Position at = positions.find("/properties/tensorFlowSettings/parameterServerCount");
    const bool known = tensorflow.parameter_server_count &&
                       positions.contains("/properties/nodeCount") &&
                       !faults.any_at(positions.find("/properties/nodeCount"));
    if (!known || *tensorflow.parameter_server_count <= nodes) return;
    faults.add(Fault::out_of_range, at,
               fmt::format("\"parameterServerCount\" is {}, more than the {} nodes of the job",
                           *tensorflow.parameter_server_count, nodes),
               "a node runs at most one parameter server");
}

}  // namespace

void apply_rules(JobSpec& spec, const PositionTable& positions, Faults& faults) {
    derive_priority(spec);
    if (auto* cntk = std::get_if<CntkSettings>(&spec.toolkit)) {
        check_cntk(*cntk, positions, faults);
    }
    if (const auto* tensorflow = std::get_if<TensorFlowSettings>(&spec.toolkit)) {
        check_tensorflow(*tensorflow, spec.node_count, positions, faults);
    }
}

}  // namespace batchai::job
