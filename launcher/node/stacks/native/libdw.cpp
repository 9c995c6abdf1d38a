// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/libdw.hpp"

#include <array>
#include <string>
#include <utility>

#include <dlfcn.h>

namespace batchai::node::libdw {

base::Result<Functions> load() {
    void* const handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        return base::fail("there is no libdw", {}, "install elfutils' libdw on the nodes");
    Functions f{};
    const auto places = std::to_array<std::pair<const char*, void*>>({
        {"dwfl_begin", &f.begin},
        {"dwfl_end", &f.end},
        {"dwfl_linux_proc_report", &f.report},
        {"dwfl_report_end", &f.report_end},
        {"dwfl_linux_proc_find_elf", &f.find_elf},
        {"dwfl_attach_state", &f.attach_state},
        {"dwfl_getthread_frames", &f.thread_frames},
        {"dwfl_thread_state_registers", &f.thread_registers},
        {"dwfl_thread_state_register_pc", &f.thread_program_counter},
        {"dwfl_frame_pc", &f.frame_program_counter},
        {"dwfl_addrmodule", &f.module_at},
        {"dwfl_module_info", &f.module_info},
        {"dwfl_module_addrname", &f.function_at},
        {"dwfl_module_getsrc", &f.line_at},
        {"dwfl_lineinfo", &f.line_info},
    });
    for (const auto& [name, place] : places) {
        void* const symbol = dlsym(handle, name);
        if (symbol == nullptr)
            return base::fail("libdw has no function " + std::string(name), {},
                              "install a newer elfutils on the nodes");
        *static_cast<void**>(place) = symbol;
    }
    return f;
}

}  // namespace batchai::node::libdw
