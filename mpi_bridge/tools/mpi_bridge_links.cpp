// SPDX-License-Identifier: Apache-2.0
//
// Measures the links between the nodes of a job step, by pairs: each pair of ranks exchanges data
// over the transport that the job's ranks will use, checks that it is right, and measures its time.
// Pairs that have nobody in common do so at the same time.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/failure.hpp"
#include "mpi_bridge.h"
#include "mpi_bridge_messages.h"
#include "tools/links/pairs.hpp"
#include "trace/record_file.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using mpi_bridge::links::partner_in;
using mpi_bridge::links::rounds_of;

constexpr int usage_error = 2;
// Seconds: until all are there, some of them in containers, and then for a partner that is still
// with its partner before.
constexpr double longest_start = 60;
constexpr double longest_wait = 20;
constexpr std::size_t least_bytes = 64UL << 10U;
constexpr std::size_t most_bytes = 8UL << 20U;
constexpr int repetitions = 2;
constexpr int pings = 4;
constexpr double usual_budget = 4;  // seconds

constexpr const char* help =
    "Usage: srun --mpi=pmix --ntasks-per-node=1 mpi_bridge_links [--report PATH] [--seconds N]\n"
    "\n"
    "Measures the links between the nodes of a job step: each pair of tasks exchanges data over\n"
    "the transport of mpi_bridge, and checks it.\n"
    "\n"
    "  --report PATH  write what was measured, as JSON, to PATH.TASK.json, and print nothing\n"
    "  --seconds N    how long that may take, about; default: 4\n"
    "  --help         this text\n"
    "\n"
    "Prints a line for each pair, from its task with the smaller number. Exits with 1 if some\n"
    "data was wrong or did not come, and with 2 if the command line is wrong.\n";

struct Options {
    std::string report;
    double seconds = usual_budget;
};

std::optional<Options> read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        const std::string_view value = argv[i + 1];
        if (name == "--report") {
            options.report = value;
        } else if (name == "--seconds") {
            int seconds = 0;
            const auto [end, error] =
                std::from_chars(value.data(), value.data() + value.size(), seconds);
            if (error != std::errc() || end != value.data() + value.size() || seconds < 1)
                return std::nullopt;
            options.seconds = seconds;
        } else {
            return std::nullopt;
        }
    }
    return argc % 2 == 1 ? std::optional(options) : std::nullopt;
}

// What one rank sends to another: numbers that neither a shift nor other data can look like.
void fill(std::vector<std::uint64_t>& words, int sender, int receiver) {
    constexpr std::uint64_t spread = 0x9e3779b97f4a7c15U;
    const std::uint64_t pair =
        (static_cast<std::uint64_t>(sender) << 32U) + static_cast<std::uint64_t>(receiver) + 1;
    std::uint64_t state = spread * pair;
    for (std::uint64_t& word : words) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        word = state;
    }
}

struct Link {
    int peer = 0;
    double bytes_per_second = 0;
    double latency = 0;  // seconds, one way
};

class LinkCheck {
  public:
    LinkCheck(int rank, int size, double budget) : rank_(rank), size_(size), budget_(budget) {}

    // Returns what is wrong; empty: nothing.
    std::string run() {
        for (round_ = 0; round_ < rounds_of(size_) && goes_on_; ++round_) {
            if (const auto peer = partner_in(round_, rank_, size_)) measure(*peer);
        }
        return fault_;
    }
    [[nodiscard]] const std::vector<Link>& links() const { return links_; }
    // With whom something was wrong at first; -1: with nobody.
    [[nodiscard]] int faulty_peer() const { return faulty_peer_; }
    // The round in which data did not come, whereupon this rank has stopped; -1: in none. Those
    // that wait for it in later rounds find a fault that is none.
    [[nodiscard]] int lost_in_round() const { return goes_on_ || fault_.empty() ? -1 : round_; }

  private:
    void complain(int peer, const std::string& text) {
        if (!fault_.empty()) return;
        fault_ = text;
        faulty_peer_ = peer;
    }

    // Sends and receives, both at the same time. Returns false if it fails.
    bool exchange(int peer, const void* out, void* in, std::size_t bytes) {
        mpib_message message{};
        message.struct_bytes = sizeof message;
        message.peer = peer;
        message.channel = "mpi_bridge_links";
        message.bytes = bytes;
        mpib_message_handle received = 0;
        mpib_message_handle sent = 0;
        message.memory = in;
        if (mpib_message_receive(&message, &received) != MPIB_OK) return lost(peer);
        message.memory = const_cast<void*>(out);  // a send only reads it
        if (mpib_message_send(&message, &sent) != MPIB_OK) {
            mpib_message_release(received);
            return lost(peer);
        }
        const bool good =
            mpib_message_wait(received, 0) == MPIB_OK && mpib_message_wait(sent, 0) == MPIB_OK;
        if (!good) lost(peer);
        mpib_message_release(received);
        mpib_message_release(sent);
        return good;
    }
    // What has failed on another rank, perhaps in a later round, says nothing of this link.
    bool lost(int peer) {
        const std::string_view why = mpib_last_error();
        if (!mpi_bridge::is_told_by_another_rank(why)) complain(peer, std::string(why));
        goes_on_ = false;
        return false;
    }

