// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/parse.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "job/schema/binder.hpp"
#include "job/schema/faults.hpp"
#include "job/schema/field.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/sweep_parameters.hpp"
#include "job/syntax/tree.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

SchemaVersion declared_schema(const Node& root) {
    for (const Member& member : root.members) {
        if (member.key == "$schema" && member.value.type == NodeType::string) {
            return schema_of_url(member.value.text);
        }
    }
    return SchemaVersion::v2018_05_01;
}

// Recognizes UTF-16 and UTF-32 by their byte order mark. The fault is then reported once, as a
// wrong encoding, and not as many invalid bytes.
bool is_utf16_or_utf32(std::string_view text) {
    return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
           text.starts_with(std::string_view("\0\0\xFE\xFF", 4));
}

// Maps the numeric priority of the older schemas to a class, by its sign. The planner takes the
// number itself.
void derive_priority(JobSpec& spec, const PositionTable& positions, Faults& faults) {
    if (!spec.priority) return;
    if (positions.contains("/properties/schedulingPriority")) {
        faults.add(Fault::no_effect, positions.find("/properties/priority"),
                   "\"priority\" has no effect beside \"schedulingPriority\"",
                   "remove one of them");
        spec.priority.reset();
        return;
    }
    if (*spec.priority < 0) spec.scheduling_priority = SchedulingPriority::low;
    if (*spec.priority > 0) spec.scheduling_priority = SchedulingPriority::high;
}

// Reports settings of the older schemas that nothing here depends on.
void report_without_effect(const JobSpec& spec, const PositionTable& positions, Faults& faults) {
    const auto report = [&](const std::string& pointer, std::string_view name, std::string reason,
                            std::string hint) {
        if (positions.contains(pointer))
            faults.add(Fault::no_effect, positions.find(pointer),
                       fmt::format("\"{}\" has no effect: {}", name, reason), std::move(hint));
    };
    report("/properties/experimentName", "experimentName",
           "the experiment is chosen when the job is created",
           fmt::format("give --experiment {} to `batchai job create`",
                       spec.experiment_name.value_or("NAME")));
    for (std::size_t i = 0; i < spec.output_directories.size(); ++i)
        report(fmt::format("/properties/outputDirectories/{}/type", i), "type",
               "it only describes the directory", "remove it");
}

