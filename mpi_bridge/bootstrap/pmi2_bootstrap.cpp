// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/pmi2_session.hpp"
#include "core/log.hpp"
#include "core/settle.hpp"

namespace mpi_bridge {
namespace {

constexpr Seconds longest_pmi2_abort{2};

// One use of the session. Keys cannot be withdrawn, so the keys of each use carry its number.
class Pmi2Bootstrap final : public Bootstrap {
  public:
    Pmi2Bootstrap(Pmi2Session& session, unsigned use) : session_(&session), use_(use) {}

    [[nodiscard]] const Topology& topology() const override { return session_->topology(); }

    [[nodiscard]] Done publish(const std::string& key, std::span<const std::byte> value,
                               Deadline deadline, const std::function<bool()>& given_up) override {
        const auto pieces = pmi2::pieces_of(value);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const std::string name = TRY(name_of(key, topology().rank, i));
            TRY(session_->ask("kvs-put", {{"key", name}, {"value", pieces[i]}}, deadline));
        }
        const auto start = Clock::now();
        // PMI-2's fence goes another way than PMIx's, through srun. Nobody has seen it lose a
        // message, nor tried often enough to do without this.
        if (topology().local_size < topology().size) let_slurm_settle(before_fence);
        auto met = session_->ask("kvs-fence", {}, deadline, given_up);
        if (!met) {
            met.error().text = "rank " + std::to_string(topology().rank) + ": waiting for all " +
                               std::to_string(topology().size) +
                               " ranks of the step: " + met.error().text;
        }
        TRY(std::move(met));
        log_time("exchanging addresses with all ranks", start);
        return {};
    }

    [[nodiscard]] Outcome<std::vector<std::byte>> fetch(
        const std::string& key, int rank, Deadline deadline,
        const std::function<bool()>& given_up) override {
        std::vector<std::string> pieces{TRY(get(key, rank, 0, deadline, given_up))};
        const std::size_t count = TRY(pmi2::pieces_after(pieces.front()));
        while (pieces.size() < count)
            pieces.push_back(TRY(get(key, rank, pieces.size(), deadline, given_up)));
        return pmi2::bytes_of(pieces);
    }

    void abort(int code, const std::string& /*message*/) override {
        (void)session_->tell("abort", {{"isworld", "TRUE"}, {"code", std::to_string(code)}},
                             Deadline::in(longest_pmi2_abort));
    }

  private:
    [[nodiscard]] Outcome<std::string> name_of(const std::string& key, int rank,
                                               std::size_t piece) const {
        std::string name = "mpib." + key + "." + std::to_string(use_) + "." + std::to_string(rank) +
                           "." + std::to_string(piece);
        if (name.size() < pmi2::longest_key) return name;
        return fail(MPIB_ERROR_INTERNAL, "the key " + name + " is too long for PMI-2");
    }

    [[nodiscard]] Outcome<std::string> get(const std::string& key, int rank, std::size_t piece,
                                           Deadline deadline,
                                           const std::function<bool()>& given_up) {
        const std::string name = TRY(name_of(key, rank, piece));
        const auto answer = TRY(session_->ask("kvs-get", {{"key", name}}, deadline, given_up));
        if (answer.value("found") == "TRUE") return std::string(answer.value("value"));
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "rank " + std::to_string(rank) + " has published no " + key);
    }

    Pmi2Session* session_;
    unsigned use_;
};

}  // namespace

Outcome<std::unique_ptr<Bootstrap>> connect_pmi2(int socket, Deadline deadline) {
    static std::atomic<unsigned> uses{0};
    auto* const session = TRY(Pmi2Session::open(socket, deadline));
    return std::make_unique<Pmi2Bootstrap>(*session, uses++);
}

}  // namespace mpi_bridge
