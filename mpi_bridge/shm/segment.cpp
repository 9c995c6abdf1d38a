// SPDX-License-Identifier: Apache-2.0
#include "shm/segment.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

tl::unexpected<Failure> segment_failure(std::string_view what, std::string_view name) {
    return fail(MPIB_ERROR_INTERNAL, fmt::format("shared memory: cannot {} /dev/shm{}: {}", what,
                                                 name, std::strerror(errno)));
}

Outcome<std::byte*> map(const FileDescriptor& file, std::uint64_t bytes, std::string_view name) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (memory == MAP_FAILED) return segment_failure("map", name);
    // Without this, the core file of every rank would hold the same scratch memory.
    ::madvise(memory, bytes, MADV_DONTDUMP);
    return static_cast<std::byte*>(memory);
}

}  // namespace

Outcome<std::unique_ptr<Segment>> Segment::create(std::uint64_t bytes) {
    auto nonce = TRY(draw_nonce());
    Ticket ticket{{}, nonce, bytes};
    const auto name = name_for_segment(nonce);
    name.copy(ticket.name, sizeof ticket.name - 1);

    if (bytes > longest_file()) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: {} bytes are more than this process may write into "
                                "a file (ulimit -f: {} bytes)",
                                bytes, longest_file()));
    }
    // Abandoned segments may hold the memory that this one needs.
    remove_abandoned_segments();
    FileDescriptor file(::shm_open(ticket.name, O_RDWR | O_CREAT | O_EXCL, 0600));
    if (!file) return segment_failure("create", ticket.name);
    // From here on the destructor cleans up.
    std::unique_ptr<Segment> segment(new Segment(std::move(file), nullptr, ticket, ::getpid()));
    if (::ftruncate(segment->file_.number(), static_cast<off_t>(bytes)) != 0) {
        return segment_failure("set the size of", ticket.name);
    }
    TRY(segment->reserve(0, header_bytes, "a header"));
    auto memory = TRY(map(segment->file_, bytes, ticket.name));
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
    FileDescriptor file(::shm_open(own.name, O_RDWR, 0));
    if (!file) return segment_failure("attach", own.name);
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) return segment_failure("look at", own.name);
    if (status.st_size != static_cast<off_t>(own.bytes) || own.bytes < header_bytes) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: /dev/shm{} is another process's: it has {} bytes "
                                "where {} were expected",
                                own.name, status.st_size, own.bytes));
    }
    auto memory = TRY(map(file, own.bytes, own.name));
    std::unique_ptr<Segment> segment(new Segment(std::move(file), memory, own, 0));
    Header header{};
    std::memcpy(&header, segment->memory_, sizeof header);
    if (!std::equal(std::begin(magic), std::end(magic), header.magic) ||
        header.nonce != own.nonce) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: /dev/shm{} is another process's: its nonce is not "
                                "the expected one",
                                own.name));
    }
    return segment;
}

Segment::~Segment() {
    unlink();
    if (is_abandoned(ticket_.name)) ::shm_unlink(ticket_.name);
    if (memory_ != nullptr) ::munmap(memory_, ticket_.bytes);
}

void Segment::unlink() {
    // A forked child has a copy of this object, but must not remove the name while its parent uses
    // it.
    if (creator_ != 0 && creator_ == ::getpid()) ::shm_unlink(ticket_.name);
    creator_ = 0;
}

Done Segment::reserve(std::uint64_t offset, std::uint64_t bytes, std::string_view purpose) {
    return reserve_space(file_.number(), offset, bytes, purpose);
}

Done Segment::lock(int byte) {
    struct flock request {};
    request.l_type = F_WRLCK;
    request.l_whence = SEEK_SET;
    request.l_start = byte;
    request.l_len = 1;
    if (::fcntl(file_.number(), F_SETLK, &request) != 0) {
        return segment_failure("lock a byte of", ticket_.name);
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
