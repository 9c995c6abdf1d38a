// SPDX-License-Identifier: Apache-2.0
//
// Joins the timelines of a job's ranks, and shows where the time went.
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/timeline/event_reader.hpp"
#include "tools/timeline/merge.hpp"
#include "tools/timeline/summary.hpp"
#include "tools/timeline/summary_table.hpp"

namespace {

namespace tool = mpi_bridge::timeline_tool;

constexpr const char* help =
    "Usage: mpi_bridge_timeline merge -o OUTPUT FILE...\n"
    "       mpi_bridge_timeline summary [--top N] FILE...\n"
    "\n"
    "Works on the timelines that a job writes with MPI_BRIDGE_TIMELINE=PATH, one for each rank:\n"
    "PATH.0.json, PATH.1.json, ...\n"
    "\n"
    "merge    writes one file of all ranks' events, on one clock, for chrome://tracing or "
    "Perfetto.\n"
    "         Ranks of one host are exact to a microsecond; hosts are as far apart as their "
    "clocks.\n"
    "summary  prints which tensors took the longest, on what, and for which rank the others "
    "waited.\n"
    "         Takes merged files, too.\n"
    "\n"
    "  -o OUTPUT   the file to write; it is overwritten\n"
    "  --top N     how many tensors to print (20); 0: all of them\n"
    "  --help      this text\n"
    "\n"
    "A file whose process was killed may lack its end; what is there is used.\n"
    "\n"
    "Exit status: 0, 1 when a file cannot be read or written, 2 for a wrong command line.\n"
    "\n"
    "Example:\n"
    "  export MPI_BRIDGE_TIMELINE=$PWD/step\n"
    "  srun --mpi=pmix -n 4 python train.py\n"
    "  mpi_bridge_timeline summary step.*.json\n"
    "  mpi_bridge_timeline merge -o merged.json step.*.json\n";

struct CommandLine {
    bool merge = false;
    std::string output;
    std::size_t most = 20;
    std::vector<std::string> files;
};

int wrong(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_timeline: %s\n\n%s", what.c_str(), help);
    return 2;
}

int failed(const mpi_bridge::Failure& failure) {
    std::fprintf(stderr, "mpi_bridge_timeline: %s\n", failure.text.c_str());
    return 1;
}

void warn(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_timeline: warning: %s\n", what.c_str());
}

void warn_of_torn(const std::string& path) {
    warn(path + ": lacks its end, as the file of a killed process does; used up to there");
}

std::optional<std::size_t> parse_count(std::string_view text) {
    std::size_t count = 0;
    const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (fault != std::errc() || rest != text.data() + text.size()) return std::nullopt;
    return count;
}

// An error is the text to print.
tl::expected<CommandLine, std::string> parse(std::span<char*> words) {
    const auto unusable = [](std::string what) {
        return tl::unexpected<std::string>(std::move(what));
    };
    CommandLine line;
    const std::string_view verb = words.empty() ? "" : words.front();
    if (verb != "merge" && verb != "summary") {
        return unusable(verb.empty() ? "merge or summary?"
                                     : fmt::format("unknown command \"{}\"", verb));
    }
    line.merge = verb == "merge";
    bool options = true;
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (!options || word.empty() || word.front() != '-') {
            line.files.emplace_back(word);
        } else if (word == "--") {
            options = false;
        } else if ((word == "-o" && line.merge) || (word == "--top" && !line.merge)) {
            if (++i == words.size()) return unusable(fmt::format("{} needs a value", word));
            if (line.merge) {
                line.output = words[i];
            } else if (const auto count = parse_count(words[i])) {
                line.most = *count;
            } else {
                return unusable(fmt::format("--top \"{}\" is not a number", words[i]));
            }
        } else {
            return unusable(fmt::format("unexpected option \"{}\"", word));
        }
    }
    if (line.merge && line.output.empty()) return unusable("merge needs -o OUTPUT");
    if (line.files.empty()) return unusable("no file is given");
    return line;
}

int merge(const CommandLine& line) {
    const auto report = tool::merge(line.files, line.output);
    if (!report) return failed(report.error());
    for (const std::string& path : report->torn)
        warn_of_torn(path);
    if (!report->missing.empty()) {
        warn(fmt::format("no file of {} of the job's ranks, the first of which is rank {}",
                         report->missing.size(), report->missing.front()));
    }
    std::printf("%s: %llu events of %zu ranks\n", line.output.c_str(),
                static_cast<unsigned long long>(report->events), line.files.size());
    return 0;
}

mpi_bridge::Done add_file(const std::string& path, tool::Summary& summary) {
    auto reader = TRY(tool::EventReader::open(path));
    for (;;) {
        auto raw = TRY(reader->next());
        if (!raw) break;
        auto event = TRY(tool::parse_event(*reader, *raw));
        summary.add(event);
    }
    if (reader->torn()) warn_of_torn(path);
    return {};
}

int summarize(const CommandLine& line) {
    tool::Summary summary;
    for (const std::string& path : line.files) {
        const mpi_bridge::Done added = add_file(path, summary);
        if (!added) return failed(added.error());
    }
    summary.finish();
    std::fputs(tool::summary_table(summary, line.most).c_str(), stdout);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> words(argv + 1, argc > 0 ? static_cast<std::size_t>(argc - 1) : 0);
    for (const std::string_view word : words) {
        if (word != "--help" && word != "-h") continue;
        std::fputs(help, stdout);
        return 0;
    }
    const auto line = parse(words);
    if (!line) return wrong(line.error());
    return line->merge ? merge(*line) : summarize(*line);
}
