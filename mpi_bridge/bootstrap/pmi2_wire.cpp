// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_wire.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace mpi_bridge::pmi2 {
namespace {

constexpr std::size_t digits_per_piece = 960;
constexpr std::size_t most_pieces = 4096;
constexpr std::string_view digits = "0123456789abcdef";

// The number that the text consists of.
std::optional<int> number_in(std::string_view text, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
        return std::nullopt;
    }
    return value;
}

tl::unexpected<Failure> misunderstood(std::string_view what, std::string_view text) {
    constexpr std::size_t shown = 200;
    return fail(MPIB_ERROR_BOOTSTRAP, "Slurm's PMI-2 server gave " + std::string(what) + ": \"" +
                                          std::string(text.substr(0, shown)) + "\"");
}

// Takes the text up to `mark` off the front, and the mark. Nothing without a mark.
std::optional<std::string_view> take_until(std::string_view& text, char mark) {
    const auto end = text.find(mark);
    if (end == std::string_view::npos) return std::nullopt;
    const auto part = text.substr(0, end);
    text.remove_prefix(end + 1);
    return part;
}

struct Block {
    int first_host = 0;
    int hosts = 0;
    int ranks_per_host = 0;
};

// Reads "(0,4,2)" off the front of the text, with the comma before it.
std::optional<Block> take_block(std::string_view& text, int ranks) {
    constexpr std::string_view opening = ",(";
    if (!text.starts_with(opening)) return std::nullopt;
    text.remove_prefix(opening.size());
    std::array<int, 3> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto word = take_until(text, i + 1 < numbers.size() ? ',' : ')');
        const auto number = word ? number_in(*word, ranks) : std::nullopt;
        if (!number) return std::nullopt;
        numbers[i] = *number;
    }
    const Block block{numbers[0], numbers[1], numbers[2]};
    // There is no host without a rank, so none has a higher number than there are ranks.
    if (block.hosts < 1 || block.ranks_per_host < 1 || block.first_host + block.hosts > ranks) {
        return std::nullopt;
    }
    return block;
}

// Deals the ranks out to the hosts of the blocks.
std::vector<std::vector<int>> deal(const std::vector<Block>& blocks, int ranks) {
    std::map<int, std::vector<int>> hosts;
    int rank = 0;
    while (rank < ranks) {
        for (const Block& block : blocks) {
            for (int host = block.first_host; host < block.first_host + block.hosts; ++host) {
                for (int i = 0; i < block.ranks_per_host && rank < ranks; ++i)
                    hosts[host].push_back(rank++);
            }
        }
    }
    std::vector<std::vector<int>> lists;
    lists.reserve(hosts.size());
    for (auto& [host, list] : hosts)
        lists.push_back(std::move(list));
    return lists;
}

}  // namespace

std::string request(std::string_view command, const Pairs& pairs) {
    std::string text = "cmd=" + std::string(command) + ";";
    for (const auto& [key, value] : pairs)
        text.append(key).append("=").append(value).append(";");
    std::string header = std::to_string(text.size());
    if (header.size() < header_bytes) header.insert(0, header_bytes - header.size(), ' ');
    return header + text;
}

Outcome<std::size_t> length_in(std::string_view header) {
    auto word = header;
    while (word.starts_with(' '))
        word.remove_prefix(1);
    while (word.ends_with(' '))
        word.remove_suffix(1);
    const auto length = number_in(word, static_cast<int>(longest_text));
    if (!length) return misunderstood("no length", header);
    return static_cast<std::size_t>(*length);
}

std::string_view Answer::value(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? std::string_view() : std::string_view(found->second);
}

Outcome<int> Answer::number(const std::string& key, int most) const {
    const auto number = number_in(value(key), most);
    if (!number) return misunderstood("a wrong number for " + key, value(key));
    return *number;
}

Outcome<Answer> answer(std::string_view text, std::string_view command) {
    const std::string_view whole = text;
    Answer answer;
    while (!text.empty()) {
        auto pair = take_until(text, ';');
        const auto key = pair ? take_until(*pair, '=') : std::nullopt;
        if (!key) return misunderstood("an answer without a key", whole);
        if (*key == "cmd") {
            answer.command = *pair;
        } else {
            answer.values[std::string(*key)] = *pair;
        }
    }
    if (answer.command != std::string(command) + "-response") {
        return misunderstood("another answer than that to " + std::string(command), whole);
    }
    if (answer.value("rc") != "0") {
        return misunderstood("an error for " + std::string(command), whole);
    }
    return answer;
}

Outcome<std::vector<std::vector<int>>> hosts_in(std::string_view mapping, int ranks) {
    constexpr std::string_view opening = "(vector";
    std::string_view text = mapping;
    std::vector<Block> blocks;
    if (text.starts_with(opening)) {
        text.remove_prefix(opening.size());
        while (const auto block = take_block(text, ranks))
            blocks.push_back(*block);
    }
    if (blocks.empty() || text != ")") return misunderstood("an odd map of processes", mapping);
    return deal(blocks, ranks);
}

Done check_host(const std::vector<std::vector<int>>& hosts, int rank, std::string_view tasks) {
    std::vector<int> on_node;
    for (std::string_view rest = tasks; !rest.empty();) {
        const auto comma = rest.find(',');
        const auto task = number_in(rest.substr(0, comma), std::numeric_limits<int>::max());
        if (!task) return {};
        on_node.push_back(*task);
        rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    std::sort(on_node.begin(), on_node.end());
    for (const auto& host : hosts) {
        if (std::find(host.begin(), host.end(), rank) == host.end()) continue;
        if (on_node.empty() || host == on_node) return {};
    }
    return fail(
        MPIB_ERROR_BOOTSTRAP,
        "Slurm's PMI-2 does not say which ranks share a node with this one (" + std::string(tasks) +
            "), as with --distribution=arbitrary: start the step with --mpi=pmix or another "
            "distribution");
}

std::vector<std::string> pieces_of(std::span<const std::byte> bytes) {
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::byte byte : bytes) {
        text += digits[std::to_integer<std::size_t>(byte >> 4U)];
        text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at == 0 || at < text.size(); at += digits_per_piece)
        pieces.push_back(text.substr(at, digits_per_piece));
    pieces.front() = std::to_string(pieces.size()) + " " + pieces.front();
    return pieces;
}

Outcome<std::size_t> pieces_after(std::string_view first) {
    std::string_view rest = first;
    const auto word = take_until(rest, ' ');
    const auto count = word ? number_in(*word, static_cast<int>(most_pieces)) : std::nullopt;
    if (!count || *count < 1) return misunderstood("a value that no rank has published", first);
    return static_cast<std::size_t>(*count);
}

Outcome<std::vector<std::byte>> bytes_of(const std::vector<std::string>& pieces) {
    std::string text;
    for (const auto& piece : pieces)
        text += piece;
    text.erase(0, text.find(' ') + 1);
    if (text.size() % 2 != 0) return misunderstood("a value that was cut", text);
    std::vector<std::byte> bytes(text.size() / 2);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const auto high = digits.find(text[2 * i]);
        const auto low = digits.find(text[2 * i + 1]);
        if (high == std::string_view::npos || low == std::string_view::npos) {
            return misunderstood("a value that no rank has published", text);
        }
        bytes[i] = static_cast<std::byte>(high << 4U | low);
    }
    return bytes;
}

}  // namespace mpi_bridge::pmi2
