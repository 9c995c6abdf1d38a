// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

// Of a file in which containerSettings stand on a line of their own.
Made with_container(std::string_view settings, const site::Site& site = {}) {
    return planned(small_job(fmt::format(",\n\"containerSettings\": {{{}}}", settings)), site);
}

Made with_registry(std::string_view registry, const site::Site& site = {}) {
    return with_container(fmt::format("\"imageSourceRegistry\": {{{}}}", registry), site);
}

TEST(Container, AWrongImageIsAFaultAtItsPlaceInTheFile) {
    const auto made = with_registry(R"("image": "nvcr.io#nvidia/x:1")");
    ASSERT_FALSE(made.plan);
    const auto& fault = made.diagnostics.back();
    EXPECT_EQ(fault.code, "E114");
    EXPECT_THAT(fault.message, HasSubstr("enroot"));
    EXPECT_EQ(fault.hint, "write \"nvcr.io/nvidia/x:1\"");
    EXPECT_EQ(fault.position.line, 3);
    EXPECT_GT(fault.position.column, 40);
}

TEST(Container, AServerThatContradictsTheImageIsItsOwnFault) {
    const auto made = with_registry(R"("serverUrl": "quay.io", "image": "nvcr.io/x")");
    EXPECT_THAT(faults(made), HasSubstr("E114 \"serverUrl\" names the registry quay.io"));
    EXPECT_THAT(faults(with_registry(R"("serverUrl": "quay.io", "image": "x")")),
                Not(HasSubstr("E114")));
}

TEST(Container, ARegistryWithoutEncryptionNeedsTheAdminsWord) {
    constexpr std::string_view settings = R"("serverUrl": "http://reg:5000", "image": "x")";
    EXPECT_THAT(faults(with_registry(settings)), HasSubstr("E114 reg:5000 would be asked without"));
    site::Site site;
    site.insecure_registries = {"reg:5000"};
    EXPECT_THAT(faults(with_registry(settings, site)), Not(HasSubstr("E114")));
}

TEST(Container, APasswordInAKeyVaultIsNotSupported) {
    const auto made = with_registry(R"("image": "x", "credentials": {"username": "me",
        "passwordSecretReference": {"sourceVault": {"id": "v"}, "secretUrl": "https://v/s"}})");
    EXPECT_THAT(faults(made), HasSubstr("E112 the registry's password is in a key vault"));
}

}  // namespace
}  // namespace batchai::plan
