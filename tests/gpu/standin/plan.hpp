// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace standin {

// What the stand-in is to do in this run: its seed and delays, how many devices there are, and
// which calls go wrong. It comes from BATCHAI_STANDIN, from the first line of the file FILE if that
// is "@FILE", or from batchai_standin_configure(), as words that are separated by spaces:
//
//   seed=N           where the random delays begin (1)
//   delay=US         the longest delay of a stream or of a background job (100)
//   devices=N        (1), of which CUDA_VISIBLE_DEVICES shows as many as it has entries
//   nccl=N           the version that NCCL reports (22809)
//   slots=N          how many NCCL kernels a device runs at once (1)
//   idle=0           allocating, freeing, pinning and loading do not wait for the device
//   slow=DEVICE      each copy to or from this device takes 50 ms longer, or ten times as long
//   far=DEVICE       so does each direct copy between this device and another
//   garbles=DEVICE   what another device copies directly to this one arrives changed
//   spoils=DEVICE    what a collective of NCCL writes to this device has a wrong bit
//   apart=DEVICE     each collective of NCCL takes 500 ms longer on this device
//   peers=0          no device can reach the memory of another one
//   notice=1         a peer that has aborted, or whose process is gone, is a remote error
//   fail=CALL:N:CODE the Nth call of this entry point returns the code and does nothing
//   late=CALL:N:CODE the Nth call of an entry point of NCCL fails with the code in the background
//   hang=CALL:N      the same call of NCCL: its background job never ends, unless the communicator
//                    is aborted; a call of CUDA never returns
//
// Calls are counted from the latest configuration on.
class Plan {
  public:
    static Plan& get();

    // Replaces the whole plan. Ends the process with a message if the text is not understood.
    void configure(std::string_view text);

    enum class How { well, fails, fails_later, hangs };
    struct Fate {
        How how = How::well;
        int code = 0;
    };
    // Counts the call and says how it goes.
    Fate enter(const char* call);
    // For calls that only fail at once: 0, or the code.
    int code_of(const char* call);

    [[nodiscard]] long count(const std::string& call);
    [[nodiscard]] long setting(const std::string& name);

    // Sleeps for a random time: mostly for none, sometimes for long.
    void pause(std::uint64_t whose, std::uint64_t step);

  private:
    Plan();
    void add_rule(How how, std::string_view text);

    struct Rule {
        How how = How::well;
        std::string call;
        long number = 0;
        int code = 0;
    };

    std::mutex mutex_;
    std::map<std::string, long> settings_;
    std::vector<Rule> rules_;
    std::map<std::string, long> counts_;
};

// Ends the process with a message: the program has broken a rule of CUDA or NCCL in a way that the
// real library would answer with anything at all.
[[noreturn]] void misuse(const std::string& what);

}  // namespace standin

extern "C" {
// For tests, which find these by name.
void batchai_standin_configure(const char* text);
long batchai_standin_count(const char* call);
}
