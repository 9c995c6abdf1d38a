// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/step.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/stopped_time.hpp"
#include "run/blame/slurm_words.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t message_limit = 4UL << 20U;
constexpr int not_all_started = 1;  // exit code of a step whose srun has ended with 0
// Meanwhile nobody reads what the step says.
constexpr std::chrono::seconds answer_deadline{5};
// The job has its nodes, which would be lost with it.
constexpr std::chrono::minutes longest_outage{30};
constexpr std::chrono::seconds between_tries{2};

// A stream between srun and this process. It is a socket and not a pipe, because writing to a pipe
// that srun has closed would raise SIGPIPE and end this process.
struct Link {
    base::FileDescriptor ours;
    base::FileDescriptor theirs;
};

base::Result<Link> make_link() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return base::fail(std::strerror(errno), "socketpair");
    return Link{base::FileDescriptor(ends[0]), base::FileDescriptor(ends[1])};
}

// Holds the tasks of a step until all of them run. srun's standard input and output lead here.
class Gate {
  public:
    static base::Result<Gate> of(int tasks) {
        if (tasks == 0) return Gate{};
        Gate gate;
        gate.awaited_ = tasks;
        gate.input_ = TRY(make_link());
        gate.output_ = TRY(make_link());
        return gate;
    }

    [[nodiscard]] int input() const { return input_.theirs.get(); }
    [[nodiscard]] int output() const { return output_.theirs.get(); }
    void srun_has_its_ends() {
        input_.theirs.reset(-1);
        output_.theirs.reset(-1);
    }

    // Readable when tasks have written something; -1 once nothing more can come.
    [[nodiscard]] int descriptor() const { return output_.ours.get(); }
    void listen() {
        std::string lines;
        if (!base::drain(output_.ours.get(), lines)) output_.ours.reset(-1);
        awaited_ -= static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
        if (awaited_ > 0 || !input_.ours.valid()) return;
        // If srun is gone, its exit status says so.
        static_cast<void>(send(input_.ours.get(), "\n", 1, MSG_NOSIGNAL));
        input_.ours.reset(-1);
    }
    // Ends the wait of the held tasks: they see the end of the stream.
    void give_up() { input_.ours.reset(-1); }
    [[nodiscard]] bool holds() const { return input_.ours.valid(); }
    // Returns how many tasks have not said that they run.
    [[nodiscard]] int awaited() const { return std::max(awaited_, 0); }

  private:
    int awaited_ = 0;
    Link input_;
    Link output_;
};

// srun prints this for every step without CPU binding at a site that does not support it.
void drop_noise(std::string& messages) {
    constexpr std::string_view noise =
        "srun: cluster configuration lacks support for cpu binding\n";
    const std::size_t at = messages.find(noise);
    if (at != std::string::npos) messages.erase(at, noise.size());
}

// Adds what is known of tasks that did not start.
void look_at_starts(const StepRequest& request, int awaited, StepResult& result) {
    Starts starts =
        starts_of(request.starts ? &*request.starts : nullptr, result.messages, result.exit_code);
    if (request.starts) {
        if (result.exit_code != 0) result.no_room = why_no_room(*request.starts);
        forget_starts(*request.starts);
    }
    result.not_started = std::move(starts.missing);
    result.unconfirmed = std::move(starts.unconfirmed);
    if (result.not_started.empty() && result.exit_code == 0 && awaited > 0)
        result.not_started.push_back(
            {.reason = fmt::format("{} of {} tasks have not said that they run", awaited,
                                   request.held_tasks)});
    if (!result.not_started.empty() && result.exit_code == 0) result.exit_code = not_all_started;
}

// Where srun's standard streams lead; -1 means where ours lead.
struct Streams {
    int input = -1;
    int output = -1;
    int error = -1;
};

base::Result<base::Child> start_srun(const base::Arguments& arguments,
                                     const base::Environment& environment, const Streams& streams) {
    base::Program srun{.arguments = arguments,
                       .environment = environment,
                       .missing_hint = "is Slurm's client package installed on the nodes?"};
    for (const auto& [ours, its] :
         {std::pair{streams.input, STDIN_FILENO}, std::pair{streams.output, STDOUT_FILENO},
          std::pair{streams.error, STDERR_FILENO}}) {
        if (ours >= 0) srun.descriptors.push_back({.ours = ours, .its = its});
    }
    return base::Child::start(srun);
}

