// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/network.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <ucp/api/ucp.h>

#include "core/log.hpp"
#include "transport/choice/network.hpp"

namespace mpi_bridge {
namespace {

// UCX has no call that returns a setting's value; printing all settings is the only public way.
std::string value_of(const ucp_config_t* config, std::string_view variable) {
    char* text = nullptr;
    std::size_t length = 0;
    std::FILE* stream = open_memstream(&text, &length);
    if (stream == nullptr) return {};
    ucp_config_print(config, stream, nullptr, UCS_CONFIG_PRINT_CONFIG);
    std::fclose(stream);
    const std::string all(text, length);
    std::free(text);
    const auto at = all.find(std::string(variable) + '=');
    if (at == std::string::npos) return {};
    const auto begin = at + variable.size() + 1;
    return all.substr(begin, all.find('\n', begin) - begin);
}

UcxChoice choice_for(const ucp_config_t* config, UcxUse use) {
    return choose_ucx(network_of_this_host(),
                      {value_of(config, "UCX_TLS"), value_of(config, "UCX_NET_DEVICES")}, use);
}

bool tell(ucp_config_t* config, const char* name, const std::string& value) {
    if (value.empty()) return true;
    const auto set = ucp_config_modify(config, name, value.c_str());
    if (set == UCS_OK) return true;
    log(LogLevel::warning,
        std::string("UCX does not take ") + name + "=" + value + ": " + ucs_status_string(set));
    return false;
}

// A rendezvous lets the receiver fetch long messages itself. TCP cannot do that, so there it only
// costs a round trip and, as measured, a fifth of the bandwidth.
void send_without_rendezvous(ucp_config_t* config) {
    if (value_of(config, "UCX_RNDV_THRESH") != "auto") return;
    if (const auto set = ucp_config_modify(config, "RNDV_THRESH", "inf"); set != UCS_OK) {
        log(LogLevel::warning,
            std::string("UCX does not take RNDV_THRESH=inf: ") + ucs_status_string(set));
    }
}

}  // namespace

Done configure_network(ucp_config_t* config, UcxUse use) {
    const auto choice = choice_for(config, use);
    if (!choice.rdma) send_without_rendezvous(config);
    // UCX may be built without RDMA, or UCX_TLS may rule it out; neither deserves a warning.
    (void)ucp_config_modify(config, "WARN_INVALID_CONFIG", "n");
    if (!tell(config, "TLS", choice.transports)) {
        return fail(MPIB_ERROR_INTERNAL, "UCX cannot be kept from TCP");
    }
    if (tell(config, "NET_DEVICES", choice.devices)) {
        log(LogLevel::info, "network: " + choice.text);
    }
    return {};
}

std::string ucx_network_in_use(bool named) {
    ucp_config_t* config = nullptr;
    const auto status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return std::string("unknown: UCX says ") + ucs_status_string(status);
    auto choice = choice_for(config, {true, named});
    ucp_config_release(config);
    return std::move(choice.text);
}

}  // namespace mpi_bridge
