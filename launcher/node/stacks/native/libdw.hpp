// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include <sys/types.h>

#include "base/error.hpp"

// The part of libdw (elfutils) that walks the stack of a thread. The library is found at run time;
// the types are those of elfutils/libdwfl.h, whose interface is stable.
namespace batchai::node::libdw {

struct Session;  // Dwfl
struct Module;   // Dwfl_Module
struct Thread;   // Dwfl_Thread
struct Frame;    // Dwfl_Frame
struct Line;     // Dwfl_Line
using Word = std::uint64_t;

struct Callbacks {
    // Opens the file of a module. Returns its descriptor, or -1. The name is one of malloc().
    int (*find_elf)(Module*, void**, const char*, Word, char**, void**);
    int (*find_debuginfo)(Module*, void**, const char*, Word, const char*, const char*,
                          std::uint32_t, char**);
    int (*section_address)(Module*, void**, const char*, Word, const char*, std::uint32_t,
                           const void*, Word*);
    char** debuginfo_path;
};

struct ThreadCallbacks {
    pid_t (*next_thread)(Session*, void*, void**);
    bool (*get_thread)(Session*, pid_t, void*, void**);
    bool (*memory_read)(Session*, Word, Word*, void*);
    bool (*set_initial_registers)(Thread*, void*);
    void (*detach)(Session*, void*);
    void (*thread_detach)(Thread*, void*);
};

enum CallbackResult : int { go_on = 0, stop = 1 };

struct Functions {
    Session* (*begin)(const Callbacks*);
    void (*end)(Session*);
    int (*report)(Session*, pid_t);
    int (*report_end)(Session*, void*, void*);
    int (*find_elf)(Module*, void**, const char*, Word, char**, void**);
    bool (*attach_state)(Session*, void*, pid_t, const ThreadCallbacks*, void*);
    int (*thread_frames)(Session*, pid_t, int (*)(Frame*, void*), void*);
    bool (*thread_registers)(Thread*, int, unsigned int, const Word*);
    void (*thread_program_counter)(Thread*, Word);
    bool (*frame_program_counter)(Frame*, Word*, bool*);
    Module* (*module_at)(Session*, Word);
    const char* (*module_info)(Module*, void***, Word*, Word*, Word*, Word*, const char**,
                               const char**);
    const char* (*function_at)(Module*, Word);
    Line* (*line_at)(Module*, Word);
    const char* (*line_info)(Line*, Word*, int*, int*, Word*, Word*);
};

// Loads the library, which stays loaded.
[[nodiscard]] base::Result<Functions> load();

}  // namespace batchai::node::libdw
