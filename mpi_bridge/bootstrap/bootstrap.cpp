// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/bootstrap.hpp"

#include <map>

#include "bootstrap/launch.hpp"
#include "core/log.hpp"

namespace mpi_bridge {
namespace {

class AloneBootstrap final : public Bootstrap {
  public:
    [[nodiscard]] const Topology& topology() const override { return topology_; }

    [[nodiscard]] Done publish(const std::string& key, std::span<const std::byte> value,
                               Deadline /*deadline*/,
                               const std::function<bool()>& /*given_up*/) override {
        published_[key].assign(value.begin(), value.end());
        return {};
    }

    [[nodiscard]] Outcome<std::vector<std::byte>> fetch(
        const std::string& key, int rank, Deadline /*deadline*/,
        const std::function<bool()>& /*given_up*/) override {
        const auto found = published_.find(key);
        if (rank != 0 || found == published_.end()) {
            return fail(MPIB_ERROR_BOOTSTRAP,
                        "rank " + std::to_string(rank) + " published no " + key);
        }
        return found->second;
    }

    void abort(int /*code*/, const std::string& /*message*/) override {}

  private:
    Topology topology_;
    std::map<std::string, std::vector<std::byte>> published_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_alone_bootstrap() {
    return std::make_unique<AloneBootstrap>();
}

Outcome<std::unique_ptr<Bootstrap>> connect(Deadline deadline) {
    const auto launch = TRY(detect_launch(process_environment));
    if (launch == Launch::pmix) return connect_pmix(deadline);
    if (launch == Launch::pmi2) {
        return connect_pmi2(pmi2_socket(process_environment).value_or(-1), deadline);
    }
    if (const auto note = alone_among_idle_tasks(process_environment); !note.empty()) {
        log(LogLevel::warning, note);
    }
    return make_alone_bootstrap();
}

}  // namespace mpi_bridge
