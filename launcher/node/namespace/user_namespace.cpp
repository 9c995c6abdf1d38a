// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/namespace/user_namespace.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/process.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t map_limit = 16UL << 20U;
constexpr std::chrono::seconds mapping_deadline{10};

void write_word(int descriptor, std::string_view text) {
    if (write(descriptor, text.data(), text.size()) < 0) {
        // The reader sees the end of the pipe instead.
    }
}

base::Result<void> write_file(const std::string& path, std::string_view text) {
    const base::FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.valid() &&
        write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
        return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)), path,
                      "a security module (AppArmor, SELinux) may restrict user namespaces");
}

std::optional<SubordinateIds> subordinate_ids(const char* file, const std::string& name, uid_t id) {
    const auto text = base::read_file(file, map_limit);
    return text ? find_subordinate_ids(*text, name, id) : std::nullopt;
}

bool on_path(const char* program) {
    for (const char* directory : {"/usr/bin/", "/bin/", "/usr/sbin/", "/usr/local/bin/"}) {
        if (access((std::string(directory) + program).c_str(), X_OK) == 0) return true;
    }
    return false;
}

base::Result<void> run_mapper(const char* program, pid_t process, const IdMap& map) {
    base::Arguments arguments{program, std::to_string(process)};
    for (const IdExtent& extent : map) {
        for (const std::uint32_t value : {extent.inside, extent.outside, extent.count})
            arguments.push_back(std::to_string(value));
    }
    base::RunOptions options;
    options.deadline = mapping_deadline;
    const auto ended = TRY(base::run(arguments, options));
    if (ended.exit_code == 0) return {};
    return base::fail(fmt::format("{} failed: {}", program, ended.standard_error), {},
                      "the admin should compare /etc/subuid and /etc/subgid on this node");
}

// Maps the ids of `process` as soon as it has left the outer user namespace. Runs in a child
// process that stays in that namespace, because newuidmap works only there. Writes the text of an
// error, if any, to `answer`.
int map_from_outside(const Identities& identities, pid_t process, const base::Pipe& left,
                     const base::Pipe& answer) {
    char byte = 0;
    while (read(left.read_end.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    const auto mapped =
        byte == 0 ? base::Result<void>{}
                  : run_mapper("newuidmap", process, outer_map(identities.user, identities.users))
                        .and_then([&] {
                            return run_mapper("newgidmap", process,
                                              outer_map(identities.group, identities.groups));
                        });
    if (!mapped) write_word(answer.write_end.get(), mapped.error().text());
    return 0;
}

base::Result<void> leave(int further = 0) {
    if (unshare(CLONE_NEWUSER | further) == 0) return {};
    return base::fail(
        fmt::format("cannot make a user and a mount namespace: {}", std::strerror(errno)), {},
        "the admin must allow them: user.max_user_namespaces above 0 and, where it exists, "
        "kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0");
}

base::Result<void> leave_with_all_ids(const Identities& identities) {
    base::Pipe left = TRY(base::make_pipe());
    base::Pipe answer = TRY(base::make_pipe());
    const pid_t process = getpid();
    auto mapper = TRY(base::Child::fork([&] {
        left.write_end.reset(-1);
        return map_from_outside(identities, process, left, answer);
    }));
    answer.write_end.reset(-1);
    const auto gone = leave();
    if (gone) write_word(left.write_end.get(), "x");
    left.write_end.reset(-1);
    const std::string complaint = base::read_to_end(answer.read_end.get());
    static_cast<void>(mapper.wait());
    TRY(gone);
    if (!complaint.empty()) return base::fail(complaint);
    return {};
}

// Maps the ids of this process, which has just entered a new user namespace.
base::Result<void> map_to(const IdMap& users, const IdMap& groups) {
    // Without privileges the group map can be written only after setgroups() is given up.
    return write_file("/proc/self/setgroups", "deny")
        .and_then([&] { return write_file("/proc/self/uid_map", to_text(users)); })
        .and_then([&] { return write_file("/proc/self/gid_map", to_text(groups)); });
}

base::Result<void> leave_with_one_id(const Identities& identities) {
    return leave().and_then(
        [&] { return map_to(outer_map(identities.user, {}), outer_map(identities.group, {})); });
}

}  // namespace

Identities find_identities() {
    Identities found;
    found.user = geteuid();
    found.group = getegid();
    const passwd* const entry = getpwuid(found.user);
    const std::string name = entry == nullptr ? std::string() : entry->pw_name;
    const auto users = subordinate_ids("/etc/subuid", name, found.user);
    const auto groups = subordinate_ids("/etc/subgid", name, found.user);
    if (!users || !groups) return found;
    if (!on_path("newuidmap") || !on_path("newgidmap")) {
        found.remark =
            "the container has one user id only: /etc/subuid has more, but newuidmap is not "
            "installed on this node (package uidmap)";
        return found;
    }
    found.users = users;
    found.groups = groups;
    return found;
}

base::Result<void> enter_private_namespaces() {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    TRY(leave(CLONE_NEWNS));
    TRY(map_to({{uid, uid, 1}}, {{gid, gid, 1}}));
    if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return base::fail(fmt::format("cannot make mounts private: {}", std::strerror(errno)));
    return {};
}

base::Result<void> enter_user_namespace(const Identities& identities) {
    TRY(identities.full() ? leave_with_all_ids(identities) : leave_with_one_id(identities));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return base::fail(fmt::format("cannot give up privileges: {}", std::strerror(errno)));
    return {};
}

base::Result<base::FileDescriptor> make_rank_namespace(const Identities& identities) {
    base::Pipe ready = TRY(base::make_pipe());
    base::Pipe done = TRY(base::make_pipe());
    auto holder = TRY(base::Child::fork([&] {
        done.write_end.reset(-1);
        // The parent needs the id of this process as /proc shows it, because /proc may belong to
        // another PID namespace than this process.
        std::array<char, 32> number{"?"};
        if (unshare(CLONE_NEWUSER) == 0 &&
            readlink("/proc/self", number.data(), number.size() - 1) > 0)
            write_word(ready.write_end.get(), number.data());
        else
            write_word(ready.write_end.get(), std::string("!") + std::strerror(errno));
        ready.write_end.reset(-1);
        static_cast<void>(base::read_to_end(done.read_end.get()));
        return 0;
    }));
    ready.write_end.reset(-1);
    const std::string answer = base::read_to_end(ready.read_end.get());
    const std::string process = "/proc/" + answer;
    const bool found =
        !answer.empty() && answer.find_first_not_of("0123456789") == std::string::npos;
    const auto made =
        (found ? base::Result<void>{}
               : base::fail("cannot make the ranks' user namespace: " +
                            (answer.empty() ? answer : answer.substr(1))))
            .and_then([&] {
                return write_file(process + "/uid_map",
                                  to_text(rank_map(identities.user, identities.users)));
            })
            .and_then([&] {
                return write_file(process + "/gid_map",
                                  to_text(rank_map(identities.group, identities.groups)));
            });
    base::FileDescriptor handle(open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    const int code = errno;
    done.write_end.reset(-1);
    static_cast<void>(holder.wait());
    TRY(made);
    if (!handle.valid())
        return base::fail(fmt::format("cannot be opened: {}", std::strerror(code)),
                          process + "/ns/user");
    return handle;
}

}  // namespace batchai::node
