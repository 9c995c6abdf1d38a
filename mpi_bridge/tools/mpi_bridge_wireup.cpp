// SPDX-License-Identifier: Apache-2.0
//
// Checks that the ranks of a job step find each other, before the real work starts and fails in a
// less obvious way: joins the step, publishes a value, waits for all ranks, fetches the value of
// the next rank, and compares the number of ranks with the expected one. Uses only PMIx, so that it
// ends within a fraction of a second.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/pmix_offer.hpp"
#include "trace/record_file.hpp"

namespace {

using mpi_bridge::Deadline;

constexpr mpi_bridge::Seconds patience{5};
constexpr const char* key = "mpi_bridge.wireup";
constexpr int failed = 1;
constexpr int no_answer = 75;  // EX_TEMPFAIL: trying again may help
constexpr int usage_error = 2;

constexpr const char* help =
    "Usage: srun --mpi=pmix mpi_bridge_wireup --expect N [--report PATH] [--held]\n"
    "\n"
    "Checks that the N ranks of a job step find each other through PMIx.\n"
    "\n"
    "  --expect N     the number of ranks there must be\n"
    "  --report PATH  also write what is wrong, as JSON, to PATH.TASK.json\n"
    "  --held         print an empty line when this task runs, and go on when standard\n"
    "                 input has a line for it; its end ends the check\n"
    "  --help         this text\n"
    "\n"
    "Prints nothing and exits with 0 when all is well; else rank 0 says what is wrong and\n"
    "every rank that notices exits with 1. A wrong command line is 2. 75 says that the others\n"
    "did not answer within 5 s, which may pass: try again.\n";

// Where to report; "" for no report.
std::string report_path;
bool held = false;

std::optional<int> number_of_ranks(std::string_view text) {
    int number = 0;
    const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc() || rest != text.data() + text.size() || number < 1) {
        return std::nullopt;
    }
    return number;
}

// Returns the number of ranks that there must be, or nothing if the command line is wrong.
std::optional<int> read_options(int argc, char** argv) {
    std::optional<int> expected;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--held") {
            held = true;
            continue;
        }
        if (++i == argc) return std::nullopt;
        if (option == "--expect") {
            expected = number_of_ranks(argv[i]);
            if (!expected) return std::nullopt;
        } else if (option == "--report") {
            report_path = argv[i];
        } else {
            return std::nullopt;
        }
    }
    return expected;
}

// If several tasks each take themselves for the only one, all would report it; one report is
// enough.
bool speaks_for_all() {
    const auto task = mpi_bridge::process_environment("SLURM_PROCID");
    return !task || *task == "0";
}

void say(const std::string& text) {
    std::fprintf(stderr, "mpi_bridge_wireup: %s\n", text.c_str());
    if (report_path.empty()) return;
    const auto task = mpi_bridge::process_environment("SLURM_PROCID").value_or("0");
    const auto server = mpi_bridge::pmix_offer(mpi_bridge::process_environment).server_version;
    mpi_bridge::write_record(report_path + "." + task + ".json",
                             {{"schema", "mpi_bridge-wireup/v1"},
                              {"fault", text},
                              {"library", mpi_bridge::pmix_client_library()},
                              {"server", server}});
}

std::string how_to_start() {
    const auto type = mpi_bridge::process_environment("SLURM_MPI_TYPE");
    std::string text =
        "start the ranks with `srun --mpi=pmix` or `srun --mpi=pmi2` (`srun --mpi=list` shows what "
        "this Slurm offers)";
    if (type) text += "; this step was started with --mpi=" + *type;
    return text;
}

int complain(const std::string& text) {
    say(text);
    return failed;
}

int complain_about_size(int expected, int seen) {
    return complain("expected " + std::to_string(expected) + (expected == 1 ? " rank" : " ranks") +
                    ", but each process sees " + std::to_string(seen) + ": " + how_to_start() +
                    "; " + mpi_bridge::pmix_versions());
}

// The first rank that fails makes srun end the others, so rank 0 needs time to say why.
int fail_silently() {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return failed;
}

// Tasks that are released together would all begin their fence at the same time, and Slurm's PMIx
// servers then reset each other's connections in 1 of 50 steps (seen with 22.05.8 and four nodes).
// With this time between neighbours they did not in any of 380 steps.
constexpr std::chrono::milliseconds between_neighbours{20};
constexpr int different_times = 4;

void stand_apart() {
    const auto node = mpi_bridge::process_environment("SLURM_NODEID").value_or("0");
    std::this_thread::sleep_for(between_neighbours * (std::atoi(node.c_str()) % different_times));
}

// Returns true once all tasks run, or false if that will never happen.
bool wait_for_others() {
    char next = '\n';
    if (write(STDOUT_FILENO, &next, 1) != 1) return false;
    while (read(STDIN_FILENO, &next, 1) == 1) {
        if (next != '\n') continue;
        stand_apart();
        return true;
    }
    return false;
}

std::vector<std::byte> value_of(int rank) {
    std::vector<std::byte> value(sizeof rank);
    std::memcpy(value.data(), &rank, sizeof rank);
    return value;
}

// Returns the text of what went wrong, "" when nothing did.
std::string meet_neighbour(mpi_bridge::Bootstrap& bootstrap) {
    const auto& topology = bootstrap.topology();
    const auto published = bootstrap.publish(key, value_of(topology.rank), Deadline::in(patience));
    if (!published) return published.error().text;
    const int neighbour = (topology.rank + 1) % topology.size;
    const auto value = bootstrap.fetch(key, neighbour, Deadline::in(patience), {});
    if (!value) return value.error().text;
    if (*value != value_of(neighbour)) {
        return "rank " + std::to_string(topology.rank) + " got a wrong value from rank " +
               std::to_string(neighbour) + "; " + mpi_bridge::pmix_versions();
    }
    return {};
}

int check(int expected) {
    const auto launch = mpi_bridge::detect_launch(mpi_bridge::process_environment);
    if (!launch) return speaks_for_all() ? complain(launch.error().text) : fail_silently();
    if (*launch == mpi_bridge::Launch::alone) {
        if (expected == 1) return 0;
        return speaks_for_all() ? complain_about_size(expected, 1) : fail_silently();
    }

    auto bootstrap = *launch == mpi_bridge::Launch::pmix
                         ? mpi_bridge::connect_pmix(Deadline::in(patience), held)
                         : mpi_bridge::connect(Deadline::in(patience));
    if (!bootstrap) {
        const int code = complain(bootstrap.error().text);
        return bootstrap.error().status == MPIB_ERROR_TIMEOUT ? no_answer : code;
    }
    const auto& topology = (*bootstrap)->topology();
    if (topology.size != expected) {
        const bool speaks = topology.rank == 0 && speaks_for_all();
        const int seen = topology.size;
        return speaks ? complain_about_size(expected, seen) : fail_silently();
    }
    // Another task has reported why, or was ended.
    if (held && !wait_for_others()) return failed;
    if (const auto fault = meet_neighbour(**bootstrap); !fault.empty()) {
        say(fault);
        return no_answer;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
        std::fputs(help, stdout);
        return 0;
    }
    const auto expected = read_options(argc, argv);
    if (!expected) {
        std::fprintf(stderr, "mpi_bridge_wireup: expected --expect N, N at least 1\n%s", help);
        return usage_error;
    }
    return check(*expected);
}
