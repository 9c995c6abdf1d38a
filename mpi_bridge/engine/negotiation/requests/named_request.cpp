// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/requests/named_request.hpp"

#include <cstring>
#include <string_view>

#include "reduce/datatypes.hpp"

namespace mpi_bridge {
namespace {

class Writer {
  public:
    template <typename T>
    void number(T value) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    }
    void text(std::string_view value) {
        number<std::uint32_t>(static_cast<std::uint32_t>(value.size()));
        const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
        bytes_.insert(bytes_.end(), bytes, bytes + value.size());
    }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

// Reads zeros once the bytes have run out; complete() is false then.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    T number() {
        T value{};
        if (const auto from = next(sizeof value); !from.empty())
            std::memcpy(&value, from.data(), sizeof value);
        return value;
    }
    std::string text() {
        const auto from = next(number<std::uint32_t>());
        return {reinterpret_cast<const char*>(from.data()), from.size()};
    }
    [[nodiscard]] bool at_end() const { return bytes_.empty() || short_; }
    [[nodiscard]] bool complete() const { return bytes_.empty() && !short_; }
    // Whether the rest is long enough for that many items of at least `each` bytes.
    [[nodiscard]] bool has(std::size_t items, std::size_t each) const {
        return !short_ && items <= bytes_.size() / each;
    }
    void spoil() { short_ = true; }

  private:
    std::span<const std::byte> next(std::size_t length) {
        if (short_ || length > bytes_.size()) {
            short_ = true;
            return {};
        }
        const auto part = bytes_.first(length);
        bytes_ = bytes_.subspan(length);
        return part;
    }

    std::span<const std::byte> bytes_;
    bool short_ = false;
};

NamedRequest read_one(Reader& reader) {
    NamedRequest one;
    one.name = reader.text();
    Descriptor& what = one.descriptor;
    what.kind = static_cast<Kind>(reader.number<std::uint8_t>());
    const auto datatype = reader.number<std::uint8_t>();
    const auto op = reader.number<std::uint8_t>();
    what.device = reader.number<std::uint8_t>() != 0;
    if (what.kind > Kind::remove_process_set || find_datatype(datatype) == nullptr ||
        op > MPIB_OR) {
        reader.spoil();
        return one;
    }
    what.datatype = static_cast<mpib_datatype>(datatype);
    what.op = static_cast<mpib_op>(op);
    what.root = reader.number<std::int32_t>();
    what.prescale = reader.number<double>();
    what.postscale = reader.number<double>();
    what.group_size = reader.number<std::int32_t>();
    what.group = reader.text();
    const auto dimensions = reader.number<std::uint32_t>();
    if (!reader.has(dimensions, sizeof(std::int64_t))) {
        reader.spoil();
        return one;
    }
    for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension)
        what.shape.push_back(reader.number<std::int64_t>());
    return one;
}

}  // namespace

std::vector<std::byte> encode(std::span<const NamedRequest> requests) {
    Writer writer;
    for (const auto& [name, what] : requests) {
        writer.text(name);
        writer.number(static_cast<std::uint8_t>(what.kind));
        writer.number(static_cast<std::uint8_t>(what.datatype));
        writer.number(static_cast<std::uint8_t>(what.op));
        writer.number(static_cast<std::uint8_t>(what.device ? 1 : 0));
        writer.number(static_cast<std::int32_t>(what.root));
        writer.number(what.prescale);
        writer.number(what.postscale);
        writer.number(static_cast<std::int32_t>(what.group_size));
        writer.text(what.group);
        writer.number(static_cast<std::uint32_t>(what.shape.size()));
        for (const std::int64_t length : what.shape)
            writer.number(length);
    }
    return writer.take();
}

Outcome<std::vector<NamedRequest>> decode(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    std::vector<NamedRequest> requests;
    while (!reader.at_end())
        requests.push_back(read_one(reader));
    if (!reader.complete()) {
        return fail(MPIB_ERROR_INTERNAL,
                    "what another rank announced cannot be read; do all ranks run the same "
                    "version of mpi_bridge");
    }
    return requests;
}

std::uint64_t digest_of(std::span<const std::byte> bytes) {
    std::uint64_t digest = 0xcbf29ce484222325U;
    for (const std::byte byte : bytes)
        digest = (digest ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
    return digest;
}

}  // namespace mpi_bridge
