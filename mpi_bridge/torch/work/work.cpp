// SPDX-License-Identifier: Apache-2.0
#include "work/work.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "python.hpp"
#include "streams.hpp"
#include "work/completer.hpp"
#include "work/threads.hpp"

namespace mpi_bridge::torch {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_until(Clock::time_point time) {
    return std::max(std::chrono::duration<double>(time - Clock::now()).count(), 0.001);
}

Clock::time_point after(double seconds) {
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Waits for the lock, and lets Python's main thread react to signals meanwhile. Another thread
/// that has it may wait for other ranks.
std::unique_lock<std::timed_mutex> lock_until(std::timed_mutex& mutex, Clock::time_point deadline) {
    constexpr std::chrono::milliseconds between_looks{500};
    std::unique_lock lock(mutex, std::try_to_lock);
    while (!lock && Clock::now() < deadline) {
        if (lock.try_lock_until(std::min(deadline, Clock::now() + between_looks))) {
            break;
        }
        python::check_signals();
    }
    return lock;
}

std::exception_ptr for_future(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& known) {
        return std::make_exception_ptr(
            std::runtime_error(python::class_name(known.status()) + ": " + known.what()));
    } catch (const std::exception& other) {
        return std::make_exception_ptr(std::runtime_error(other.what()));
    }
}

c10::TypePtr type_of_results() {
    return c10::ListType::create(c10::TensorType::get());
}

class DoneWork final : public c10d::Work {
  public:
    bool wait(std::chrono::milliseconds) override { return true; }
    void synchronize() override {}
    bool isCompleted() override { return true; }
    bool isSuccess() const override { return true; }
};

}  // namespace

c10::intrusive_ptr<c10d::Work> work_that_is_done() {
    return c10::make_intrusive<DoneWork>();
}

EngineWork::EngineWork(Parts parts)
    : parts_(std::move(parts)), started_by_(Completer::settling()) {}

void EngineWork::synchronize() {
    python::without_lock([&] { wait(kNoTimeout); });
}

bool EngineWork::wait(std::chrono::milliseconds timeout) {
    auto seconds = std::chrono::duration<double>(timeout).count();
    if (seconds <= 0 && parts_.limit) {
        seconds = *parts_.limit;
    }
    if (seconds > 0 && !done_) {
        wait_at_most(seconds, after(seconds));
    }
    complete();
    if (error_) {
        std::rethrow_exception(error_);
    }
    order_current_streams();
    return true;
}

/// Throws if they have not ended by then; another error is left to complete().
void EngineWork::wait_at_most(double seconds, Clock::time_point deadline) {
    std::string last;
    // Another thread that waits for them has the lock.
    if (const auto lock = lock_until(lock_, deadline); lock) {
        try {
            for (auto& each : parts_.in_flight) {
                each.wait(seconds_until(deadline));
            }
            return;
        } catch (const Error& error) {
            if (error.status() == MPIB_ERROR_INTERRUPTED) {
                throw;
            }
            if (error.status() != MPIB_ERROR_TIMEOUT) {
                return;
            }
            last = std::string(" (") + error.what() + ")";
        }
    } else if (done_) {
        return;
    }
    const auto milliseconds = std::to_string(std::llround(1000 * seconds));
    throw Error(MPIB_ERROR_TIMEOUT, "group " + parts_.group + ": Timed out waiting " +
                                        milliseconds +
                                        "ms for an operation, which goes on; a rank is late, stuck "
                                        "or did not call it" +
                                        last);
}

void EngineWork::order_current_streams() const {
    for (const auto& stream : parts_.streams) {
        make_current_wait(stream);
    }
}

void EngineWork::complete() {
    if (done_) {
        return;
    }
    std::function<void(EngineWork&)> then;
    // What may need the interpreter lock to end must not do so under lock_, for which threads wait
    // that have it.
    decltype(parts_.in_flight) released;
    decltype(parts_.finish) finished;
    {
        const std::lock_guard lock(lock_);
        if (done_) {
            return;
        }
        try {
            for (auto& each : parts_.in_flight) {
                each.wait();
            }
            order_current_streams();
            if (parts_.source) {
                source_member_ = parts_.source(parts_.in_flight.front());
            }
            for (const auto& check : parts_.checks) {
                check(parts_.in_flight);
            }
            run_finish();
        } catch (const Error& error) {
            if (error.status() == MPIB_ERROR_INTERRUPTED) {
                throw;
            }
            error_ = std::current_exception();
        } catch (const pybind11::error_already_set&) {
            throw;  // by a signal handler
        } catch (...) {
            error_ = std::current_exception();
        }
        // This also releases the names and the memory.
        for (auto& each : parts_.in_flight) {
            try {
                each.release();
            } catch (...) {
                if (!error_) {
                    error_ = std::current_exception();
                }
            }
        }
        std::swap(released, parts_.in_flight);
        std::swap(finished, parts_.finish);
        done_ = true;
        then = std::exchange(when_complete_, nullptr);
    }
    if (then) {
        then(*this);
    }
}

