// SPDX-License-Identifier: Apache-2.0
//
// Prints what each algorithm of an allreduce or an alltoall takes at scale. What is real and what
// is modelled is said in README.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <sys/mman.h>

#include "collectives/select/algorithms.hpp"
#include "collectives/select/selection.hpp"
#include "scale_arguments.hpp"
#include "simulation.hpp"

namespace mpi_bridge_scale {
namespace {

using mpi_bridge::Algorithm;
using mpi_bridge::Allreduce;
using mpi_bridge::Alltoall;
using mpi_bridge::Case;
using mpi_bridge::Conversation;
using mpi_bridge::Done;

// Address space that all ranks take for their vectors. Nothing in it is ever touched.
class Vectors {
  public:
    explicit Vectors(std::size_t bytes)
        : bytes_(bytes),
          memory_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                       0)) {}
    ~Vectors() {
        if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
    }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;

    [[nodiscard]] bool usable() const { return memory_ != MAP_FAILED; }
    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

  private:
    std::size_t bytes_;
    void* memory_;
};

std::string bytes_text(std::uint64_t bytes) {
    if (bytes < 1024) return fmt::format("{} B", bytes);
    const auto number = static_cast<double>(bytes);
    if (bytes < 1024UL * 1024) return fmt::format("{:.4g} KiB", number / 1024);
    return fmt::format("{:.4g} MiB", number / 1024 / 1024);
}

