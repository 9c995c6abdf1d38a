// SPDX-License-Identifier: Apache-2.0
#include "shm/segment.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shm/abandoned_segments.hpp"
#include "shm/file_space.hpp"

namespace mpi_bridge {
namespace {

struct Header {
    char magic[8];
    Nonce nonce;
};
constexpr char magic[8] = {'m', 'p', 'i', 'b', 's', 'e', 'g', '1'};
static_assert(sizeof(Header) <= Segment::header_bytes);

constexpr std::string_view segment_kind = "memory";

bool has_name(const Segment::Ticket& ticket) {
    return ticket.name[0] != '\0';
}

std::string where(const Segment::Ticket& ticket) {
    return has_name(ticket) ? fmt::format("/dev/shm{}", ticket.name)
                            : fmt::format("the memory file of process {}", ticket.place.process);
}

tl::unexpected<Failure> segment_failure(std::string_view what, const Segment::Ticket& ticket) {
    return fail(MPIB_ERROR_INTERNAL, fmt::format("shared memory: cannot {} {}: {}", what,
                                                 where(ticket), std::strerror(errno)));
}

// Whether /dev/shm can hold the segment and as much again, for the other segments of this process
// and for what the program keeps there.
bool has_room_in_dev_shm(std::uint64_t bytes) {
    struct statvfs found {};
    if (::statvfs("/dev/shm", &found) != 0) return false;
    // A file system without a limit says 0 of 0.
    return found.f_blocks == 0 || found.f_bavail * found.f_frsize / 2 >= bytes;
}

Outcome<std::byte*> map(const FileDescriptor& file, const Segment::Ticket& ticket) {
    void* memory =
        ::mmap(nullptr, ticket.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (memory == MAP_FAILED) return segment_failure("map", ticket);
    // Without this, the core file of every rank would hold the same scratch memory.
    ::madvise(memory, ticket.bytes, MADV_DONTDUMP);
    return static_cast<std::byte*>(memory);
}

}  // namespace

Outcome<FileDescriptor> Segment::make_file(Ticket& ticket) {
    // Abandoned segments may hold the memory that this one needs.
    remove_abandoned_segments();
    if (!has_room_in_dev_shm(ticket.bytes)) {
        auto file = TRY(make_memory_file(segment_kind, ticket.nonce));
        ticket.place = {::getpid(), file.number()};
        return file;
    }
    name_for_segment(ticket.nonce).copy(ticket.name, sizeof ticket.name - 1);
    FileDescriptor file(::shm_open(ticket.name, O_RDWR | O_CREAT | O_EXCL, 0600));
    if (!file) return segment_failure("create", ticket);
    return file;
}

Outcome<FileDescriptor> Segment::open_file(const Ticket& ticket) {
    if (!has_name(ticket)) return open_memory_file(segment_kind, ticket.nonce, ticket.place);
    FileDescriptor file(::shm_open(ticket.name, O_RDWR, 0));
    if (!file) return segment_failure("attach", ticket);
    return file;
}

Outcome<std::unique_ptr<Segment>> Segment::create(std::uint64_t bytes) {
    auto nonce = TRY(draw_nonce());
    Ticket ticket{{}, {}, nonce, bytes};
    if (bytes > longest_file()) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: {} bytes are more than this process may write into "
                                "a file (ulimit -f: {} bytes)",
                                bytes, longest_file()));
    }
    auto file = TRY(make_file(ticket));
    // From here on the destructor cleans up.
    std::unique_ptr<Segment> segment(new Segment(std::move(file), nullptr, ticket, ::getpid()));
    if (::ftruncate(segment->file_.number(), static_cast<off_t>(bytes)) != 0) {
        return segment_failure("set the size of", ticket);
    }
    TRY(segment->reserve(0, header_bytes, "a header"));
    auto memory = TRY(map(segment->file_, ticket));
    segment->memory_ = memory;
    Header header{};
    std::copy(std::begin(magic), std::end(magic), header.magic);
    header.nonce = nonce;
    std::memcpy(segment->memory_, &header, sizeof header);
    return segment;
}

Outcome<std::unique_ptr<Segment>> Segment::attach(const Ticket& ticket) {
    Ticket own = ticket;
    own.name[sizeof own.name - 1] = '\0';
    auto file = TRY(open_file(own));
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) return segment_failure("look at", own);
    if (status.st_size != static_cast<off_t>(own.bytes) || own.bytes < header_bytes) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: {} is another process's: it has {} bytes where {} "
                                "were expected",
                                where(own), status.st_size, own.bytes));
    }
    auto memory = TRY(map(file, own));
    std::unique_ptr<Segment> segment(new Segment(std::move(file), memory, own, 0));
    Header header{};
    std::memcpy(&header, segment->memory_, sizeof header);
    if (!std::equal(std::begin(magic), std::end(magic), header.magic) ||
        header.nonce != own.nonce) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: {} is another process's: its nonce is not the "
                                "expected one",
                                where(own)));
    }
    return segment;
}

Segment::~Segment() {
    unlink();
    if (has_name(ticket_) && is_abandoned(ticket_.name)) ::shm_unlink(ticket_.name);
    if (memory_ != nullptr) ::munmap(memory_, ticket_.bytes);
}

void Segment::unlink() {
    // A forked child has a copy of this object, but must not remove the name while its parent uses
    // it.
    if (has_name(ticket_) && creator_ != 0 && creator_ == ::getpid()) ::shm_unlink(ticket_.name);
    creator_ = 0;
}

Done Segment::reserve(std::uint64_t offset, std::uint64_t bytes, std::string_view purpose) {
    return reserve_space(file_.number(), offset, bytes, purpose,
                         has_name(ticket_) ? "make /dev/shm larger (see df /dev/shm), or give the "
                                             "job more memory"
                                           : "give the job more memory");
}

Done Segment::lock(int byte) {
    struct flock request {};
    request.l_type = F_WRLCK;
    request.l_whence = SEEK_SET;
    request.l_start = byte;
    request.l_len = 1;
    if (::fcntl(file_.number(), F_SETLK, &request) != 0) {
        return segment_failure("lock a byte of", ticket_);
    }
    return {};
}

bool Segment::is_locked_by_another(int byte) const {
    struct flock request {};
    request.l_type = F_WRLCK;
    request.l_whence = SEEK_SET;
    request.l_start = byte;
    request.l_len = 1;
    // If this cannot be found out, the process counts as alive; deadlines still hold.
    if (::fcntl(file_.number(), F_GETLK, &request) != 0) return true;
    return request.l_type != F_UNLCK;
}

}  // namespace mpi_bridge
