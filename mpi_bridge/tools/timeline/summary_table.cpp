// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/summary_table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trace/byte_size.hpp"
#include "trace/quoting.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge::timeline_tool {
namespace {

constexpr double second = 1e6;  // in microseconds, like all times here
constexpr double millisecond = 1e3;

// A table of text, with the first column aligned to the left and the others to the right.
class Table {
  public:
    using Line = std::vector<std::string>;
    explicit Table(Line head) { lines_.push_back(std::move(head)); }
    void add(Line line) { lines_.push_back(std::move(line)); }

    [[nodiscard]] std::string text() const {
        std::vector<std::size_t> widths(lines_.front().size());
        for (const Line& line : lines_) {
            for (std::size_t column = 0; column < line.size(); ++column)
                widths[column] = std::max(widths[column], line[column].size());
        }
        std::string out;
        for (const Line& line : lines_) {
            out += fmt::format("{:<{}}", line.front(), widths.front());
            for (std::size_t column = 1; column < line.size(); ++column)
                out += fmt::format("  {:>{}}", line[column], widths[column]);
            out += '\n';
        }
        return out;
    }

  private:
    std::vector<Line> lines_;
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
    return text;
}

// The sum over all ranks.
TimeSpent together(const TensorSummary& tensor) {
    TimeSpent all;
    for (const auto& [rank, spent] : tensor.ranks) {
        all.operations += spent.operations;
        all.negotiate += spent.negotiate;
        all.operation += spent.operation;
        all.wait += spent.wait;
        all.copy += spent.copy;
        all.transfer += spent.transfer;
        all.bytes += spent.bytes;
    }
    return all;
}

double total_of(const TensorSummary& tensor) {
    const TimeSpent all = together(tensor);
    return all.negotiate + all.operation;
}

std::string late_text(const TensorSummary& tensor) {
    const auto late = late_rank(tensor);
    if (!late) return "-";
    const std::string rank = fmt::format("{} by {:.3f} ms", late->rank, late->by / millisecond);
    return late->share < 0 ? rank : fmt::format("{} ({:.0f} %)", rank, late->share * 100);
}

std::string tensor_table(const Summary& summary, std::size_t most) {
    std::vector<std::pair<double, const std::pair<const std::string, TensorSummary>*>> slowest;
    for (const auto& entry : summary.tensors())
        slowest.emplace_back(total_of(entry.second), &entry);
    std::stable_sort(slowest.begin(), slowest.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });

    Table table({"TENSOR", "OPERATION", "COUNT", "SIZE", "TOTAL s", "MEAN ms", "NEGOTIATE", "WAIT",
                 "COPY", "TRANSFER", "LATE RANK"});
    const std::size_t shown = most == 0 ? slowest.size() : std::min(most, slowest.size());
    for (std::size_t i = 0; i < shown; ++i) {
        const auto& [name, tensor] = *slowest[i].second;
        const TimeSpent all = together(tensor);
        const auto operations = static_cast<double>(std::max<std::uint64_t>(all.operations, 1));
        const auto ranks = static_cast<double>(std::max<std::size_t>(tensor.ranks.size(), 1));
        std::uint64_t count = 0;
        for (const auto& [rank, spent] : tensor.ranks)
            count = std::max(count, spent.operations);
        const auto each = [&](double time) {
            return fmt::format("{:.3f}", time / operations / millisecond);
        };
        table.add({quoted_for_people(name, 48), lower(tensor.operation), std::to_string(count),
                   byte_size_text(static_cast<std::uint64_t>(std::max<std::int64_t>(all.bytes, 0)) /
                                  std::max<std::uint64_t>(all.operations, 1)),
                   fmt::format("{:.3f}", slowest[i].first / ranks / second), each(slowest[i].first),
                   each(all.negotiate), each(all.wait), each(all.copy), each(all.transfer),
                   late_text(tensor)});
    }
    std::string text = table.text();
    if (shown < slowest.size()) text += fmt::format("and {} more\n", slowest.size() - shown);
    return text;
}

struct RankTotals {
    double waited = 0;
    std::uint64_t late_for = 0;  // tensors
};

std::map<int, RankTotals> rank_totals(const Summary& summary) {
    std::map<int, RankTotals> ranks;
    for (const auto& [rank, process] : summary.processes())
        ranks[rank];
    for (const auto& [name, tensor] : summary.tensors()) {
        if (const auto late = late_rank(tensor)) ++ranks[late->rank].late_for;
        double shortest = std::numeric_limits<double>::max();
        for (const auto& [rank, spent] : tensor.ranks) {
            if (spent.operations > 0) shortest = std::min(shortest, spent.mean());
        }
        for (const auto& [rank, spent] : tensor.ranks) {
            if (spent.operations == 0) continue;
            ranks[rank].waited += (spent.mean() - shortest) * static_cast<double>(spent.operations);
        }
    }
    return ranks;
}

std::string rank_table(const Summary& summary) {
    Table table({"PROCESS", "WAITED s", "LATE FOR"});
    for (const auto& [rank, totals] : rank_totals(summary)) {
        const auto process = summary.processes().find(rank);
        const std::string title =
            process == summary.processes().end() ? fmt::format("rank {}", rank) : process->second;
        const std::string quoted = quoted_for_people(title);
        table.add({quoted.substr(1, quoted.size() - 2),
                   fmt::format("{:.3f}", totals.waited / second),
                   fmt::format("{} tensor{}", totals.late_for, totals.late_for == 1 ? "" : "s")});
    }
    return table.text();
}

std::string ranks_text(const std::set<int>& ranks) {
    std::vector<std::uint64_t> bits;
    for (const int rank : ranks) {
        const auto index = static_cast<std::size_t>(std::max(rank, 0));
        bits.resize(std::max(bits.size(), index / 64 + 1));
        bits[index / 64] |= std::uint64_t{1} << (index % 64);
    }
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_ranges(bits));
}

std::string unfinished_list(const Summary& summary, std::size_t most) {
    std::string text;
    std::size_t listed = 0;
    for (const auto& [what, ranks] : summary.unfinished()) {
        if (most != 0 && listed++ == most) {
            return text + fmt::format("  and {} more\n", summary.unfinished().size() - most);
        }
        text += fmt::format("  {} {} on {}\n", quoted_for_people(what.first), what.second,
                            ranks_text(ranks));
    }
    return text;
}

}  // namespace

std::string summary_table(const Summary& summary, std::size_t most) {
    std::string text = fmt::format(
        "{:.3f} s, {} tensors; times per tensor are of all ranks' mean, "
        "in ms per operation\n\n",
        summary.duration() / second, summary.tensors().size());
    text += tensor_table(summary, most);
    text += '\n';
    text += rank_table(summary);
    if (!summary.unfinished().empty()) {
        text += "\nWithout an end:\n" + unfinished_list(summary, most);
    }
    if (summary.failed() > 0) text += fmt::format("\n{} operations failed\n", summary.failed());
    if (summary.dropped() > 0) {
        text += fmt::format("\n{} events were dropped: the counts and times above are too low\n",
                            summary.dropped());
    }
    return text;
}

}  // namespace mpi_bridge::timeline_tool
