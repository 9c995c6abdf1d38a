// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/forward.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/piped_step.hpp"
#include "run/srun/srun_arguments.hpp"
#include "visit/relay/tunnel.hpp"

namespace batchai::visit {

namespace {

using Clock = std::chrono::steady_clock;

tl::unexpected<base::Error> no_port(const std::string& text, const char* form) {
    return base::fail(fmt::format("\"{}\" is not a port", text), {},
                      fmt::format("write {} with numbers from 1 to 65535", form),
                      base::ExitCode::usage);
}

std::optional<std::uint16_t> port_in(std::string_view text, std::uint16_t least) {
    const auto port = base::number_in<std::uint16_t>(text);
    return port && *port >= least ? port : std::nullopt;
}

}  // namespace

base::Result<PortWish> port_wish(const std::string& text) {
    const auto parts = base::split(text, ':');
    const auto here = port_in(parts.front(), 0);
    const auto there = port_in(parts.back(), 1);
    if (parts.size() > 2 || !here || !there) return no_port(text, "6006 or 8888:6006");
    return PortWish{.here = *here, .or_any = parts.size() == 1, .there = *there};
}

base::Result<PortWish> port_wish_of_address(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t last = text.rfind(':');
    if (first == std::string::npos || first == last) return no_port(text, "9000:localhost:9001");
    const auto here = port_in(std::string_view(text).substr(0, first), 1);
    const auto there = port_in(std::string_view(text).substr(last + 1), 1);
    if (!here || !there) return no_port(text, "9000:localhost:9001");
    const std::string host = text.substr(first + 1, last - first - 1);
    constexpr std::array<std::string_view, 4> itself{"localhost", "127.0.0.1", "::1", "[::1]"};
    if (std::find(itself.begin(), itself.end(), host) == itself.end())
        return base::fail(fmt::format("ports of \"{}\" cannot be forwarded", host), "--address",
                          "write localhost for the node itself, and choose it with --node-id",
                          base::ExitCode::usage);
    return PortWish{.here = *here, .or_any = false, .there = *there};
}

namespace {

base::Result<std::vector<Forward>> listen_for(const std::vector<PortWish>& wishes) {
    std::vector<Forward> forwards;
    for (const PortWish& wish : wishes) {
        auto forward = listen_here(wish.here, wish.there);
        if (!forward && wish.or_any) forward = listen_here(0, wish.there);
        if (!forward) {
            forward.error().hint =
                fmt::format("choose another one, as in {}:{}; 0:{} takes any",
                            wish.here < 1024 ? 8888 : wish.here + 1, wish.there, wish.there);
            return tl::unexpected<base::Error>(std::move(forward).error());
        }
        forwards.push_back(std::move(*forward));
    }
    return forwards;
}

// Says what happens to the ports, and nothing twice.
class Voice {
  public:
    explicit Voice(std::string node) : node_(std::move(node)) {}

    void port_state(std::uint16_t port, PortState state) const {
        switch (state) {
            case PortState::silent:
                return cli::say(fmt::format("nothing listens on {} on {} yet", port, node_));
            case PortState::listens:
                return cli::say(fmt::format("port {} on {} can be used", port, node_));
            case PortState::foreign:
                return cli::say(
                    fmt::format("port {} on {} belongs to another user, and is not "
                                "connected to",
                                port, node_));
            case PortState::unknown:
                return cli::say(fmt::format("{} does not say what listens on {}", node_, port));
        }
    }
    // Somebody may try again and again.
    void refused(std::optional<uid_t> user) {
        ++refusals_;
        if (Clock::now() - said_ < std::chrono::seconds(5) && refusals_ > 1) return;
        said_ = Clock::now();
        const std::string who = user ? fmt::format("another user's process (user id {})", *user)
                                     : std::string("a process that cannot be found");
        cli::say(fmt::format("a connection from {} was refused ({} so far)", who, refusals_));
    }

    void waits(int code) {
        if (said_waiting_ && Clock::now() - *said_waiting_ < std::chrono::minutes(1)) return;
        said_waiting_ = Clock::now();
        cli::say(fmt::format("connections wait until others have ended: {}", std::strerror(code)));
    }

  private:
    std::string node_;
    int refusals_ = 0;
    Clock::time_point said_{};
    std::optional<Clock::time_point> said_waiting_;
};

void announce(const std::vector<Forward>& forwards, const std::vector<PortWish>& wishes,
              const std::string& node) {
    for (std::size_t i = 0; i < forwards.size(); ++i) {
        if (wishes[i].or_any && forwards[i].here != wishes[i].here)
            cli::say(fmt::format("port {} of this host is taken, so {} is used", wishes[i].here,
                                 forwards[i].here));
        fmt::print("127.0.0.1:{} -> {}:{}\n", forwards[i].here, node, forwards[i].there);
    }
    std::fflush(stdout);
}

int exit_code_of(int signal) {
    return signal == SIGINT ? 0 : 128 + signal;
}

// Says why the step has ended although the user has not ended it. Returns the exit code.
int say_end_of_step(const store::Store& store, const slurm::Client& client,
                    const RunningJob& running, run::PipedStep& step,
                    const base::HeldSignals& signals, const std::string& fault) {
    step.close_input();
    const auto [code, interrupted] = step.wait(signals);
    if (interrupted) return exit_code_of(code - 128);
    const auto view = status::view_job(store, client, running.job.key, running.task);
    if (view && !is_running(*view)) {
        cli::say(
            fmt::format("the job is no longer running: it is {}", slurm::to_string(view->state)));
        return 0;
    }
    const std::string said = step.said();
    cli::say(fmt::format("the way to the node is gone (exit code {}){}{}{}{}", code,
                         fault.empty() ? "" : ": ", fault, said.empty() ? "" : "\n", said));
    return static_cast<int>(base::ExitCode::failed);
}

}  // namespace

base::Result<int> forward_ports(const store::Store& store, const slurm::Client& client,
                                const RunningJob& running, const std::string& node,
                                const std::vector<PortWish>& wishes) {
    const base::HeldSignals signals{SIGINT, SIGTERM, SIGHUP};
    auto forwards = TRY(listen_for(wishes));
    // Writing to a step that has ended is an error, not the end of this program.
    std::signal(SIGPIPE, SIG_IGN);
    auto step = TRY(run::PipedStep::start(
        run::piped_arguments({.job_id = running.slurm_id,
                              .nodes = {node},
                              .name = "batchai-port",
                              .prompt = true,
                              .command = {run::program_on_nodes("batchai-node"), "relay"}}),
        bare_environment()));
    announce(forwards, wishes, node);
    Voice voice(node);
    CommandSide side(
        std::move(forwards), step.output(), step.input(),
        {.port_state = [&](std::uint16_t port, PortState state) { voice.port_state(port, state); },
         .refused = [&](std::optional<uid_t> user) { voice.refused(user); },
         .waits = [&](int code) { voice.waits(code); }});
    constexpr std::chrono::seconds longest_pause{60};
    while (true) {
        std::vector<int> others{signals.descriptor()};
        if (step.messages() >= 0) others.push_back(step.messages());
        const auto turn = side.turn(longest_pause, others);
        if (const auto signal = signals.next()) return exit_code_of(*signal);
        step.read_messages();
        if (turn != Tunnel::Turn::goes_on)
            return say_end_of_step(store, client, running, step, signals, side.fault());
    }
}

}  // namespace batchai::visit