// Slurm 22.05 counts the memory of running steps against a step that overlaps them, unless it asks
// for none of its own.
base::Arguments overlapping(base::Arguments arguments) {
    arguments.insert(arguments.begin() + 1, {"--overlap", "--mem=0"});
    return arguments;
}

}  // namespace

base::Result<StepResult> SrunRunner::run(const StepRequest& request) {
    auto result = run_once(request);
    const Clock::time_point end = Clock::now() + longest_outage;
    bool said = false;
    while (result && result->exit_code != 0 && !result->stopped_by && !result->ended_on_request &&
           found_no_controller(result->messages) && Clock::now() < end) {
        if (!std::exchange(said, true))
            std::fputs(
                "batchai: Slurm's controller does not answer; the step is tried again until "
                "it does\n",
                stderr);
        result->stopped_by = pause(request);
        if (!result->stopped_by) result = run_once(request);
    }
    return result;
}

std::optional<int> SrunRunner::pause(const StepRequest& request) {
    const Clock::time_point end = Clock::now() + between_tries;
    std::optional<int> stop;
    while (!stop && Clock::now() < end) {
        pollfd waiting{signals_.descriptor(), POLLIN, 0};
        ::poll(&waiting, 1, 250);
        while (const auto signal = next_signal()) {
            if (*signal == SIGCHLD) continue;
            // The caller may have to remember it. There is nobody to pass it on to.
            static_cast<void>(request.pass_on(*signal));
            if (*signal == SIGTERM || *signal == SIGINT) stop = signal;
        }
        request.tick();
    }
    return stop;
}

base::Result<StepResult> SrunRunner::run_once(const StepRequest& request) {
    if (request.starts) forget_starts(*request.starts);
    base::Pipe pipe = TRY(base::make_pipe());
    Gate gate = TRY(Gate::of(request.held_tasks));
    base::Child srun = TRY(start_srun(
        has_left_step_ ? overlapping(request.arguments) : request.arguments, request.environment,
        {.input = gate.input(), .output = gate.output(), .error = pipe.write_end.get()}));
    srun_ = &srun;
    pipe.write_end.reset(-1);
    gate.srun_has_its_ends();
    const int read_end = pipe.read_end.get();

    StepResult result;
    base::StoppedTime stopped;
    Clock::time_point end = Clock::now() + request.deadline;
    bool overdue = false;
    bool incomplete = false;  // Slurm has not started some task
    bool told_to_end = false;
    bool stream_open = true;
    std::optional<int> status;
    while (!(status = srun.ended())) {
        std::array<pollfd, 3> waiting{{{signals_.descriptor(), POLLIN, 0},
                                       {stream_open ? read_end : -1, POLLIN, 0},
                                       {gate.descriptor(), POLLIN, 0}}};
        ::poll(waiting.data(), waiting.size(), 250);
        while (const auto signal = next_signal()) {
            if (*signal == SIGCHLD) continue;
            if (*signal == SIGTERM || *signal == SIGINT) result.stopped_by = signal;
            if (const auto passed_on = request.pass_on(*signal)) srun.signal(*passed_on);
        }
        if (waiting[1].revents != 0) {
            stream_open = base::drain(read_end, result.messages, message_limit);
            incomplete = incomplete || !launch_failures(result.messages).empty();
        }
        if (waiting[2].revents != 0) gate.listen();
        if (gate.holds() && (incomplete || !bad_ends(result.messages).empty())) gate.give_up();
        request.tick();
        // srun would wait for the other tasks, which wait for those that did not start.
        if (incomplete && request.starts && !std::exchange(told_to_end, true)) srun.signal(SIGTERM);
        // srun passes TERM on and ends its step; KILL would leave the step running.
        if (!result.ended_on_request && request.enough()) {
            result.ended_on_request = true;
            srun.signal(SIGTERM);
        }
        if (!told_to_end && request.has_failed(result.messages)) {
            told_to_end = true;
            srun.signal(SIGTERM);
        }
        if (result.dead_nodes.empty()) {
            result.dead_nodes = request.dead_nodes(result.messages);
            // A child of srun then has Slurm kill the tasks that still run.
            if (!result.dead_nodes.empty()) srun.signal(SIGKILL);
        }
        const auto now = Clock::now();
        end += stopped.look(now);
        if (request.deadline.count() > 0 && now > end && !overdue) {
            overdue = true;
            srun.signal(SIGTERM);
        }
    }
    srun_ = nullptr;
    // Reads what srun and the held tasks left behind. The wait is bounded, because a child of srun
    // may hold the other end open.
    pollfd rest{read_end, POLLIN, 0};
    while (stream_open && ::poll(&rest, 1, 1000) > 0)
        stream_open = base::drain(read_end, result.messages, message_limit);
    for (pollfd said{gate.descriptor(), POLLIN, 0}; said.fd >= 0 && ::poll(&said, 1, 1000) > 0;
         said.fd = gate.descriptor())
        gate.listen();
    drop_noise(result.messages);
    result.exit_code = base::shell_exit_code(*status);
    if (WIFSIGNALED(*status)) result.srun_killed_by = WTERMSIG(*status);
    look_at_starts(request, gate.awaited(), result);
    if (!overdue) return result;
    return base::fail(
        fmt::format("did not end within {} s and was stopped", request.deadline.count()), "srun",
        {}, base::ExitCode::timed_out);
}

