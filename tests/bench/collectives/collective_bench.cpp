// SPDX-License-Identifier: Apache-2.0
// One rank of the benchmark of collectives; linked once with each library that is compared, and
// with each limit of the machine. Rank 0 prints one JSON object a line: first what was joined, then
// one for each size. A launcher starts it; `run` beside this file drives the launchers.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "measure.hpp"
#include "processors.hpp"
#include "requests.hpp"
#include "subject.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* usage =
    "usage: PROGRAM [--variant NAME] [--free] [--session FOLDER]\n"
    "               [--collective NAME] [--seconds S] [BYTES...]\n"
    "  --variant     of the library, see library_*.cpp and limit_*.cpp [default]\n"
    "  --free        stay on no processor; else rank r keeps to the r-th one, modulo their number\n"
    "  --session     take what to measure from the pipe FOLDER/RANK, line by line, see "
    "requests.hpp\n"
    "  --collective  allreduce, reduce_scatter, allgather, alltoall or broadcast [allreduce]\n"
    "  --seconds     to spend on each size, about [0.3]\n"
    "  BYTES         of the vector, see collective.hpp\n";

struct Arguments {
    std::string variant = "default";
    bool pinned = true;
    std::string session;
    bench::Collective collective = bench::Collective::allreduce;
    Seconds budget{0.3};
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
    Arguments arguments;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        const auto value = [&]() -> const std::string& {
            if (++i == words.size()) throw std::invalid_argument(word + " needs a value\n" + usage);
            return words[i];
        };
        if (word == "--variant") {
            arguments.variant = value();
        } else if (word == "--free") {
            arguments.pinned = false;
        } else if (word == "--session") {
            arguments.session = value();
        } else if (word == "--collective") {
            arguments.collective = bench::collective_named(value());
        } else if (word == "--seconds") {
            arguments.budget = Seconds(number<double>(value()));
        } else {
            arguments.sizes.push_back(number<std::size_t>(word));
        }
    }
    if (arguments.session.empty() == arguments.sizes.empty()) throw std::invalid_argument(usage);
    return arguments;
}

bench::Requests requests(const Arguments& arguments, int rank) {
    if (!arguments.session.empty()) return {arguments.session, rank};
    std::vector<bench::Request> all;
    for (const auto bytes : arguments.sizes)
        all.push_back({.collective = arguments.collective,
                       .bytes = bytes,
                       .budget = arguments.budget,
                       .checked = true});
    return bench::Requests(std::move(all));
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

// How much of a processor this process, all its threads, took between two looks; 0 where they are
// too close together to tell.
class Idleness {
  public:
    void begin() {
        since_ = Clock::now();
        used_ = processor_seconds();
    }
    [[nodiscard]] double share() const {
        const double passed = Seconds(Clock::now() - since_).count();
        return passed > 0.2 ? (processor_seconds() - used_) / passed : 0;
    }

  private:
    static double processor_seconds() {
        rusage used{};
        getrusage(RUSAGE_SELF, &used);
        const auto seconds = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
        };
        return seconds(used.ru_utime) + seconds(used.ru_stime);
    }

    Clock::time_point since_ = Clock::now();
    double used_ = processor_seconds();
};

void print(const bench::Point& point, double idle_share) {
    std::printf(R"({"bytes": %zu, "iterations": %d, "median_us": %.4f, "tenth_us": %.4f, )"
                R"("ninetieth_us": %.4f, "least_received_bytes": %.0f, )"
                R"("most_received_bytes": %.0f, "idle_share": %.4f})"
                "\n",
                point.bytes, point.iterations, point.median_us, point.tenth_us, point.ninetieth_us,
                point.least_received_bytes, point.most_received_bytes, idle_share);
}

void serve(bench::Subject& subject, bench::Requests& all) {
    Idleness idleness;
    while (const auto request = all.next()) {
        const double idle_share = idleness.share();
        const auto work = subject.work(request->collective, request->bytes);
        if (work) {
            if (request->checked) work->check();
            const auto point = bench::measure(subject, *work, request->budget);
            if (subject.rank() == 0) print(point, idle_share);
        } else if (subject.rank() == 0) {
            std::printf("{\"missing\": true}\n");
        }
        std::fflush(stdout);
        idleness.begin();
    }
}

void run(const Arguments& arguments) {
    if (arguments.pinned) pin_to_processor(launched_rank());
    const auto subject = bench::join(arguments.variant);
    if (subject->rank() == 0) {
        std::printf(R"({"library": "%s", "variant": "%s", "ranks": %d, "timestamp_ns": %.1f})"
                    "\n",
                    subject->name().c_str(), arguments.variant.c_str(), subject->size(),
                    bench::nanoseconds_of_a_timestamp());
        std::fflush(stdout);
    }
    auto all = requests(arguments, subject->rank());
    serve(*subject, all);
    subject->barrier();
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
