// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/deadline.hpp"
#include "core/visible_layout.hpp"

namespace mpi_bridge {

// Which ranks the threads of this process are waiting for. The observers want to know whether these
// ranks are still alive.
//
// Recording a wait costs a few nanoseconds and reads no clock: an observer finds out how long a
// wait has lasted by looking twice. Any thread may call any function.
class Waits {
  public:
    enum class Lane {
        direct,  // a blocking call of the program's
        engine,  // an operation of the engine, which reports by itself who has not submitted it
        // The negotiation by which the engine finds that out, which takes a moment if all ranks
        // take part in it. A rank may not, because it has not come to any operation yet.
        negotiation,
    };

    Waits();
    // The table must outlive this object.
    explicit Waits(WaitsTable& table) : table_(&table) {}
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;

    // Records a wait for as long as it lives. `waits` may be nullptr; otherwise it must outlive
    // this object. If there are more waits at a time than places, some are not recorded.
    class Waiting {
      public:
        // `since`: when the wait began, if this is a piece of a longer one.
        Waiting(Waits* waits, int rank, Lane lane,
                std::optional<Clock::time_point> since = std::nullopt) noexcept;
        ~Waiting();
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;

        // Says that the same wait is now for another rank.
        void go_on_for(int rank) noexcept;

      private:
        Waits* waits_;
        int place_ = -1;
        Lane lane_;
    };

    struct Blocked {
        int place = 0;
        std::uint32_t serial = 0;  // changes when another wait takes this place
        int rank = 0;
        Lane lane = Lane::direct;
        std::optional<Clock::time_point> since;
    };
    [[nodiscard]] std::vector<Blocked> now() const;

  private:
    [[nodiscard]] static std::int64_t packed(int rank, Lane lane);

    std::unique_ptr<WaitsTable> own_;
    WaitsTable* table_;
};

}  // namespace mpi_bridge