void EngineWork::run_finish() {
    if (parts_.finish.empty()) {
        return;
    }
    // Results may lie in memory that ends with the session.
    const auto use = use_of_session(session_);
    const at::NoGradGuard no_grad;
    for (const auto& action : parts_.finish) {
        action(parts_.in_flight);
    }
    for (auto& stream : parts_.streams) {
        // What is copied goes back to the tensors of that stream.
        make_wait_for_current(stream);
        // The copies to the results' places are in the order of this one.
        stream = current_stream(stream.device());
    }
}

bool EngineWork::leave_behind() {
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock) {
        return false;
    }
    auto any = false;
    for (auto& each : parts_.in_flight) {
        if (!each.is_message()) {
            continue;
        }
        each.leave_behind();
        any = true;
    }
    return any;
}

bool EngineWork::all_have_ended() const {
    return std::ranges::all_of(parts_.in_flight, [](const auto& each) { return each.poll(); });
}

bool EngineWork::has_ended() const {
    if (done_) {
        return true;
    }
    // A thread that has the lock waits for the operations, so they are not done.
    const std::unique_lock lock(lock_, std::try_to_lock);
    return lock && all_have_ended();
}

bool EngineWork::isCompleted() {
    if (!has_ended()) {
        return false;
    }
    complete();
    return true;
}

bool EngineWork::isSuccess() const {
    return done_ && !error_;
}

std::exception_ptr EngineWork::exception() const {
    return done_ ? error_ : nullptr;
}

c10::intrusive_ptr<c10::ivalue::Future> EngineWork::getFuture() {
    std::exception_ptr abandoned;
    {
        const std::lock_guard lock(future_lock_);
        if (future_) {
            return future_;
        }
        // Without its devices, a future would not make its reader's streams wait.
        std::vector<c10::Device> devices;
        for (const auto& stream : parts_.streams) {
            devices.push_back(stream.device());
        }
        future_ = c10::make_intrusive<c10::ivalue::Future>(type_of_results(), std::move(devices));
        if (parts_.limit) {
            future_deadline_ = after(*parts_.limit);
        }
        auto self = c10::intrusive_ptr<EngineWork>::unsafe_reclaim_from_nonowning(this);
        if (parts_.completer) {
            abandoned = parts_.completer->add(std::move(self));
        } else {
            start_thread([self = std::move(self)] { self->settle(); });
        }
    }
    if (abandoned) {
        end_future(abandoned);
    }
    return future_;
}

void EngineWork::settle() {
    try {
        settle_or_throw();
    } catch (...) {
        try {
            end_future(std::current_exception());
        } catch (...) {
            // The device has failed, and the engine says so to the next call.
        }
    }
}

void EngineWork::settle_or_throw() {
    if (future_deadline_) {
        try {
            wait_at_most(*parts_.limit, *future_deadline_);
        } catch (const Error&) {
            if (!has_ended()) {
                // They go on, for whoever waits for this object.
                end_future(std::current_exception());
                return;
            }
        }
    }
    // The future takes down which device and streams are current: these must be those that the
    // results are in the order of.
    c10::OptionalDeviceGuard device;
    if (!parts_.streams.empty()) {
        device.reset_device(parts_.streams.front().device());
    }
    const c10::MultiStreamGuard current(parts_.streams);
    complete();
    end_future(error_);
}

void EngineWork::end_future(const std::exception_ptr& error) {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        const std::lock_guard lock(future_lock_);
        if (std::exchange(future_has_ended_, true)) {
            return;
        }
        future = future_;
    }
    if (error) {
        future->setError(for_future(error));
    } else {
        future->markCompleted(c10::IValue(parts_.result));
    }
}

bool WorkOfSeveral::wait(std::chrono::milliseconds timeout) {
    for (const auto& work : works_) {
        work->wait(timeout);
    }
    return true;
}

bool WorkOfSeveral::isCompleted() {
    auto all = true;
    for (const auto& work : works_) {
        all = work->isCompleted() && all;
    }
    return all;
}

bool WorkOfSeveral::isSuccess() const {
    return std::ranges::all_of(works_, [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr WorkOfSeveral::exception() const {
    for (const auto& work : works_) {
        if (auto error = work->exception()) {
            return error;
        }
    }
    return nullptr;
}

std::vector<at::Tensor> WorkOfSeveral::result() {
    std::vector<at::Tensor> all;
    for (const auto& work : works_) {
        std::ranges::copy(work->result(), std::back_inserter(all));
    }
    return all;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkOfSeveral::getFuture() {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(type_of_results()));
    for (const auto& work : works_) {
        futures.push_back(work->getFuture());
    }
    const auto all = c10::collectAll(futures);
    return all->then(
        [results = result()](c10::ivalue::Future& done) {
            if (done.hasError()) {
                std::rethrow_exception(done.exception_ptr());
            }
            return c10::IValue(results);
        },
        type_of_results());
}

}  // namespace mpi_bridge::torch