std::string time_text(Time seconds) {
    if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
    if (seconds < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
    return fmt::format("{:.4g} s", seconds);
}

// Messages of all ranks, roughly; only these algorithms can need too many to wait for.
double messages_of(const Algorithm<Allreduce>& algorithm, const Case& call) {
    const double ranks = call.ranks;
    if (algorithm.name == "direct") return 2 * ranks * (ranks - 1);
    if (algorithm.name != "ring") return 0;
    return 2 * ranks * (ranks - 1) * (1 + call.bytes / ranks / call.segment_bytes);
}

// What the rows of a table have in common.
struct Row {
    int ranks = 2;
    std::size_t bytes = 0;
    std::byte* vector = nullptr;
    Time bound = 0;

    [[nodiscard]] Case call() const {
        return {ranks, static_cast<double>(bytes),
                static_cast<double>(Simulation::Options().segment_bytes)};
    }
};

Done print_row(const Arguments& arguments, const Row& row, const std::string& name, double messages,
               const Simulation::Body& body) {
    Simulation::Options options;
    options.ranks = row.ranks;
    options.hardware = {arguments.model, mpi_bridge::shared_memory_model(),
                        static_cast<int>(arguments.ranks_per_node)};
    options.carries_payload = false;
    std::printf("| %d | %s | %s | ", row.ranks, bytes_text(row.bytes).c_str(), name.c_str());
    if (messages > static_cast<double>(arguments.most_messages)) {
        std::printf("not run | | | | | |\n");
        return {};
    }
    auto report = Simulation::run(options, body);
    if (!report) return pass_on(std::move(report));
    std::printf("%d | %s | %d | %s | %s | %.2f |\n", report->steps,
                bytes_text(report->bytes_per_rank).c_str(), report->connections_per_rank,
                time_text(report->seconds).c_str(), time_text(row.bound).c_str(),
                report->seconds / row.bound);
    std::fflush(stdout);
    return {};
}

Done print_algorithm(const Arguments& arguments, const Row& row,
                     const Algorithm<Allreduce>& algorithm, bool chosen) {
    return print_row(arguments, row, std::string(algorithm.name) + (chosen ? " *" : ""),
                     messages_of(algorithm, row.call()), [&](Conversation& talk) {
                         return algorithm.run(talk, Simulation::float_sum(), row.vector, row.vector,
                                              row.bytes / sizeof(float));
                     });
}

// For comparison, what mpi_bridge never chooses: a reduction to one rank and a broadcast from
// there.
Done print_tree(const Arguments& arguments, const Row& row) {
    const double segments =
        std::ceil(static_cast<double>(row.bytes) / Simulation::Options().segment_bytes);
    const double messages = 2.0 * (row.ranks - 1) * std::max(segments, 1.0);
    return print_row(arguments, row, "tree", messages, [&](Conversation& talk) -> Done {
        const auto& reduce = *mpi_bridge::find_algorithm<mpi_bridge::Reduce>("binomial");
        const auto& broadcast = *mpi_bridge::find_algorithm<mpi_bridge::Broadcast>("binomial");
        TRY(reduce.run(talk, Simulation::float_sum(), row.vector, row.vector,
                       row.bytes / sizeof(float), 0));
        return broadcast.run(talk, {row.vector, row.bytes}, 0);
    });
}

// No alltoall can be faster: each rank hears from all others, and sends a message to each of them.
Time least_alltoall_seconds(const Row& row, const mpi_bridge::Model& model) {
    const Case nothing{.ranks = row.ranks};
    const double sent = static_cast<double>(row.bytes) * (row.ranks - 1);
    return std::max(least_allreduce_seconds(nothing, model), sent * model.beta);
}

void print_head(const Arguments& arguments, const char* length) {
    std::printf("Model: %s; %zu rank(s) per node. The algorithm that is chosen is marked *.\n\n",
                arguments.model.text().c_str(), arguments.ranks_per_node);
    std::printf(
        "| ranks | %s | algorithm | steps | sent per rank | connections | time | bound | ratio |\n"
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
        length);
}

// All ranks use the same memory, because no message moves anything.
Done print_alltoalls(const Arguments& arguments, mpi_bridge::Selection& selection, Row row) {
    std::vector<std::byte> memory(2 * row.bytes);
    const auto ranks = static_cast<std::size_t>(row.ranks);
    const std::vector<mpi_bridge::ConstBytes> out(ranks, {memory.data(), row.bytes});
    const std::vector<mpi_bridge::Bytes> in(ranks, {memory.data() + row.bytes, row.bytes});
    const mpi_bridge::MessageLengths lengths{.longest = row.bytes, .equal = true};
    row.bound = least_alltoall_seconds(row, arguments.model);
    const auto& best = selection.choose<Alltoall>(ranks * row.bytes, row.ranks);
    for (const auto& algorithm : mpi_bridge::algorithms<Alltoall>()) {
        const std::string mark = &algorithm == &best ? " *" : "";
        const double messages =
            algorithm.sends_through_others ? 0 : static_cast<double>(row.ranks) * (row.ranks - 1);
        TRY(print_row(arguments, row, std::string(algorithm.name) + mark, messages,
                      [&](Conversation& talk) { return algorithm.run(talk, out, in, lengths); }));
    }
    return {};
}

Done print_alltoall_table(const Arguments& arguments) {
    print_head(arguments, "message");
    mpi_bridge::Selection selection(arguments.model, Simulation::Options().segment_bytes);
    for (const std::size_t bytes : arguments.bytes) {
        for (const std::size_t ranks : arguments.ranks) {
            TRY(print_alltoalls(arguments, selection,
                                {.ranks = static_cast<int>(ranks), .bytes = bytes}));
        }
    }
    return {};
}

Done print_allreduce_table(const Arguments& arguments) {
    print_head(arguments, "vector");
    mpi_bridge::Selection selection(arguments.model, Simulation::Options().segment_bytes);
    for (const std::size_t bytes : arguments.bytes) {
        const Vectors vectors(bytes);
        if (!vectors.usable()) {
            return mpi_bridge::fail(MPIB_ERROR_INTERNAL, "no address space for a vector");
        }
        for (const std::size_t count : arguments.ranks) {
            Row row{.ranks = static_cast<int>(count), .bytes = bytes, .vector = vectors.data()};
            row.bound = least_allreduce_seconds(row.call(), arguments.model);
            const auto& best = selection.choose<Allreduce>(bytes, row.ranks);
            for (const auto& algorithm : mpi_bridge::algorithms<Allreduce>())
                TRY(print_algorithm(arguments, row, algorithm, &algorithm == &best));
            TRY(print_tree(arguments, row));
        }
    }
    return {};
}

}  // namespace
}  // namespace mpi_bridge_scale

int main(int argc, char** argv) {
    const auto arguments = mpi_bridge_scale::read_arguments({argv + 1, argv + argc});
    if (!arguments) {
        std::fprintf(stderr, "mpi_bridge_scale: %s\n%s", arguments.error().text.c_str(),
                     mpi_bridge_scale::help);
        return 2;
    }
    if (arguments->help) {
        std::fputs(mpi_bridge_scale::help, stdout);
        return 0;
    }
    const auto done = arguments->collective == mpi_bridge_scale::Collective::alltoall
                          ? mpi_bridge_scale::print_alltoall_table(*arguments)
                          : mpi_bridge_scale::print_allreduce_table(*arguments);
    if (done) return 0;
    std::fprintf(stderr, "mpi_bridge_scale: %s\n", done.error().text.c_str());
    return 1;
}
