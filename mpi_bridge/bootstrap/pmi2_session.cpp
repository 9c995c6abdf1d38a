// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_session.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/environment.hpp"
#include "core/log.hpp"

namespace mpi_bridge {
namespace {

constexpr Seconds longest_pmi2_goodbye{2};
// slurmstepd answers the first line at once, or never.
constexpr Seconds longest_greeting{20};
// How often a thread looks whether another one's request has ended.
constexpr std::chrono::milliseconds between_looks{5};
// How long a wait lasts before `given_up` is asked again.
constexpr int slice_milliseconds = 100;

// Never destroyed, because exit handlers of other libraries may come at any time.
Pmi2Session* the_pmi2_session = nullptr;

tl::unexpected<Failure> no_answer(const char* what) {
    return fail(MPIB_ERROR_TIMEOUT, std::string("Slurm's PMI-2 server ") + what);
}

tl::unexpected<Failure> socket_failure(const char* call, int code) {
    return fail(MPIB_ERROR_BOOTSTRAP, std::string(call) +
                                          " on the socket of Slurm's PMI-2 server "
                                          "(PMI_FD) failed: " +
                                          std::strerror(code));
}

// Waits until the socket can be read from or written to.
Done await(int socket, short events, Deadline deadline, const std::function<bool()>& given_up) {
    while (true) {
        pollfd entry{socket, events, 0};
        const int ready = poll(&entry, 1, deadline.left_milliseconds(slice_milliseconds));
        if (ready > 0) return {};
        if (ready < 0 && errno != EINTR) return socket_failure("poll(2)", errno);
        if (deadline.passed()) return no_answer("did not answer in time");
        if (given_up && given_up()) return no_answer("was not waited for any longer");
    }
}

// Locks the mutex, as a wait that ends like one for the socket.
Outcome<std::unique_lock<std::mutex>> lock_until(std::mutex& mutex, Deadline deadline,
                                                 const std::function<bool()>& given_up) {
    std::unique_lock lock(mutex, std::try_to_lock);
    while (!lock.owns_lock()) {
        if (deadline.passed()) return no_answer("was busy with another thread's request");
        if (given_up && given_up()) return no_answer("was not waited for any longer");
        std::this_thread::sleep_for(between_looks);
        (void)lock.try_lock();
    }
    return lock;
}

// The environment of a rank may reach a program that does not have its descriptors. The number may
// then be that of a file or of a connection of the program's own.
Done check_socket(int socket) {
    int domain = 0;
    int type = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX &&
        getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM) {
        return {};
    }
    return fail(MPIB_ERROR_BOOTSTRAP,
                "descriptor " + std::to_string(socket) +
                    " (PMI_FD) is not the socket of Slurm's PMI-2 server: the container or program "
                    "that starts this process must pass it on, as Python's subprocess does with "
                    "close_fds=False");
}

void leave_pmi2_at_exit() {
    if (the_pmi2_session != nullptr) the_pmi2_session->leave();
}

}  // namespace

Pmi2Session::Pmi2Session(int socket) : socket_(socket), owner_(getpid()) {}

Outcome<std::unique_ptr<Pmi2Session>> Pmi2Session::start(int socket, Deadline deadline) {
    TRY(check_socket(socket));
    std::unique_ptr<Pmi2Session> session(new Pmi2Session(socket));
    TRY(session->greet(deadline));
    return session;
}

Outcome<Pmi2Session*> Pmi2Session::open(int socket, Deadline deadline) {
    static bool tried = false;
    if (the_pmi2_session != nullptr) {
        if (the_pmi2_session->owner_ == getpid() && !the_pmi2_session->left_)
            return the_pmi2_session;
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "this process has left its job step, or was forked by one that joined it");
    }
    if (std::exchange(tried, true)) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "an earlier attempt to talk to Slurm's PMI-2 server has failed");
    }
    const auto start_time = Clock::now();
    auto session = TRY(start(socket, deadline));
    // Programs that this one starts must not talk to the server in its name.
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
    the_pmi2_session = session.release();
    std::atexit(leave_pmi2_at_exit);
    set_log_rank(the_pmi2_session->topology().rank);
    log(LogLevel::info, "wired up by Slurm's PMI-2");
    log_time("talking to the PMI-2 server", start_time);
    return the_pmi2_session;
}

