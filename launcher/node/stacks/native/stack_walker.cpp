// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/stack_walker.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/utf8.hpp"
#include "node/stacks/native/function_names.hpp"
#include "node/stacks/native/permission.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t most_frames = 100;

// What the system has installed is nobody's own code. What is below /usr/local may be.
bool is_of_system(std::string_view path) {
    constexpr std::array<std::string_view, 4> folders{"/usr/", "/lib/", "/lib64/", "["};
    return !path.starts_with("/usr/local/") &&
           std::any_of(folders.begin(), folders.end(),
                       [&](std::string_view folder) { return path.starts_with(folder); });
}

// A line of a header is that of a function that the compiler has put into another one.
bool is_of_others(std::string_view source) {
    return source.starts_with("/usr/include/") || source.find("/include/c++/") != source.npos;
}

bool is_regular(int descriptor) {
    struct stat status {};
    return descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Opens a regular file. A device must not even be opened.
int open_regular(int root, std::string_view path) {
    if (!path.starts_with('/')) return -1;
    const auto place = base::open_beneath(root, std::string(path.substr(1)), O_PATH | O_CLOEXEC, 0,
                                          base::Links::as_root);
    if (!is_regular(place.get())) return -1;
    return ::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

struct StackWalker::Callbacks {
    // libdw does not tell the callback which session it belongs to.
    static thread_local const Process* opening;

    static int find_elf(libdw::Module* module, void** user, const char* name, libdw::Word base,
                        char** file, void** elf) {
        const std::string_view path = name;
        if (path.starts_with("[vdso"))
            return opening->functions->find_elf(module, user, name, base, file, elf);
        // The program may have been replaced or removed since it was started.
        const int descriptor =
            path == opening->program
                ? ::open(fmt::format("/proc/{}/exe", opening->id).c_str(), O_RDONLY | O_CLOEXEC)
                : open_regular(opening->root.get(), path);
        if (descriptor >= 0) *file = strdup(name);
        return descriptor;
    }
    static int find_debuginfo(libdw::Module*, void**, const char*, libdw::Word, const char*,
                              const char*, std::uint32_t, char**) {
        return -1;
    }
    static pid_t next_thread(libdw::Session*, void* process, void** thread) {
        if (*thread != nullptr) return 0;
        *thread = process;
        return static_cast<const Process*>(process)->id;
    }
    static bool get_thread(libdw::Session*, pid_t, void* process, void** thread) {
        *thread = process;
        return true;
    }
    static bool read_memory(libdw::Session*, libdw::Word address, libdw::Word* into,
                            void* process) {
        const ThreadCopy& copy = *static_cast<const Process*>(process)->thread;
        if (address < copy.stack_begin) return false;
        const std::uint64_t offset = address - copy.stack_begin;
        if (offset > copy.stack.size() || copy.stack.size() - offset < sizeof *into) return false;
        std::memcpy(into, copy.stack.data() + offset, sizeof *into);
        *into = without_signature(*static_cast<const Process*>(process), *into);
        return true;
    }
    // Older releases of libdw take a signed return address as it is, and end there. What only looks
    // like one stays as it is.
    static libdw::Word without_signature(const Process& process, libdw::Word word) {
        const libdw::Word address = word & ~process.thread->signature_bits;
        if (address == word || process.functions->module_at(process.session, address) == nullptr)
            return word;
        return address;
    }
    static bool set_registers(libdw::Thread* thread, void* of_process) {
        const auto& process = *static_cast<const Process*>(of_process);
        ThreadRegisters registers = process.thread->registers;
        // A function that has just begun, or is about to end, has its return address in one.
        for (std::uint64_t& value : registers.values)
            value = without_signature(process, value);
        process.functions->thread_program_counter(thread, registers.program_counter);
        return process.functions->thread_registers(
            thread, 0, static_cast<unsigned int>(registers.values.size()), registers.values.data());
    }

    struct Walk {
        const libdw::Functions* functions;
        std::vector<libdw::Word> addresses;
    };
    // The address of a call is the one before that to which it returns.
    static int add_frame(libdw::Frame* frame, void* of_walk) {
        auto& walk = *static_cast<Walk*>(of_walk);
        libdw::Word address = 0;
        bool is_exact = false;
        if (!walk.functions->frame_program_counter(frame, &address, &is_exact)) return libdw::stop;
        walk.addresses.push_back(is_exact || address == 0 ? address : address - 1);
        return walk.addresses.size() < most_frames ? libdw::go_on : libdw::stop;
    }

    static constexpr libdw::Callbacks files{.find_elf = find_elf,
                                            .find_debuginfo = find_debuginfo,
                                            .section_address = nullptr,
                                            .debuginfo_path = nullptr};
    static constexpr libdw::ThreadCallbacks threads{.next_thread = next_thread,
                                                    .get_thread = get_thread,
                                                    .memory_read = read_memory,
                                                    .set_initial_registers = set_registers,
                                                    .detach = nullptr,
                                                    .thread_detach = nullptr};
};

thread_local const StackWalker::Process* StackWalker::Callbacks::opening = nullptr;

base::Result<StackWalker> StackWalker::open(const libdw::Functions& functions, pid_t process) {
    auto known = std::make_unique<Process>();
    known->id = process;
    known->functions = &functions;
    const std::string place = fmt::format("/proc/{}/", process);
    known->root.reset(::open((place + "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!known->root.valid()) return base::fail(why_not_allowed(process));
    std::error_code error;
    known->program = std::filesystem::read_symlink(place + "exe", error).string();
    Callbacks::opening = known.get();
    libdw::Session* const session = functions.begin(&Callbacks::files);
    if (session == nullptr) return base::fail("libdw cannot be used");
    known->session = session;
    StackWalker walker(std::move(known), session);
    if (functions.report(session, process) != 0 ||
        functions.report_end(session, nullptr, nullptr) != 0 ||
        !functions.attach_state(session, nullptr, process, &Callbacks::threads,
                                walker.process_.get()))
        return base::fail("libdw does not know its program");
    return walker;
}

StackWalker::~StackWalker() {
    if (session_ != nullptr) process_->functions->end(session_);
}

StackWalker::StackWalker(StackWalker&& other) noexcept
    : process_(std::move(other.process_)), session_(std::exchange(other.session_, nullptr)) {}

base::Result<std::vector<visit::StackFrame>> StackWalker::frames_of(pid_t thread,
                                                                    const ThreadCopy& copy) {
    Callbacks::opening = process_.get();
    Callbacks::Walk walk{.functions = process_->functions, .addresses = {}};
    process_->thread = &copy;
    process_->functions->thread_frames(session_, thread, Callbacks::add_frame, &walk);
    process_->thread = nullptr;
    if (walk.addresses.empty()) return base::fail("its stack cannot be walked");
    std::vector<visit::StackFrame> frames;
    for (const libdw::Word address : walk.addresses) {
        frames.push_back(frame_at(address));
        // What has called it is the C library.
        if (frames.back().function == "main") break;
    }
    return frames;
}

visit::StackFrame StackWalker::frame_at(libdw::Word address) const {
    const libdw::Functions& functions = *process_->functions;
    visit::StackFrame frame;
    libdw::Module* const module = functions.module_at(session_, address);
    if (module == nullptr) return frame;
    const char* const name = functions.module_info(module, nullptr, nullptr, nullptr, nullptr,
                                                   nullptr, nullptr, nullptr);
    const std::string path = name != nullptr ? name : "";
    frame.file = base::printable_line(path);
    if (path != process_->program)
        frame.library = base::printable_line(path.substr(path.rfind('/') + 1));
    if (const char* const function = functions.function_at(module, address))
        frame.function = readable_function(function);
    if (is_of_system(path) && path != process_->program) return frame;
    libdw::Line* const line = functions.line_at(module, address);
    if (line == nullptr) return frame;
    int number = 0;
    const char* const source =
        functions.line_info(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (source == nullptr || is_of_others(source)) return frame;
    frame.file = base::printable_line(source);
    frame.line = number;
    return frame;
}

}  // namespace batchai::node
