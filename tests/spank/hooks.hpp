// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/spank/fake_slurm.hpp"

// Drives the real plugin the way Slurm does: each Slurm process is a process here.
namespace fake {

// batchai.so, loaded into this process.
class Plugin {
  public:
    explicit Plugin(std::vector<std::string> plugstack_arguments = {});
    // Calls a hook: "slurm_spank_init", …
    int call(const char* hook);
    // What Slurm does with an option on the command line or in the environment.
    int give(const std::string& option, const char* argument);
    [[nodiscard]] void* symbol(const char* name) const;

  private:
    void* handle_;
    std::vector<std::string> arguments_;
};

struct Ended {
    int exit_code = 0;  // 128 + signal when killed
    std::string output;
    std::string errors;
};

// Runs `work` in a process of its own; its exit code is what it returns.
Ended in_process(const std::function<int()>& work);

// A temporary directory that the job's user owns and may enter; removed at the end.
class Scratch {
  public:
    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    // Makes a directory, a file, or an executable file, of the job's user.
    std::filesystem::path directory(const std::string& name) const;
    std::filesystem::path file(const std::string& name, const std::string& text,
                               bool executable = false) const;
    [[nodiscard]] std::string read(const std::string& name) const;

  private:
    std::filesystem::path path_;
};

// The job's user: "nobody" where the test is root and has something to give up, else ourselves.
void become_user_of_job(Slurm& slurm);

// What slurmstepd does for a step of one task that runs /bin/sh -c `script`: all hooks in their
// order, each with the identity that Slurm gives it; the task in a child process. The task's
// environment is the job's. Returns its end; adds what the hooks returned to `returned`.
Ended run_step(Plugin& plugin, const std::string& script);

}  // namespace fake
