// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "work/work.hpp"

namespace mpi_bridge::torch {

/// Works that one thread settles after the other: what callbacks of a future have started.
struct Further {
    /// The one whose future that is; none for the works of a group that no callback has started.
    c10::intrusive_ptr<EngineWork> work;
    /// The works that `work` is one of.
    std::shared_ptr<Further> among;
    std::deque<c10::intrusive_ptr<EngineWork>> works;
    bool is_open = true;  // the callbacks run, so there may be more works
    bool is_settling = false;
    bool has_thread = false;
};

/// Completes one group's futures in the order of their operations, in a thread of its own.
///
/// Each group has its own, so that operations of one group do not wait for those of another.
///
/// What is called when a future is completed runs in that thread. It may start further operations
/// and wait for their futures, as DDP's PowerSGD hook does. Another thread completes these while
/// the callbacks run. All of them are completed before the next operation of the group.
class Completer : public std::enable_shared_from_this<Completer> {
  public:
    using Work = c10::intrusive_ptr<EngineWork>;

    /// The work in whose callbacks the calling code runs, or none.
    static Work settling();

    /// The innermost work of this group in whose callbacks the calling code runs, or nullptr. The
    /// callbacks may have gone through futures of other groups.
    [[nodiscard]] EngineWork* calling() const;

    /// To be called, under the group's lock, for the operation with this number; throws if another
    /// rank may have completed the future whose callback starts it at another place of the order.
    void note_place(std::int64_t number, const std::string& group);

    /// Notes that the future of a work may be completed after the operation with this number.
    static void set_place(EngineWork& work, std::int64_t number) { work.place_ = number; }

    /// Completes the work's future when it is done. Returns an error if the group was aborted; the
    /// caller ends the future with it.
    std::exception_ptr add(Work work);

    /// Ends the threads once they have completed their operations. Waits for that, unless a
    /// callback of one of the group's futures calls this.
    void stop();

    /// Lets the threads of all groups end once they have nothing to do, also of groups that nobody
    /// has ended: a process that ends waits for them.
    static void let_all_end();

    /// Ends all futures with this error, also later ones. A thread ends when the operation that it
    /// waits for does.
    void abandon(std::exception_ptr error);

  private:
    void run();
    Work next();
    void settle_further(std::shared_ptr<Further> further);
    std::shared_ptr<Further> settle(const Work& work, const std::shared_ptr<Further>& among);
    std::shared_ptr<Further> close(std::shared_ptr<Further> further, std::vector<Work>& dropped);

    std::atomic<std::int64_t> last_place_{0};  // of the last operation that no callback has started
    // Guards the members below. Some callers have the interpreter lock, which the end of a Work may
    // need, so none may end under this one.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;
    bool is_stopping_ = false;
    bool has_thread_ = false;
    std::shared_ptr<Further> main_ = std::make_shared<Further>();  // what is left of callbacks
    std::unordered_set<EngineWork*> unsettled_;
    std::exception_ptr abandoned_;
};

}  // namespace mpi_bridge::torch
