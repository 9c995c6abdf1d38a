// SPDX-License-Identifier: GPL-2.0-or-later
#include "requests.hpp"

#include <sstream>
#include <stdexcept>

namespace bench {

Requests::Requests(const std::string& folder, int rank) {
    const std::string path = folder + "/" + std::to_string(rank);
    pipe_.open(path);
    if (!pipe_) throw std::runtime_error(path + " cannot be read");
}

std::optional<Request> Requests::next() {
    if (!pipe_.is_open()) {
        if (taken_ == given_.size()) return std::nullopt;
        return given_[taken_++];
    }
    std::string line;
    if (!std::getline(pipe_, line)) return std::nullopt;
    std::istringstream words(line);
    std::string name;
    std::string how;
    double seconds = 0;
    Request request;
    if (!(words >> name >> request.bytes >> seconds >> how))
        throw std::runtime_error("\"" + line + "\" is not a request");
    request.collective = collective_named(name);
    request.budget = std::chrono::duration<double>(seconds);
    request.checked = how == "check";
    return request;
}

}  // namespace bench
