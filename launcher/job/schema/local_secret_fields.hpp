// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "job/schema/field_binding.hpp"

// The two keys that stand beside a secret and its reference to a key vault. Batch AI does not have
// them.
namespace batchai::job {

template <auto Pointer>
constexpr Field from_env(Group group, std::string_view label) {
    return text<Pointer>("fromEnv",
                         "Variable of the submitting shell that holds it, instead of the secret "
                         "itself. The job does not get that variable",
                         R"("MY_TOKEN")")
        .checked(Check::secret_variable)
        .in_group(group, label)
        .own_extension();
}

template <auto Pointer>
constexpr Field from_file(Group group, std::string_view label) {
    return text<Pointer>(
               "fromFile",
               "File that holds it, which only you can read, instead of the secret itself",
               R"("~/keys/token")")
        .checked(Check::secret_file)
        .in_group(group, label)
        .own_extension();
}

}  // namespace batchai::job
