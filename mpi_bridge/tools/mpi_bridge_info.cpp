// SPDX-License-Identifier: Apache-2.0
//
// Prints versions, the transports that UCX may use, and the settings in force, which a bug report
// should contain; or prints the algorithms that would be chosen. Needs no launcher.
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launch.hpp"
#include "collectives/select/selection.hpp"
#include "core/settings.hpp"
#include "reduce/reduction.hpp"
#include "transport/choice/network_choice.hpp"
#include "transport/ucx/transport.hpp"

namespace {

using mpi_bridge::Done;
using mpi_bridge::Model;
using mpi_bridge::Settings;

constexpr const char* help =
    "Usage: mpi_bridge_info [--ranks N] [--model MODEL]\n"
    "\n"
    "Prints the versions, transports and settings of mpi_bridge on this host. With --ranks, "
    "prints\n"
    "instead the algorithms that N ranks, one per node, use for vectors up to which length.\n"
    "\n"
    "  --ranks N      a number of ranks, at least 2\n"
    "  --model MODEL  what the network costs: shared_memory, rdma or tcp, or a list such as\n"
    "                 \"alpha=20us,beta=1.2GB/s,gamma=8GB/s\": per message, per byte moved, per\n"
    "                 byte reduced. Default: MPI_BRIDGE_MODEL, or else tcp; jobs measure it.\n"
    "\n"
    "MPI_BRIDGE_ALLREDUCE and MPI_BRIDGE_MODEL are respected, as in a job.\n";

void line(const char* name, const std::string& value) {
    std::printf("%-12s %s\n", name, value.c_str());
}

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

std::string or_default(const std::string& value, const char* otherwise) {
    return value.empty() ? otherwise : value;
}

Done print_host() {
    line("mpi_bridge", MPI_BRIDGE_VERSION);
    line("pmix", mpi_bridge::pmix_versions());
    line("ucx", mpi_bridge::ucx_version());
    const auto transports = mpi_bridge::ucx_transports();
    line("transports", transports ? join(*transports) : transports.error().text);
    const auto chosen = mpi_bridge::process_environment("UCX_TLS");
    line("UCX_TLS", chosen.value_or("not set: all of these"));

    auto settings = TRY(mpi_bridge::settings_from_environment());
    line("network", mpi_bridge::network_in_use(settings.network) + " (MPI_BRIDGE_NETWORK)");
    TRY(mpi_bridge::choose_kernels(settings.kernels));
    line("kernels", mpi_bridge::reduction_instruction_set() + std::string(" (MPI_BRIDGE_KERNELS)"));
    line("allreduce", or_default(settings.allreduce, "by the model") + " (MPI_BRIDGE_ALLREDUCE)");
    line("model", or_default(settings.model, "measured") + " (MPI_BRIDGE_MODEL)");
    line("segment", std::to_string(settings.segment_bytes) + " bytes (MPI_BRIDGE_SEGMENT_BYTES)");
    const bool limited = settings.timeout != mpi_bridge::no_limit;
    line("timeout", (limited ? std::to_string(settings.timeout.count()) + " s" : "none") +
                        " (MPI_BRIDGE_TIMEOUT_SECONDS)");
    return {};
}

Done print_selection(int ranks, std::string_view model_text) {
    auto settings = TRY(mpi_bridge::settings_from_environment());
    if (model_text.empty()) model_text = settings.model;
    auto model = TRY(Model::parse(model_text.empty() ? "tcp" : model_text));
    mpi_bridge::Selection selection(model, settings.segment_bytes);
    if (!settings.allreduce.empty()) {
        auto table = TRY(mpi_bridge::AllreduceTable::parse(settings.allreduce));
        selection.pin(std::move(table));
    }
    std::printf("%-15s%s\n", "model", model.text().c_str());
    std::fputs(selection.text(ranks).c_str(), stdout);
    return {};
}

struct Arguments {
    bool help = false;
    std::optional<int> ranks;
    std::string_view model;
};

// Returns nullopt after printing what is wrong.
std::optional<Arguments> read_arguments(const std::vector<std::string_view>& words) {
    const auto refuse = [](std::string_view what, std::string_view word) -> std::nullopt_t {
        std::fprintf(stderr, "mpi_bridge_info: %.*s \"%.*s\"\n%s", static_cast<int>(what.size()),
                     what.data(), static_cast<int>(word.size()), word.data(), help);
        return std::nullopt;
    };
    Arguments arguments;
    for (std::size_t index = 0; index < words.size(); ++index) {
        const auto word = words[index];
        if (word == "--help") {
            arguments.help = true;
            continue;
        }
        if (word != "--ranks" && word != "--model") return refuse("unexpected argument", word);
        if (++index == words.size()) return refuse("no value after", word);
        const auto value = words[index];
        if (word == "--model") {
            arguments.model = value;
            continue;
        }
        int ranks = 0;
        const char* end = value.data() + value.size();
        const auto [rest, fault] = std::from_chars(value.data(), end, ranks);
        if (fault != std::errc() || rest != end || ranks < 2) {
            return refuse("not a number of ranks from 2 on:", value);
        }
        arguments.ranks = ranks;
    }
    if (!arguments.model.empty() && !arguments.ranks) {
        return refuse("--ranks is needed with --model", arguments.model);
    }
    return arguments;
}

}  // namespace

int main(int argc, char** argv) {
    const auto arguments = read_arguments({argv + 1, argv + argc});
    if (!arguments) return 2;
    if (arguments->help) {
        std::fputs(help, stdout);
        return 0;
    }
    const auto printed =
        arguments->ranks ? print_selection(*arguments->ranks, arguments->model) : print_host();
    if (printed) return 0;
    std::fprintf(stderr, "mpi_bridge_info: %s\n", printed.error().text.c_str());
    return 1;
}
