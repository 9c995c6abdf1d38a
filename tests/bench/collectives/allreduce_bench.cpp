// SPDX-License-Identifier: Apache-2.0
// One rank of the allreduce benchmark; linked once with each library that is compared. Rank 0
// prints one JSON object a line: first what was run, then one a size. A launcher starts it; `run`
// beside this file drives the launchers.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>

#include "library.hpp"
#include "measure.hpp"
#include "processors.hpp"

namespace {

constexpr const char* usage =
    "usage: PROGRAM VARIANT PIN SECONDS BYTES…\n"
    "  VARIANT  of the library, see library_*.cpp\n"
    "  PIN      pinned: rank r stays on the r-th processor, modulo their number; or free\n"
    "  SECONDS  to spend on each size, about\n"
    "  BYTES    sizes of the vector, multiples of 4\n";

struct Arguments {
    std::string variant;
    bool pinned = false;
    std::chrono::duration<double> budget{};
    std::vector<std::size_t> sizes;
};

template <typename Number>
Number number(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value > 0))
        throw std::invalid_argument(std::string(text) + " is not a positive number\n" + usage);
    return value;
}

Arguments parse(const std::vector<std::string>& words) {
    if (words.size() < 4 || (words[1] != "pinned" && words[1] != "free"))
        throw std::invalid_argument(usage);
    Arguments arguments{.variant = words[0],
                        .pinned = words[1] == "pinned",
                        .budget = std::chrono::duration<double>(number<double>(words[2])),
                        .sizes = {}};
    for (auto word = words.begin() + 3; word != words.end(); ++word) {
        const auto bytes = number<std::size_t>(*word);
        if (bytes % sizeof(float) != 0) throw std::invalid_argument(*word + " bytes are no floats");
        arguments.sizes.push_back(bytes);
    }
    return arguments;
}

// This process's rank, from the environment that its launcher made: pinning comes before joining,
// as with launchers that pin.
int launched_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* const value = std::getenv(name)) return std::atoi(value);
    throw std::runtime_error("no launcher that tells the rank before initialisation");
}

void pin_to_processor(int rank) {
    const auto processors = bench::allowed_processors();
    bench::stay_on(processors[static_cast<std::size_t>(rank) % processors.size()]);
}

void print(const bench::Point& point) {
    std::printf(R"({"bytes": %zu, "iterations": %d, "median_us": %.4f, "tenth_us": %.4f, )"
                R"("ninetieth_us": %.4f, "received_bytes": %.0f})"
                "\n",
                point.bytes, point.iterations, point.median_us, point.tenth_us, point.ninetieth_us,
                point.received_bytes);
    std::fflush(stdout);
}

void run(const Arguments& arguments) {
    if (arguments.pinned) pin_to_processor(launched_rank());
    const auto library = bench::join(arguments.variant);
    std::size_t most = 0;
    for (const auto bytes : arguments.sizes)
        most = std::max(most, bytes);
    float* const data = library->allocate(most / sizeof(float));
    if (library->rank() == 0) {
        std::printf(R"({"library": "%s", "variant": "%s", "ranks": %d, "timestamp_ns": %.1f})"
                    "\n",
                    library->name().c_str(), arguments.variant.c_str(), library->size(),
                    bench::nanoseconds_of_a_timestamp());
        std::fflush(stdout);
    }
    for (const auto bytes : arguments.sizes) {
        bench::check(*library, data, bytes / sizeof(float));
        const auto point = bench::measure(*library, data, bytes / sizeof(float), arguments.budget);
        if (library->rank() == 0) print(point);
    }
    library->barrier();
}

}  // namespace

int main(int count, char** words) {
    try {
        run(parse({words + 1, words + count}));
        return EXIT_SUCCESS;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", words[0], error.what());
        // The launcher ends the other ranks, which wait for this one.
        std::_Exit(EXIT_FAILURE);
    }
}
