// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/parse.hpp"

#include <utility>

#include <fmt/format.h>

#include "job/schema/binder.hpp"
#include "job/schema/faults.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/rules.hpp"
#include "job/schema/schema_version.hpp"
#include "job/syntax/tree.hpp"

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

// Encodings that no byte of which would make sense as UTF-8.
bool is_utf16_or_utf32(std::string_view text) {
    return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
           text.starts_with(std::string_view("\0\0\xFE\xFF", 4));
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

}  // namespace batchai::job