// Reports paths like "/logs/run" in a job with a volume at "logs": in a here-document that is not
// quoted, the shell replaces "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/run" by that.
void report_lost_variables(const JobSpec& spec, const PositionTable& positions, Faults& faults) {
    std::vector<std::string_view> mounts;
    each_volume(spec.mount_volumes, [&](const auto& volume, std::size_t /*index*/) {
        mounts.push_back(volume.relative_mount_path);
    });
    const auto report = [&](const std::string& pointer, std::string_view path) {
        if (!path.starts_with('/')) return;
        const std::string_view below = path.substr(1);
        for (const std::string_view mount : mounts) {
            const bool inside = !mount.empty() && below.starts_with(mount) &&
                                (below.size() == mount.size() || below[mount.size()] == '/');
            if (!inside) continue;
            faults.add(Fault::lost_variable, positions.find(pointer),
                       fmt::format("{} is a path of the node, not of the volume {}", quote(path),
                                   quote(mount)),
                       "did the shell replace \"$AZ_BATCHAI_JOB_MOUNT_ROOT\"? Quote the word that "
                       "ends a here-document: << 'EOF'");
            return;
        }
    };
    report("/properties/stdOutErrPathPrefix", spec.std_out_err_path_prefix);
    for (std::size_t i = 0; i < spec.input_directories.size(); ++i)
        report(fmt::format("/properties/inputDirectories/{}/path", i),
               spec.input_directories[i].path);
    for (std::size_t i = 0; i < spec.output_directories.size(); ++i)
        report(fmt::format("/properties/outputDirectories/{}/pathPrefix", i),
               spec.output_directories[i].path_prefix);
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

void check_sweep(const SweepSettings& sweep, const PositionTable& positions, Faults& faults) {
    auto fault = fault_of(sweep);
    if (!fault) return;
    const Position at = positions.find(fmt::format("/properties/sweep/{}", fault->key));
    if (!faults.any_at(at))
        faults.add(fault->fault, at, std::move(fault->message), std::move(fault->hint));
}

// Applies the rules that the field table cannot express: constraints between different fields, and
// defaults that depend on other values. Values that are faulty in the file may be missing from the
// spec.
void apply_rules(JobSpec& spec, const PositionTable& positions, Faults& faults) {
    derive_priority(spec, positions, faults);
    report_without_effect(spec, positions, faults);
    report_lost_variables(spec, positions, faults);
    if (auto* cntk = std::get_if<CntkSettings>(&spec.toolkit)) {
        check_cntk(*cntk, positions, faults);
    }
    if (const auto* tensorflow = std::get_if<TensorFlowSettings>(&spec.toolkit)) {
        check_tensorflow(*tensorflow, spec.node_count, positions, faults);
    }
    if (spec.sweep) check_sweep(*spec.sweep, positions, faults);
}

JobSpec read_spec(const Tree& tree, Faults& faults, PositionTable& positions) {
    const Node& root = *tree.root;
    JobSpec spec;
    if (root.type != NodeType::object) {
        if (root.type != NodeType::broken) {
            faults.add(Fault::top_level, root.position, "the file does not hold an object",
                       R"(a job file is an object: { "properties": { ... } })");
        }
        return spec;
    }
    spec.schema = declared_schema(root);
    positions.add("", root.position);
    Binder binder(spec.schema, tree.complete, faults, positions);
    binder.bind(job_file_object, root, &spec, "", "");
    binder.check_mounts();
    apply_rules(spec, positions, faults);
    return spec;
}

}  // namespace

Position PositionTable::find(std::string_view pointer) const {
    while (true) {
        const auto found = positions_.find(pointer);
        if (found != positions_.end()) return found->second;
        const std::size_t slash = pointer.rfind('/');
        if (slash == std::string_view::npos) return {};
        pointer = pointer.substr(0, slash);
    }
}

Parsed parse(std::string_view text) {
    Parsed parsed;
    Faults faults;
    std::optional<JobSpec> spec;
    if (text.size() > maximum_file_size) {
        faults.add(
            Fault::file_too_large, {},
            fmt::format("the file has {} bytes, more than {}", text.size(), maximum_file_size),
            "is this a job file?");
    } else if (is_utf16_or_utf32(text)) {
        faults.add(Fault::not_utf8, {1, 1, 1}, "the file is not UTF-8 but UTF-16 or UTF-32",
                   "save it as UTF-8 without BOM");
    } else {
        const Tree tree = read_tree(text, faults);
        if (tree.root) spec = read_spec(tree, faults, parsed.positions);
    }
    parsed.diagnostics = faults.take_sorted();
    if (!has_error(parsed.diagnostics)) parsed.spec = std::move(spec);
    return parsed;
}

Parsed parse_mount_volumes(std::string_view text) {
    Parsed parsed;
    Faults faults;
    const Tree tree = read_tree(text, faults);
    if (tree.root && tree.root->type == NodeType::object) {
        parsed.spec.emplace();
        Binder binder(parsed.spec->schema, tree.complete, faults, parsed.positions);
        binder.bind(mount_volumes_object, *tree.root, &parsed.spec->mount_volumes,
                    "/properties/mountVolumes", "mountVolumes");
        binder.check_mounts();
    } else if (tree.root && tree.root->type != NodeType::broken) {
        faults.add(Fault::wrong_type, tree.root->position, "\"mountVolumes\" is not an object");
    }
    parsed.diagnostics = faults.take_sorted();
    if (has_error(parsed.diagnostics)) parsed.spec.reset();
    return parsed;
}

}  // namespace batchai::job
