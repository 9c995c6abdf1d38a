// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/steward.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "node/node_name.hpp"
#include "node/reply.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/rclone.hpp"
#include "node/volumes/unsaved.hpp"
#include "record/node_notes.hpp"

namespace batchai::node {

namespace {

constexpr char serve_byte = 's';
constexpr char finish_byte = 'f';
constexpr char give_up_byte = 'g';
// The time to end rclone and to write a message, in addition to the limit of the flush.
constexpr int farewell_seconds = 15;
constexpr std::chrono::seconds rclone_farewell{3};

// Starts rclone for one mount. If that fails, rclone's log says why.
std::optional<base::Child> start_rclone(const RemoteMount& remote) {
    const base::FileDescriptor log(open(
        remote.slot.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!log.valid()) return std::nullopt;
    auto rclone = base::Child::start(
        {.arguments = serve_arguments(*remote.mount, remote.slot.cache()),
         .environment = remote.environment,
         .descriptors = {{.ours = -1, .its = STDIN_FILENO},
                         {.ours = log.get(), .its = STDOUT_FILENO},
                         {.ours = log.get(), .its = STDERR_FILENO},
                         {.ours = remote.device.get(), .its = rclone_fuse_descriptor}},
         .ends_with_us = true,
         .signals = base::Signals::unblocked_all_default,
         .missing_hint = "rclone is not installed on this node"});
    if (rclone) return std::move(*rclone);
    const base::Error& error = rclone.error();
    const std::string complaint =
        fmt::format("Failed to start: {}\n", error.hint.empty() ? error.text() : error.hint);
    if (write(log.get(), complaint.data(), complaint.size()) < 0) {
        // The mount then fails without an explanation.
    }
    return std::nullopt;
}

std::vector<base::Child> start_all(const std::vector<RemoteMount>& mounts) {
    std::vector<base::Child> children;
    for (const RemoteMount& remote : mounts) {
        if (auto child = start_rclone(remote)) children.push_back(std::move(*child));
    }
    return children;
}

void end_all(std::vector<base::Child> children) {
    for (const int number : {SIGTERM, SIGKILL}) {
        const auto end = Clock::now() + rclone_farewell;
        for (base::Child& child : children) {
            if (!child.ended()) child.signal(number);
        }
        for (base::Child& child : children)
            static_cast<void>(child.ended_by(end));
    }
    // A process that cannot be killed is blocked in its file system. It is not waited for.
    for (base::Child& child : children)
        child.release();
}

// Returns the next byte from the control socket, or zero at its end.
char next_byte(int control) {
    char byte = 0;
    while (true) {
        const ssize_t count = read(control, &byte, 1);
        if (count == 1) return byte;
        if (count == 0 || errno != EINTR) return 0;
    }
}

// Closes the descriptors that were inherited from the process that started the steward. Otherwise
// whoever waits for the end of one of these pipes would wait for the steward.
void close_all_but(std::vector<int> kept) {
    std::sort(kept.begin(), kept.end());
    int first = STDERR_FILENO + 1;
    for (const int descriptor : kept) {
        if (descriptor > first)
            close_range(static_cast<unsigned>(first), static_cast<unsigned>(descriptor - 1), 0);
        first = std::max(first, descriptor + 1);
    }
    close_range(static_cast<unsigned>(first), ~0U, 0);
}

struct Job {
    std::string directory;
    std::string slurm_id;
};

// The storage note. It exists from before the first write of a task until after the last upload.
class Note {
  public:
    Note(const std::vector<RemoteMount>& mounts, const Job& job)
        : files_(job.directory),
          note_{.node = node_name(), .slurm_job_id = job.slurm_id, .until = {}, .path = {}} {
        const bool any = std::any_of(mounts.begin(), mounts.end(), [](const RemoteMount& remote) {
            return !remote.mount->read_only;
        });
        if (any) record::write_storage_note(files_, note_);
    }
    Note(const Note&) = delete;
    Note& operator=(const Note&) = delete;
    ~Note() { record::remove_storage_note(note_); }
    void ends_within(std::chrono::seconds time) {
        note_.until = base::now() + time;
        record::rewrite_storage_note(note_);
    }
    void fail() {
        record::fail_storage_note(files_, note_);
        note_.path.clear();
    }

  private:
    record::JobFiles files_;
    record::StorageNote note_;
};

int patience_with(const std::vector<RemoteMount>& mounts) {
    int longest = 0;
    for (const RemoteMount& remote : mounts)
        longest = std::max(longest, remote.mount->flush_seconds);
    return longest + farewell_seconds;
}

void start_work(const std::vector<RemoteMount>& mounts, const Job& job, int control, int ready) {
    Note note(mounts, job);
    constexpr int code = 0;
    if (write(ready, &code, sizeof code) != sizeof code || next_byte(control) != serve_byte) return;
    auto children = start_all(mounts);
    for (const RemoteMount& remote : mounts)
        close(remote.device.get());
    // The steward finishes unless it is asked to give up. It also finishes when the socket reaches
    // its end, because the process that started the steward may have been killed.
    if (next_byte(control) != give_up_byte) {
        note.ends_within(std::chrono::seconds(patience_with(mounts)));
        flush_volumes(mounts, job.directory, [&] {
            return children.size() == mounts.size() &&
                   std::none_of(children.begin(), children.end(),
                                [](base::Child& child) { return child.ended().has_value(); });
        });
    }
    end_all(std::move(children));
    if (!report_unwritten(mounts, job.directory)) note.fail();
}

int be_steward(const std::vector<RemoteMount>& mounts, const Job& job, int control, int ready) {
    prctl(PR_SET_NAME, "batchai-volumes", 0, 0, 0);
    for (const int number : {SIGTERM, SIGHUP, SIGPIPE})
        signal(number, SIG_IGN);
    std::vector<int> kept{control, ready};
    for (const RemoteMount& remote : mounts)
        kept.insert(kept.end(), {remote.device.get(), remote.slot.lock()});
    close_all_but(std::move(kept));
    if (unshare(CLONE_NEWNS) != 0) {
        const int code = errno;
        return write(ready, &code, sizeof code) < 0 ? 2 : 1;
    }
    try {
        start_work(mounts, job, control, ready);
    } catch (const std::exception& error) {
        Trace(job.directory).line(fmt::format("volumes: {}", error.what()));
        return 1;
    }
    return 0;
}

struct Ends {
    base::FileDescriptor ours;
    base::FileDescriptor its;
};

base::Result<Ends> make_ends() {
    std::array<int, 2> ends{};
    // Sockets are used, because MSG_NOSIGNAL avoids SIGPIPE if the other end is closed.
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0)
        return Ends{base::FileDescriptor(ends[0]), base::FileDescriptor(ends[1])};
    return base::fail(fmt::format("cannot make a socket: {}", std::strerror(errno)));
}

void say(const base::FileDescriptor& control, char byte) {
    if (send(control.get(), &byte, 1, MSG_NOSIGNAL) != 1) {
        // The steward has died. The mounts do not answer, and the clean-up saves what is in the
        // cache.
    }
}

}  // namespace

Steward& Steward::operator=(Steward&& other) noexcept {
    give_up();
    control_ = std::move(other.control_);
    end_ = std::move(other.end_);
    patience_seconds_ = other.patience_seconds_;
    return *this;
}

Steward::~Steward() {
    give_up();
}

base::Result<Steward> Steward::start(const std::vector<RemoteMount>& mounts,
                                     const std::string& job_directory,
                                     const std::string& slurm_job_id) {
    Ends control = TRY(make_ends());
    Ends ready = TRY(make_ends());
    TRY(base::fork_detached([&] {
        return be_steward(mounts, {job_directory, slurm_job_id}, control.its.get(),
                          ready.its.get());
    }));
    ready.its.reset(-1);
    Steward steward(std::move(control.ours), std::move(ready.ours), patience_with(mounts));
    int code = EPIPE;
    if (read(steward.end_.get(), &code, sizeof code) == sizeof code && code == 0) return steward;
    return base::fail(fmt::format("cannot make a mount namespace: {}", std::strerror(code)));
}

void Steward::serve() {
    say(control_, serve_byte);
}

bool Steward::finish(std::optional<std::chrono::seconds> at_most) {
    if (!control_.valid()) return true;
    say(control_, finish_byte);
    control_.reset(-1);
    auto patience = std::chrono::seconds(patience_seconds_);
    if (at_most) patience = std::min(patience, *at_most);
    return ends_within(patience);
}

void Steward::give_up() {
    if (!control_.valid()) return;
    say(control_, give_up_byte);
    control_.reset(-1);
    static_cast<void>(ends_within(std::chrono::seconds(1)));
}

bool Steward::ends_within(std::chrono::seconds patience) const {
    const auto end = Clock::now() + patience;
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd ended{end_.get(), POLLIN, 0};
        const int ready = poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
        if (ready > 0 || left <= 0) return ready > 0;
    }
}

}  // namespace batchai::node
