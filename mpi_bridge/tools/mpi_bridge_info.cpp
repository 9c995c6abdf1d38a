// SPDX-License-Identifier: Apache-2.0
//
// Prints versions, the transports UCX may use, and the settings in force: what a report of a fault
// should contain. Needs no launcher.
#include <cstdio>
#include <cstring>
#include <string>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launch.hpp"
#include "core/settings.hpp"
#include "reduce/reduction.hpp"
#include "select/selection.hpp"
#include "transport/ucx_transport.hpp"

namespace {

constexpr const char* help =
    "Usage: mpi_bridge_info\n"
    "\n"
    "Prints the versions, transports and settings of mpi_bridge on this host.\n";

void line(const char* name, const std::string& value) {
    std::printf("%-12s %s\n", name, value.c_str());
}

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

int print() {
    line("mpi_bridge", MPI_BRIDGE_VERSION);
    line("pmix", mpi_bridge::pmix_versions());
    line("ucx", mpi_bridge::ucx_version());
    const auto transports = mpi_bridge::ucx_transports();
    line("transports", transports ? join(*transports) : transports.error().text);
    const auto chosen = mpi_bridge::process_environment("UCX_TLS");
    line("UCX_TLS", chosen.value_or("not set: all of these"));
    line("kernels", mpi_bridge::reduction_instruction_set());

    const auto settings = mpi_bridge::settings_from_environment();
    if (!settings) {
        std::fprintf(stderr, "mpi_bridge_info: %s\n", settings.error().text.c_str());
        return 1;
    }
    mpi_bridge::AllreduceTable table;
    if (!settings->allreduce.empty()) {
        auto parsed = mpi_bridge::AllreduceTable::parse(settings->allreduce);
        if (!parsed) {
            std::fprintf(stderr, "mpi_bridge_info: %s\n", parsed.error().text.c_str());
            return 1;
        }
        table = std::move(*parsed);
    }
    line("allreduce", table.text() + " (MPI_BRIDGE_ALLREDUCE)");
    line("segment", std::to_string(settings->segment_bytes) + " bytes (MPI_BRIDGE_SEGMENT_BYTES)");
    line("timeout", std::to_string(settings->timeout.count()) + " s (MPI_BRIDGE_TIMEOUT_SECONDS)");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
        std::fputs(help, stdout);
        return 0;
    }
    if (argc > 1) {
        std::fprintf(stderr, "mpi_bridge_info: unexpected argument \"%s\"\n%s", argv[1], help);
        return 2;
    }
    return print();
}
