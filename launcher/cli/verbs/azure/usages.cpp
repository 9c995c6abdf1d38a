// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "clusters/view.hpp"
#include "slurm/cores.hpp"
#include "status/resource_view.hpp"

namespace batchai::cli {
namespace {

struct UsageOptions {
    std::optional<std::string> location;
};

Value usage_value(const std::string& name, const std::string& text, int current, int limit) {
    return Value::Object{{"currentValue", current},
                         {"limit", limit},
                         {"name", Value::Object{{"localizedValue", text}, {"value", name}}},
                         {"unit", "Count"}};
}

// Counts the cores of the nodes of each VM size of the site, or of the default partition if the
// site names no size. Sizes may share nodes.
Answer list_usages(const UsageOptions& /*options*/) {
    const auto here = TRY(open_context());
    TRY(here.slurm.ping());
    Value::Array values;
    const auto add = [&](const std::string& name, const std::string& text,
                         const slurm::NodeFilter& filter) -> base::Result<void> {
        const auto cores = TRY(slurm::cores(here.slurm, filter));
        values.push_back(usage_value(name, text, cores.allocated, cores.total));
        return {};
    };
    for (const auto& [name, size] : here.site.vm_sizes)
        TRY(add(name, fmt::format("{} Cores", name), clusters::node_filter(here.site, name)));
    if (values.empty()) TRY(add("cores", "Cores", clusters::node_filter(here.site, "")));
    return Outcome{Value(std::move(values)), status::usage_columns};
}

void add_list(CommandTree& tree, Parser parent, const std::string& name,
              const std::string& example) {
    auto [leaf, options] =
        add_verb(tree, parent, name, "Show how many cores of each VM size are in use, by all users",
                 example, list_usages);
    add_optional(leaf, "--location,-l", options->location,
                 "Accepted without effect: a site has one location")
        .type_name("TEXT");
}

}  // namespace

const Verbs usages_verbs("", 130, [](CommandTree& tree, Parser app) {
    add_list(tree, app, "list-usages", "batchai list-usages --output table");
    const Parser group = add_group(app, "usage", "The cores in use, as list-usages shows them");
    add_list(tree, group, "list", "batchai usage list --output table");
});

}  // namespace batchai::cli
