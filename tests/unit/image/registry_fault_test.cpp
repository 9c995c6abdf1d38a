// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/command.hpp"

namespace batchai::image {
namespace {

using base::ExitCode;
using testing::HasSubstr;

struct Case {
    const char* message;  // of skopeo
    const char* credentials;
    const char* what;
    const char* hint;
    ExitCode exit_code;
};

class RegistryFaults : public testing::TestWithParam<Case> {};

TEST_P(RegistryFaults, AreToldApart) {
    const Case& fault = GetParam();
    const std::string said =
        std::string("time=\"2026-11-21T14:43:04Z\" level=fatal msg=\"") + fault.message + "\"\n";
    const auto error = explain(said, {"reg:5000/x:1", "reg:5000", fault.credentials});
    EXPECT_EQ(error.where, "reg:5000/x:1");
    EXPECT_THAT(error.what, HasSubstr(fault.what));
    EXPECT_THAT(error.hint, HasSubstr(fault.hint));
    EXPECT_EQ(error.exit_code, fault.exit_code);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RegistryFaults,
    testing::Values(
        Case{"pinging container registry reg:5000: Get \\\"https://reg:5000/v2/\\\": dial tcp: "
             "lookup reg: no such host",
             "none", "cannot be reached from this host: dial tcp: lookup reg", "proxy",
             ExitCode::failed},
        Case{"pinging container registry reg:5000: Get \\\"https://reg:5000/v2/\\\": http: server "
             "gave HTTP response to HTTPS client",
             "none", "does not use TLS", "insecure_registries", ExitCode::failed},
        Case{"pinging container registry reg:5000: x509: certificate signed by unknown authority",
             "none", "cannot be trusted: x509: certificate signed", "certs.d/reg:5000/ca.crt",
             ExitCode::failed},
        Case{"Get \\\"https://reg:5000/v2/\\\": X509: unknown", "none",
             "cannot be trusted: X509: unknown", "certs.d/reg:5000/ca.crt", ExitCode::failed},
        Case{"reading manifest 1 in reg:5000/x: manifest unknown: manifest unknown", "none",
             "reg:5000 has no such image", "check name and tag", ExitCode::not_found},
        Case{"reading manifest 1 in reg:5000/x: StatusCode: 404, {}", "none",
             "reg:5000 has no such image", "check name and tag", ExitCode::not_found},
        Case{"reading manifest 1 in reg:5000/x: unauthorized: authentication required", "none",
             "no credentials for it were found", "docker login reg:5000", ExitCode::refused},
        Case{"reading manifest 1 in reg:5000/x: unauthorized: authentication required", "a file",
             "refuses the credentials from a file", "check user and password", ExitCode::refused},
        Case{"requested access to the resource is denied", "none", "not give the image", "name",
             ExitCode::refused},
        Case{"toomanyrequests: You have reached your pull rate limit", "none", "too many requests",
             "credentials now: none", ExitCode::failed},
        Case{"choosing image instance: no image found in manifest list for architecture amd64",
             "none", "architecture amd64", "made for this machine", ExitCode::not_found},
        Case{"open /etc/containers/policy.json: no such file or directory", "none", "policy.json",
             "containers-common", ExitCode::failed},
        Case{"something new", "none", "skopeo: something new", "", ExitCode::failed}));

TEST(RegistryFault, TheLastMessageIsTakenWithItsQuotesUndone) {
    EXPECT_EQ(last_message("time=\"t\" level=warning msg=\"a\"\n"
                           "time=\"t\" level=fatal msg=\"say \\\"b\\\" now\"\n"),
              "say \"b\" now");
    EXPECT_EQ(last_message("panic\nexit status 2"), "exit status 2");
    EXPECT_EQ(last_message(""), "");
}

}  // namespace
}  // namespace batchai::image