// The conversation begins with a line of PMI-1, by which both sides agree on PMI-2. A server to
// which another library has spoken before does not answer it, closes the socket, or names another
// version.
Done Pmi2Session::greet(Deadline deadline) {
    const Deadline early =
        Deadline::at(std::min(deadline.when(), Deadline::in(longest_greeting).when()));
    constexpr std::size_t longest_line = 128;
    const auto line = send("cmd=init pmi_version=2 pmi_subversion=0\n", early).and_then([&] {
        return receive_line(longest_line, early);
    });
    if (!line || line->find("response_to_init") == std::string::npos ||
        line->find(" rc=0 ") == std::string::npos ||
        line->find(" pmi_version=2 ") == std::string::npos) {
        return fail(
            line ? MPIB_ERROR_BOOTSTRAP : line.error().status,
            "the process at the other end of PMI_FD does not speak PMI-2: " +
                (line ? "\"" + line->substr(0, line->find('\n')) + "\"" : line.error().text) +
                "; has another library of this process spoken to it before?");
    }
    const auto self = TRY(ask("fullinit",
                              {{"pmijobid", process_environment("PMI_JOBID").value_or("0")},
                               {"pmirank", process_environment("PMI_RANK").value_or("0")},
                               {"threaded", "FALSE"}},
                              deadline));
    constexpr int most_ranks = 1 << 24;
    const int size = TRY(self.number("size", most_ranks));
    const int rank = TRY(self.number("rank", size - 1));
    const auto map = TRY(ask("info-getjobattr", {{"key", "PMI_process_mapping"}}, deadline));
    auto hosts = TRY(pmi2::hosts_in(map.value("value"), size));
    TRY(pmi2::check_host(hosts, rank, process_environment("SLURM_GTIDS").value_or("")));
    topology_ = TRY(make_topology(rank, std::move(hosts)));
    return {};
}

Outcome<pmi2::Answer> Pmi2Session::ask(const std::string& command, const pmi2::Pairs& pairs,
                                       Deadline deadline, const std::function<bool()>& given_up) {
    const auto lock = TRY(lock_until(asking_, deadline, given_up));
    if (broken_) {
        return fail(MPIB_ERROR_BOOTSTRAP, "an earlier request to Slurm's PMI-2 server has failed");
    }
    auto answer = exchange(command, pairs, deadline, given_up);
    broken_ = !answer;
    if (!answer) answer.error().text = command + ": " + answer.error().text;
    return answer;
}

Outcome<pmi2::Answer> Pmi2Session::exchange(const std::string& command, const pmi2::Pairs& pairs,
                                            Deadline deadline,
                                            const std::function<bool()>& given_up) {
    TRY(send(pmi2::request(command, pairs), deadline));
    const std::string header = TRY(receive(pmi2::header_bytes, deadline, given_up));
    const std::size_t length = TRY(pmi2::length_in(header));
    return pmi2::answer(TRY(receive(length, deadline, given_up)), command);
}

Done Pmi2Session::tell(const std::string& command, const pmi2::Pairs& pairs, Deadline deadline) {
    return send(pmi2::request(command, pairs), deadline);
}

Done Pmi2Session::send(const std::string& text, Deadline deadline) {
    const auto lock = TRY(lock_until(sending_, deadline, {}));
    std::size_t sent = 0;
    while (sent < text.size()) {
        TRY(await(socket_, POLLOUT, deadline, {}));
        const auto now =
            ::send(socket_, text.data() + sent, text.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (now >= 0) {
            sent += static_cast<std::size_t>(now);
        } else if (errno != EAGAIN && errno != EINTR) {
            return socket_failure("send(2)", errno);
        }
    }
    return {};
}

Outcome<std::string> Pmi2Session::receive(std::size_t bytes, Deadline deadline,
                                          const std::function<bool()>& given_up) const {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
        TRY(await(socket_, POLLIN, deadline, given_up));
        const auto now = recv(socket_, text.data() + got, bytes - got, MSG_DONTWAIT);
        if (now == 0) {
            return fail(MPIB_ERROR_BOOTSTRAP, "Slurm's PMI-2 server has closed its socket");
        }
        if (now > 0) {
            got += static_cast<std::size_t>(now);
        } else if (errno != EAGAIN && errno != EINTR) {
            return socket_failure("recv(2)", errno);
        }
    }
    return text;
}

Outcome<std::string> Pmi2Session::receive_line(std::size_t most, Deadline deadline) const {
    std::string line;
    while (line.size() < most && !line.ends_with('\n'))
        line += TRY(receive(1, deadline, {}));
    return line;
}

void Pmi2Session::leave() {
    if (owner_ != getpid() || left_.exchange(true)) return;
    (void)ask("finalize", {}, Deadline::in(longest_pmi2_goodbye));
}

}  // namespace mpi_bridge
