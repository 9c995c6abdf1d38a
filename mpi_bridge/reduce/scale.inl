// SPDX-License-Identifier: Apache-2.0
//
// elements *= factor. Included by kernels.inl.

// The type in which an element meets the factor.
template <typename Element>
using FactorOf = std::conditional_t<
    std::is_integral_v<Element>, double,
    std::conditional_t<std::is_floating_point_v<Element>, Element, float>>;

template <typename Element>
struct Scale {
    using Factor = FactorOf<Element>;
    // Only AVX-512 converts between 64-bit integers and doubles.
    static constexpr bool alone = std::is_integral_v<Element> && sizeof(Element) == 8;
    static constexpr std::size_t width = alone ? 1 : vector_bytes / sizeof(Factor);

    static void scale(void* elements, std::size_t count, double factor) {
        // Also keeps 64-bit integers that no double holds.
        if (factor == 1.0) return;
        auto* at = static_cast<unsigned char*>(elements);
        const auto narrowed = static_cast<Factor>(factor);
        std::size_t i = 0;
        for (; i + width <= count; i += width)
            step<width>(at + i * sizeof(Element), narrowed);
        if constexpr (width > 1) {
            for (; i < count; ++i)
                step<1>(at + i * sizeof(Element), narrowed);
        }
    }

  private:
    template <std::size_t N>
    [[gnu::always_inline]] static void step(unsigned char* at, Factor factor) {
        using Conversion = Convert<Element, Factor, N>;
        const auto value = Conversion::widen(at) * factor;
        if constexpr (std::is_integral_v<Element>) {
            write(at, truncate<N>(value));
        } else {
            Conversion::narrow(at, value);
        }
    }

    // Toward zero; what does not fit becomes the nearest that does, and NaN becomes zero.
    template <std::size_t N>
    [[gnu::always_inline]] static Lanes<Element, N> truncate(Lanes<double, N> value) {
        constexpr auto least =
            std::is_signed_v<Element>
                ? static_cast<Element>(std::uint64_t{1} << (sizeof(Element) * 8 - 1))
                : Element{0};
        constexpr auto most = static_cast<Element>(~least);
        const auto number = value == value ? value : 0 * Lanes<double, N>{};
        if constexpr (alone) {
            constexpr double limit = 0x1p63;
            if (number >= limit) return most;
            return number < -limit ? least : static_cast<Element>(number);
        } else {
            const auto least_number = static_cast<double>(least) + Lanes<double, N>{};
            const auto most_number = static_cast<double>(most) + Lanes<double, N>{};
            const auto low = number < least_number ? least_number : number;
            const auto clamped = low > most_number ? most_number : low;
            // Every one of these types fits in 32 signed bits.
            return convert<Element, N>(convert<std::int32_t, N>(clamped));
        }
    }
};
