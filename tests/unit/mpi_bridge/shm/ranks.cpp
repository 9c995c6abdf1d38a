// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <latch>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mpi_bridge_test {
namespace {

using mpi_bridge::NodeStage;
using mpi_bridge::SharedHeap;

constexpr std::uint64_t heap_capacity = 1UL << 30;

// Where processes leave what the test's process has to know.
struct Board {
    std::atomic<std::size_t> ticket_length{0};
    std::byte ticket[256];
    struct Answer {
        char text[1000];
    } answers[NodeStage::most_ranks];
};

class SharedBoard {
  public:
    SharedBoard() {
        void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        board_ = new (memory) Board;
    }
    ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
    SharedBoard(const SharedBoard&) = delete;
    SharedBoard& operator=(const SharedBoard&) = delete;
    Board* operator->() const { return board_; }

  private:
    Board* board_;
};

std::unique_ptr<SharedHeap> make_heap(const Group& group) {
    if (!group.with_heaps) return nullptr;
    auto heap = SharedHeap::create(heap_capacity);
    if (!heap) throw std::runtime_error(heap.error().text);
    return std::move(*heap);
}

std::string run_process(const Group& group, const Body& body, int rank, Board& board) {
    const auto heap = make_heap(group);
    auto options = group.options;
    options.rank = rank;
    options.size = group.ranks;
    options.heap = heap.get();
    std::unique_ptr<NodeStage> stage;
    if (rank == 0) {
        auto made = NodeStage::create(options);
        if (!made) return made.error().text;
        stage = std::move(*made);
        const auto ticket = stage->ticket();
        std::copy(ticket.begin(), ticket.end(), board.ticket);
        board.ticket_length = ticket.size();
    } else {
        while (board.ticket_length == 0)
            ::usleep(100);
        auto made = NodeStage::attach(options, {board.ticket, board.ticket_length});
        if (!made) return made.error().text;
        stage = std::move(*made);
    }
    Member member{*stage, heap.get(), [&stage] { stage.reset(); }};
    return body(member);
}

// Starts body() in a child that ends without running the test's own exit handlers.
pid_t start(const std::function<std::string()>& body, Board::Answer& answer) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(60);
    std::string text;
    try {
        text = body();
    } catch (const std::exception& error) {
        text = std::string("exception: ") + error.what();
    }
    text.copy(answer.text, sizeof answer.text - 1);
    std::_Exit(0);
}

std::string result_of(pid_t child, const Board::Answer& answer) {
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return "no process";
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    if (status != 0) return "exit " + std::to_string(WEXITSTATUS(status));
    return answer.text;
}

}  // namespace

std::vector<std::string> in_processes(const Group& group, const Body& body) {
    const SharedBoard board;
    std::vector<pid_t> children;
    for (int rank = 0; rank < group.ranks; ++rank) {
        const auto run = [&, rank] { return run_process(group, body, rank, *board.operator->()); };
        children.push_back(start(run, board->answers[rank]));
    }
    std::vector<std::string> results;
    for (int rank = 0; rank < group.ranks; ++rank) {
        results.push_back(
            result_of(children[static_cast<std::size_t>(rank)], board->answers[rank]));
    }
    for (const pid_t child : children) {
        for (const auto& name : segments_of(child))
            results[0] += "; left behind: " + name;
    }
    return results;
}

std::vector<std::string> in_threads(const Group& group, const Body& body) {
    const auto heap = make_heap(group);
    auto options = group.options;
    options.size = group.ranks;
    options.heap = heap.get();
    auto creator = NodeStage::create(options);
    if (!creator) return {creator.error().text};
    std::vector<std::unique_ptr<NodeStage>> stages;
    stages.push_back(std::move(*creator));
    for (options.rank = 1; options.rank < group.ranks; ++options.rank) {
        auto stage = NodeStage::join(options, *stages[0]);
        if (!stage) return {stage.error().text};
        stages.push_back(std::move(*stage));
    }
    std::vector<std::string> results(stages.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < stages.size(); ++rank) {
        threads.emplace_back([&, rank] {
            Member member{*stages[rank], heap.get(), [&, rank] { stages[rank].reset(); }};
            results[rank] = body(member);
        });
    }
    for (auto& thread : threads)
        thread.join();
    return results;
}

std::string in_child(const std::function<std::string()>& body) {
    const SharedBoard board;
    return result_of(start(body, board->answers[0]), board->answers[0]);
}

std::vector<std::string> segments_of(pid_t process) {
    const auto prefix =
        "mpi_bridge." + std::to_string(::getuid()) + "." + std::to_string(process) + ".";
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        if (entry.path().filename().string().starts_with(prefix)) {
            found.push_back(entry.path().string());
        }
    }
    return found;
}

}  // namespace mpi_bridge_test
