// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/failure.hpp"

// The texts of PMI-2's wire protocol, as Slurm's mpi/pmi2 speaks it with a task: the length in six
// characters, then "cmd=NAME;key=value;…". Slurm does not know the escape of ";" that the protocol
// has, so no value may contain one. All functions are pure.
namespace mpi_bridge::pmi2 {

// PMI-2's limits for one value of the key-value space, both with the zero at the end.
inline constexpr std::size_t longest_key = 64;
inline constexpr std::size_t longest_value = 1024;
// Of the length before each text.
inline constexpr std::size_t header_bytes = 6;
// What fits into it.
inline constexpr std::size_t longest_text = 999999;

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The request as it goes to the server, with its length.
[[nodiscard]] std::string request(std::string_view command, const Pairs& pairs = {});

// The number of bytes that follow a header.
[[nodiscard]] Outcome<std::size_t> length_in(std::string_view header);

struct Answer {
    std::string command;
    std::map<std::string, std::string> values;

    [[nodiscard]] std::string_view value(const std::string& key) const;
    // Fails if the value is not a number from 0 to `most`.
    [[nodiscard]] Outcome<int> number(const std::string& key, int most) const;
};

// Reads what follows a header. Fails unless it answers `command` without an error.
[[nodiscard]] Outcome<Answer> answer(std::string_view text, std::string_view command);

// The ranks of each host, from the job's attribute PMI_process_mapping: "(vector,(0,4,2))" is two
// ranks on each of the hosts 0 to 3, rank after rank. A host may occur more than once. Where the
// blocks do not reach `ranks`, they start again.
[[nodiscard]] Outcome<std::vector<std::vector<int>>> hosts_in(std::string_view mapping, int ranks);

// Fails unless the host of this rank has exactly these tasks: SLURM_GTIDS, such as "0,1,2", names
// those of the node. Slurm's map puts each rank on a host of its own if the user has placed them
// (--distribution=arbitrary; _get_proc_mapping in Slurm's mpi/pmi2). Without that variable, the map
// is believed.
[[nodiscard]] Done check_host(const std::vector<std::vector<int>>& hosts, int rank,
                              std::string_view tasks);

// Bytes as text that the key-value space takes: in pieces of hexadecimal digits, at least one. The
// first begins with the number of pieces and a blank.
[[nodiscard]] std::vector<std::string> pieces_of(std::span<const std::byte> bytes);

// The number of pieces that the first one names.
[[nodiscard]] Outcome<std::size_t> pieces_after(std::string_view first);

// The bytes of all pieces together.
[[nodiscard]] Outcome<std::vector<std::byte>> bytes_of(const std::vector<std::string>& pieces);

}  // namespace mpi_bridge::pmi2