    // Returns how many bytes fit into the time of one exchange, by a probe, of which the slower
    // partner's time counts, so that both find the same. Returns nothing if it fails.
    std::optional<std::size_t> bytes_for(int peer) {
        resize(least_bytes);
        // The first one makes the connection.
        if (!exchange(peer, out_.data(), in_.data(), least_bytes)) return std::nullopt;
        const auto begin = Clock::now();
        if (!exchange(peer, out_.data(), in_.data(), least_bytes)) return std::nullopt;
        const double own = Seconds(Clock::now() - begin).count();
        double partners = 0;
        if (!exchange(peer, &own, &partners, sizeof own)) return std::nullopt;
        const double slowest = std::max({own, partners, 1e-6});
        const double of_one = budget_ / (rounds_of(size_) * (repetitions + 1));
        const double fits =
            std::clamp(static_cast<double>(least_bytes) * of_one / slowest,
                       static_cast<double>(least_bytes), static_cast<double>(most_bytes));
        return static_cast<std::size_t>(fits) / least_bytes * least_bytes;
    }
    void resize(std::size_t bytes) {
        for (auto* words : {&out_, &in_, &expected_})
            words->resize(bytes / sizeof(std::uint64_t));
    }

    void measure(int peer) {
        const auto bytes = bytes_for(peer);
        if (!bytes) return;
        resize(*bytes);
        Link link{.peer = peer};
        std::uint64_t token = 0;
        std::uint64_t answer = 0;
        double latency = 1e9;
        for (int i = 0; i < pings; ++i) {
            const auto begin = Clock::now();
            if (!exchange(peer, &token, &answer, sizeof token)) return;
            latency = std::min(latency, Seconds(Clock::now() - begin).count());
        }
        link.latency = latency;
        fill(out_, rank_, peer);
        fill(expected_, peer, rank_);
        double best = 1e9;
        for (int i = 0; i < repetitions; ++i) {
            std::fill(in_.begin(), in_.end(), 0);
            // Both are there now.
            if (!exchange(peer, &token, &answer, sizeof token)) return;
            const auto begin = Clock::now();
            if (!exchange(peer, out_.data(), in_.data(), *bytes)) return;
            best = std::min(best, Seconds(Clock::now() - begin).count());
            compare(peer);
        }
        link.bytes_per_second = static_cast<double>(*bytes) / std::max(best, 1e-9);
        links_.push_back(link);
    }

    void compare(int peer) {
        const auto [wrong, right] = std::mismatch(in_.begin(), in_.end(), expected_.begin());
        if (wrong == in_.end()) return;
        complain(peer, fmt::format("the data of rank {} was wrong from byte {} of {} on", peer,
                                   (wrong - in_.begin()) * static_cast<long>(sizeof *wrong),
                                   in_.size() * sizeof *wrong));
    }

    int rank_;
    int size_;
    double budget_;
    std::vector<std::uint64_t> out_;
    std::vector<std::uint64_t> in_;
    std::vector<std::uint64_t> expected_;
    std::vector<Link> links_;
    std::string fault_;
    int faulty_peer_ = -1;
    int round_ = 0;
    bool goes_on_ = true;
};

std::string as_text(const std::vector<Link>& links) {
    std::string text;
    for (const Link& link : links)
        text += fmt::format("{}{} {:.0f} {:.0f}", text.empty() ? "" : " ", link.peer,
                            link.bytes_per_second, link.latency * 1e9);
    return text;
}

// Each task reports, whoever it is: what it has to say may be that it never became a rank.
void write_report(const std::string& path, const std::string& fault, int peer, int lost_in_round,
                  const std::vector<Link>& links) {
    const char* const task = std::getenv("SLURM_PROCID");
    mpi_bridge::write_record(
        fmt::format("{}.{}.json", path, task == nullptr ? "0" : task),
        {{"schema", "mpi_bridge-links/v1"},
         {"fault", fault},
         {"peer", peer < 0 ? std::string() : std::to_string(peer)},
         {"lostInRound", lost_in_round < 0 ? std::string() : std::to_string(lost_in_round)},
         {"links", as_text(links)}});
}

int check(const Options& options) {
    std::string fault;
    int peer = -1;
    int lost_in_round = -1;
    std::vector<Link> links;
    int rank = 0;
    // The ranks' timeline may go to a directory that is not there yet.
    unsetenv("MPI_BRIDGE_TIMELINE");
    unsetenv("HOROVOD_TIMELINE");
    if (mpib_set_timeout(longest_start) != MPIB_OK || mpib_init() != MPIB_OK ||
        mpib_set_timeout(longest_wait) != MPIB_OK) {
        fault = mpib_last_error();
    } else {
        rank = mpib_rank();
        LinkCheck here(rank, mpib_size(), options.seconds);
        if (mpib_size() > 1) fault = here.run();
        peer = here.faulty_peer();
        lost_in_round = here.lost_in_round();
        links = here.links();
        // If others have stopped, it fails, and these say why.
        if (fault.empty()) static_cast<void>(mpib_finalize());
    }
    if (!options.report.empty()) {
        write_report(options.report, fault, peer, lost_in_round, links);
    } else {
        for (const Link& link : links) {
            if (link.peer > rank)
                std::printf("%d - %d: %.3f GB/s each way, %.1f us\n", rank, link.peer,
                            link.bytes_per_second / 1e9, link.latency * 1e6);
        }
        std::fflush(stdout);
        if (!fault.empty())
            std::fprintf(stderr, "mpi_bridge_links: rank %d: %s\n", rank, fault.c_str());
    }
    return fault.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
        std::fputs(help, stdout);
        return 0;
    }
    const auto options = read_options(argc, argv);
    if (!options) {
        std::fprintf(stderr, "mpi_bridge_links: wrong command line\n%s", help);
        return usage_error;
    }
    return check(*options);
}
