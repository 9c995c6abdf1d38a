// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/sweep_parameters.hpp"

namespace batchai::job {

namespace {

constexpr std::array<std::string_view, 2> goals = {"min", "max"};
constexpr std::array<std::string_view, 2> takes = {"last", "best"};
constexpr std::array<std::string_view, 2> whose = {"first", "all"};

constexpr std::array metric_fields = {
    text<&SweepMetric::pattern>("pattern",
                                "Regular expression in the syntax of RE2. Its group is the number; "
                                "of several groups, the one with a name",
                                R"x("accuracy: ([0-9.]+)")x")
        .required()
        .checked(Check::metric_pattern),
    choice<&SweepMetric::goal>("goal", goals, "Which numbers are better", R"("max")").required(),
    choice<&SweepMetric::take>("take", takes, "Which number counts if there are several",
                               R"("best")")
        .defaults_to(R"("last")"),
    choice<&SweepMetric::ranks>(
        "ranks", whose, "Whose logs are searched: those of rank 0, or of all ranks", R"("all")")
        .defaults_to(R"("first")"),
};
constexpr Object metric_object = {
    "SweepMetric", "The number by which points are compared. It is found in the ranks' logs.",
    metric_fields};

constexpr std::array<std::string_view, 3> modes = {"grid", "list", "random"};

// Further rules are in sweep_parameters.cpp.
constexpr std::string_view parameters_form = R"({
    "oneOf": [
        {"type": "object", "minProperties": 1, "maxProperties": 64,
         "propertyNames": {"pattern": "^([A-Za-z_][A-Za-z0-9_]{0,63}|\\$.*)$"},
         "additionalProperties": {"oneOf": [
            {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}},
            {"type": "string", "pattern": "^[0-9]+-[0-9]+(:[0-9]+)?$"},
            {"type": "object", "minProperties": 1, "maxProperties": 1,
             "additionalProperties": false,
             "properties": {
                "uniform": {"type": "array", "minItems": 2, "maxItems": 2,
                            "items": {"type": "number"}},
                "loguniform": {"type": "array", "minItems": 2, "maxItems": 2,
                               "items": {"type": "number", "exclusiveMinimum": 0}},
                "choice": {"type": "array", "minItems": 1,
                           "items": {"type": ["string", "number", "boolean"]}}}}]}},
        {"type": "array", "minItems": 1,
         "items": {"type": "object", "minProperties": 1,
                   "additionalProperties": {"type": ["string", "number", "boolean"]}}}]
})";

constexpr Field parameters_field() {
    Field field;
    field.name = "parameters";
    field.kind = Kind::own;
    field.access.read = [](void* owner, const Node& node, Faults& faults) {
        read_sweep_parameters(*static_cast<SweepSettings*>(owner), node, faults);
    };
    field.access.echo = [](const void* owner) {
        return static_cast<const SweepSettings*>(owner)->parameters_as_given;
    };
    field.doc =
        "Names, each with an array of values, a range of numbers, or in the mode `random` with "
        "`uniform`, `loguniform` or `choice`. In the mode `list` also an array of points";
    field.example = R"({"lr": [0.1, 0.01], "seed": "1-8"})";
    field.form = parameters_form;
    field.form_name = "object, or array of objects";
    return field.required();
}

constexpr std::array sweep_fields = {
    parameters_field(),
    choice<&SweepSettings::mode>("mode", modes,
                                 "Each value with each other, the first of each and so on, or "
                                 "drawn points",
                                 R"("random")")
        .defaults_to(R"("grid")"),
    integer<&SweepSettings::samples>("samples", 1, maximum_sweep_points,
                                     "Number of points, in the mode `random`", "20"),
    integer<&SweepSettings::seed>("seed", 0, 1LL << 53U,
                                  "The same seed draws the same points, in the mode `random`", "7")
        .defaults_to("0"),
    integer<&SweepSettings::max_concurrent>("maxConcurrent", 1, maximum_sweep_points,
                                            "How many points run at the same time at most", "4"),
    object<&SweepSettings::metric>("metric", metric_object, "How points are compared"),
};

}  // namespace

constexpr Object sweep_object = {
    "Sweep",
    "Runs the job once for each point, as the tasks of an array job. The ranks have each parameter "
    "as a variable, such as `$AZ_BATCHAI_SWEEP_LR`. At most 10,000 points. An extension of Batch "
    "AI's schema; see sweeps.md.",
    sweep_fields};

}  // namespace batchai::job
