// SPDX-License-Identifier: Apache-2.0
#include "scale_arguments.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/core.h>

#include "collectives/select/algorithms.hpp"
#include "core/settings.hpp"

namespace mpi_bridge_scale {

using mpi_bridge::fail;
using mpi_bridge::Outcome;

const char* const help =
    "Usage: mpi_bridge_scale [OPTION]...\n"
    "\n"
    "Runs the algorithms of mpi_bridge for a collective over a modelled network, in virtual time,\n"
    "and prints what they take as a Markdown table, beside the least that is possible.\n"
    "\n"
    "  --collective NAME     allreduce or alltoall       (allreduce)\n"
    "  --ranks N,...         numbers of ranks            (4,16,64,256,1000,4096,10000)\n"
    "  --bytes B,...         lengths of vectors, or of the messages of an alltoall\n"
    "                                                    (8,64K,1M,64M)\n"
    "  --model MODEL         as MPI_BRIDGE_MODEL         (tcp)\n"
    "  --ranks-per-node N    share a network interface   (1)\n"
    "  --most-messages N     do not run what needs more  (20M)\n";

namespace {

Outcome<std::vector<std::size_t>> read_list(std::string_view text, std::size_t least,
                                            std::size_t most) {
    std::vector<std::size_t> numbers;
    for (bool last = false; !last;) {
        const auto comma = text.find(',');
        last = comma == std::string_view::npos;
        const auto number = mpi_bridge::parse_bytes(text.substr(0, comma));
        if (!number || *number < least || *number > most) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        fmt::format("\"{}\" is not a number from {} to {}", text.substr(0, comma),
                                    least, most));
        }
        numbers.push_back(*number);
        if (!last) text.remove_prefix(comma + 1);
    }
    return numbers;
}

}  // namespace

Outcome<Arguments> read_arguments(const std::vector<std::string_view>& words) {
    constexpr std::size_t many = std::size_t{1} << 40;
    Arguments arguments;
    const auto numbers = [](std::vector<std::size_t>& out, std::size_t least, std::size_t most) {
        return [&out, least, most](std::string_view text) -> mpi_bridge::Done {
            auto list = read_list(text, least, most);
            if (!list) return pass_on(std::move(list));
            out = std::move(*list);
            return {};
        };
    };
    const auto number = [&](std::size_t& out) {
        return [&out](std::string_view text) -> mpi_bridge::Done {
            auto list = read_list(text, 1, many);
            if (!list) return pass_on(std::move(list));
            out = list->front();
            return {};
        };
    };
    const auto model = [&](std::string_view text) -> mpi_bridge::Done {
        auto read = mpi_bridge::Model::parse(text);
        if (!read) return pass_on(std::move(read));
        arguments.model = *read;
        return {};
    };
    const auto collective = [&](std::string_view text) -> mpi_bridge::Done {
        if (text != mpi_bridge::Allreduce::name && text != mpi_bridge::Alltoall::name) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        fmt::format("\"{}\" is not allreduce or alltoall", text));
        }
        arguments.collective =
            text == mpi_bridge::Alltoall::name ? Collective::alltoall : Collective::allreduce;
        return {};
    };
    using Option = std::pair<std::string_view, std::function<mpi_bridge::Done(std::string_view)>>;
    const std::vector<Option> options = {
        {"--collective", collective},
        {"--ranks", numbers(arguments.ranks, 2, 20000)},
        {"--bytes", numbers(arguments.bytes, sizeof(float), many)},
        {"--model", model},
        {"--ranks-per-node", number(arguments.ranks_per_node)},
        {"--most-messages", number(arguments.most_messages)},
    };
    for (std::size_t index = 0; index < words.size(); ++index) {
        if (words[index] == "--help") {
            arguments.help = true;
            return arguments;
        }
        const auto option = std::find_if(options.begin(), options.end(), [&](const Option& known) {
            return known.first == words[index];
        });
        if (option == options.end() || index + 1 == words.size()) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        fmt::format("\"{}\" is not an option, or lacks its value", words[index]));
        }
        if (auto read = option->second(words[++index]); !read) return pass_on(std::move(read));
    }
    return arguments;
}

}  // namespace mpi_bridge_scale