std::optional<int> SrunRunner::next_signal() {
    std::optional<int> signal;
    if (not_handled_.empty()) {
        signal = signals_.next();
    } else {
        signal = not_handled_.front();
        not_handled_.pop_front();
    }
    if (signal == plan::checkpoint_notice) noticed_ = true;
    return signal;
}

std::optional<int> SrunRunner::stopped_by() {
    std::optional<int> stop;
    while (const auto signal = next_signal()) {
        if (*signal == SIGTERM || *signal == SIGINT) stop = signal;
    }
    return stop;
}

bool SrunRunner::end_is_near() {
    std::deque<int> others;
    while (const auto signal = next_signal()) {
        if (*signal != SIGCHLD && *signal != plan::checkpoint_notice) others.push_back(*signal);
    }
    not_handled_ = std::move(others);
    return noticed_;
}

base::Result<void> SrunRunner::signal_tasks(int signal) {
    if (srun_ == nullptr) return base::fail("no step runs", "srun");
    if (signal != SIGTERM) {
        srun_->signal(signal);
        return {};
    }
    const slurm::Client client(answer_deadline);
    const auto job = TRY(slurm::JobId::parse(job_id_));
    return client.signal_step(TRY(client.step_of_srun(job, srun_->process())), signal);
}

namespace {

constexpr std::chrono::seconds usual_end{2};
constexpr std::chrono::seconds longest_end{5};

}  // namespace

base::Result<BackgroundStep> BackgroundStep::start(const base::Arguments& arguments,
                                                   const base::Environment& environment,
                                                   const BackgroundOptions& options) {
    const base::FileDescriptor messages(open(options.messages_path.c_str(),
                                             O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                                             0600));
    if (!messages.valid()) return base::fail(std::strerror(errno), options.messages_path);
    return BackgroundStep(TRY(start_srun(arguments, environment,
                                         {.output = options.output, .error = messages.get()})),
                          options.end_signal);
}

BackgroundStep::~BackgroundStep() {
    end();
}

BackgroundStep& BackgroundStep::operator=(BackgroundStep&& other) noexcept {
    if (this == &other) return *this;
    end();
    srun_ = std::move(other.srun_);
    end_signal_ = other.end_signal_;
    exit_code_ = other.exit_code_;
    return *this;
}

bool BackgroundStep::runs() {
    if (const auto status = srun_.ended()) exit_code_ = base::shell_exit_code(*status);
    return srun_.process() > 0;
}

void BackgroundStep::abandon() {
    srun_.signal(SIGKILL);
    static_cast<void>(srun_.ended_by(Clock::now() + usual_end));
}

void BackgroundStep::end() {
    // srun forwards USR1 to the step. TERM would make srun ask slurmctld to end the step, which
    // would look to a step that watches a node like the loss of that node.
    srun_.signal(end_signal_);
    if (srun_.ended_by(Clock::now() + usual_end)) return;
    srun_.signal(SIGTERM);
    // If srun has to be killed, Slurm ends its step with the job.
    static_cast<void>(srun_.ended_by(Clock::now() + longest_end));
}

}  // namespace batchai::run
