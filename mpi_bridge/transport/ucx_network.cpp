// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx_network.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <ucp/api/ucp.h>

#include "core/log.hpp"
#include "transport/network.hpp"

namespace mpi_bridge {
namespace {

// UCX has no call that tells a setting's value; printing all is the only public way.
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

std::string joined(const std::vector<std::string>& devices) {
    std::string list;
    for (const auto& device : devices)
        list += (list.empty() ? "" : ",") + device;
    return list;
}

struct Settlement {
    std::string devices;  // what UCX is to be told; "": nothing
    std::string text;
    bool rdma = false;
};

Settlement settlement_for(const ucp_config_t* config) {
    const auto network = network_of_this_host();
    const bool rdma = !network.rdma_ports.empty();
    const auto set = value_of(config, "UCX_NET_DEVICES");
    if (!set.empty() && set != "all") return {{}, set + ", as UCX_NET_DEVICES says", rdma};
    const auto choice = choose_devices(network);
    auto devices = joined(choice.devices);
    if (devices.empty()) return {{}, "UCX's choice: " + choice.reason, rdma};
    auto text = devices + ": " + choice.reason + "; UCX_NET_DEVICES overrides";
    return {std::move(devices), std::move(text), rdma};
}

// A rendezvous lets the receiver fetch long messages itself, which TCP can't do: there it only
// costs a round trip and, as measured, a fifth of the bandwidth.
void send_without_rendezvous(ucp_config_t* config) {
    if (value_of(config, "UCX_RNDV_THRESH") != "auto") return;
    if (const auto set = ucp_config_modify(config, "RNDV_THRESH", "inf"); set != UCS_OK) {
        log(LogLevel::warning,
            std::string("UCX does not take RNDV_THRESH=inf: ") + ucs_status_string(set));
    }
}

}  // namespace

void settle_network(ucp_config_t* config) {
    const auto settlement = settlement_for(config);
    if (!settlement.rdma) send_without_rendezvous(config);
    if (!settlement.devices.empty()) {
        const auto set = ucp_config_modify(config, "NET_DEVICES", settlement.devices.c_str());
        // UCX may be built without RDMA, or told by UCX_TLS not to use it: no reason to complain.
        (void)ucp_config_modify(config, "WARN_INVALID_CONFIG", "n");
        if (set != UCS_OK) {
            log(LogLevel::warning, "UCX does not take NET_DEVICES=" + settlement.devices + ": " +
                                       ucs_status_string(set));
            return;
        }
    }
    log(LogLevel::info, "network: " + settlement.text);
}

std::string ucx_network_in_use() {
    ucp_config_t* config = nullptr;
    const auto status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return std::string("unknown: UCX says ") + ucs_status_string(status);
    auto settlement = settlement_for(config);
    ucp_config_release(config);
    return std::move(settlement.text);
}

}  // namespace mpi_bridge
