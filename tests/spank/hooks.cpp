// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/spank/hooks.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fake {

namespace {

constexpr uid_t nobody = 65534;

std::string read_all(int descriptor) {
    std::string text;
    std::array<char, 4096> chunk{};
    lseek(descriptor, 0, SEEK_SET);
    for (ssize_t count = 0; (count = read(descriptor, chunk.data(), chunk.size())) > 0;)
        text.append(chunk.data(), static_cast<std::size_t>(count));
    return text;
}

void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

void own(const std::filesystem::path& path) {
    if (geteuid() == 0) require(lchown(path.c_str(), nobody, nobody) == 0, "lchown");
}

// As slurmstepd's become_user() before task_init.
void become(const Slurm& slurm) {
    if (geteuid() != 0) return;
    require(setgroups(slurm.groups.size(), slurm.groups.data()) == 0, "setgroups");
    require(setresgid(slurm.gid, slurm.gid, slurm.gid) == 0, "setresgid");
    require(setresuid(slurm.uid, slurm.uid, slurm.uid) == 0, "setresuid");
}

[[noreturn]] void execute_task(Plugin& plugin, const std::string& script) {
    become(slurm());
    if (plugin.call("slurm_spank_task_init") < 0) _exit(98);
    std::vector<std::string> entries;
    entries.reserve(slurm().environment.size());
    for (const auto& [name, value] : slurm().environment)
        entries.emplace_back(name).append(1, '=').append(value);
    std::vector<char*> environment;
    environment.reserve(entries.size() + 1);
    for (std::string& entry : entries)
        environment.push_back(entry.data());
    environment.push_back(nullptr);
    execle("/bin/sh", "sh", "-c", script.c_str(), nullptr, environment.data());
    _exit(99);
}

int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Plugin::Plugin(std::vector<std::string> plugstack_arguments)
    : handle_(dlopen(BATCHAI_PLUGIN, RTLD_LAZY)), arguments_(std::move(plugstack_arguments)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
}

void* Plugin::symbol(const char* name) const {
    return dlsym(handle_, name);
}

int Plugin::call(const char* hook) {
    auto* const function = reinterpret_cast<spank_f*>(symbol(hook));
    if (function == nullptr) return 0;
    std::vector<char*> pointers;
    for (std::string& argument : arguments_)
        pointers.push_back(argument.data());
    return function(nullptr, static_cast<int>(pointers.size()), pointers.data());
}

int Plugin::give(const std::string& option, const char* argument) {
    const spank_option& registered = slurm().registered.at(option);
    return registered.cb(registered.val, argument, slurm().context == S_CTX_REMOTE ? 1 : 0);
}

Ended in_process(const std::function<int()>& work) {
    std::FILE* const output = std::tmpfile();
    std::FILE* const errors = std::tmpfile();
    require(output != nullptr && errors != nullptr, "tmpfile");
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        dup2(fileno(output), STDOUT_FILENO);
        dup2(fileno(errors), STDERR_FILENO);
        try {
            const int code = work();
            std::fflush(nullptr);
            _exit(code);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "exception: %s\n", error.what());
            std::fflush(nullptr);
            _exit(97);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    Ended ended{exit_code_of(status), read_all(fileno(output)), read_all(fileno(errors))};
    std::fclose(output);
    std::fclose(errors);
    return ended;
}

Scratch::Scratch() {
    std::string name = "/tmp/batchai-hooks-XXXXXX";
    require(mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
    require(chmod(name.c_str(), 0755) == 0, "chmod");
    own(path_);
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path Scratch::directory(const std::string& name) const {
    std::filesystem::create_directories(path_ / name);
    own(path_ / name);
    return path_ / name;
}

std::filesystem::path Scratch::file(const std::string& name, const std::string& text,
                                    bool executable) const {
    std::ofstream(path_ / name) << text;
    require(chmod((path_ / name).c_str(), executable ? 0755 : 0644) == 0, "chmod");
    own(path_ / name);
    return path_ / name;
}

std::string Scratch::read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
}

void become_user_of_job(Slurm& slurm) {
    slurm.uid = geteuid() == 0 ? nobody : geteuid();
    slurm.gid = geteuid() == 0 ? nobody : getegid();
    slurm.groups = {slurm.gid};
}

Ended run_step(Plugin& plugin, const std::string& script) {
    const bool root = geteuid() == 0;
    return in_process([&] {
        slurm().context = S_CTX_REMOTE;
        if (plugin.call("slurm_spank_init") != 0) return 90;
        if (plugin.call("slurm_spank_init_post_opt") != 0) return 91;
        // user_init: effective user is the job's, real user is still root.
        if (root) require(seteuid(slurm().uid) == 0, "seteuid");
        if (plugin.call("slurm_spank_user_init") != 0) return 92;
        if (root) require(seteuid(0) == 0, "seteuid");
        const pid_t task = fork();
        require(task >= 0, "fork");
        if (task == 0) execute_task(plugin, script);
        int status = 0;
        waitpid(task, &status, 0);
        slurm().exit_status = status;
        if (plugin.call("slurm_spank_task_exit") != 0) return 93;
        // Nothing of the step is left before its last hook: no child, dead or alive.
        if (waitpid(-1, nullptr, WNOHANG) != -1) return 94;
        if (plugin.call("slurm_spank_exit") != 0) return 95;
        return exit_code_of(status);
    });
}

}  // namespace fake
