// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/deadline.hpp"

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

    Waits() = default;
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
    static constexpr int places = 64;
    static constexpr int lane_bits = 2;
    static constexpr std::int64_t nobody = -1;
    static constexpr Clock::rep unknown = -1;
    [[nodiscard]] static std::int64_t packed(int rank, Lane lane);

    struct alignas(64) Place {
        std::atomic<std::int64_t> who{nobody};  // rank << lane_bits | lane
        std::atomic<std::uint32_t> serial{0};
        std::atomic<Clock::rep> since{unknown};
    };
    std::array<Place, places> places_;
};

}  // namespace mpi_bridge
