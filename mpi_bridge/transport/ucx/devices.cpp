// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <uct/api/uct.h>

#include "transport/ucx/transport.hpp"

namespace mpi_bridge {
namespace {

void add_transports(uct_component_h component, const char* domain, std::set<std::string>& names) {
    uct_md_config_t* config = nullptr;
    if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
    uct_md_h memory = nullptr;
    // A domain that cannot be opened has no hardware behind it on this host.
    if (uct_md_open(component, domain, config, &memory) == UCS_OK) {
        uct_tl_resource_desc_t* resources = nullptr;
        unsigned count = 0;
        if (uct_md_query_tl_resources(memory, &resources, &count) == UCS_OK) {
            for (unsigned i = 0; i < count; ++i)
                names.insert(resources[i].tl_name);
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(memory);
    }
    uct_config_release(config);
}

}  // namespace

Outcome<std::vector<std::string>> ucx_transports() {
    uct_component_h* components = nullptr;
    unsigned count = 0;
    const auto status = uct_query_components(&components, &count);
    if (status != UCS_OK) {
        return fail(MPIB_ERROR_INTERNAL,
                    std::string("uct_query_components failed: ") + ucs_status_string(status));
    }
    std::set<std::string> names;
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attributes{};
        attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        if (uct_component_query(components[i], &attributes) != UCS_OK) continue;
        std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
        attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attributes.md_resources = domains.data();
        if (uct_component_query(components[i], &attributes) != UCS_OK) continue;
        for (const auto& domain : domains)
            add_transports(components[i], domain.md_name, names);
    }
    uct_release_component_list(components);
    return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace mpi_bridge
