// SPDX-License-Identifier: GPL-2.0-or-later
// The phase that brings the container's image, with the real cache of images.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "image/cache.hpp"
#include "image/lease.hpp"
#include "image/resolve.hpp"

namespace batchai::run {

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ImagePhase : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        plan_.container.emplace().image = "debian";
        make_private_directory(path("cache"));
    }

    static void make_private_directory(const std::string& directory) {
        fs::create_directories(directory);
        fs::permissions(directory, fs::perms::owner_all);
    }

    // An image of the cache with this digit in all places of its digest.
    void want_from_cache(char digit) {
        plan_.container->digest = "sha256:" + std::string(64, digit);
        plan_.container->root = image::entry_path(path("cache"), plan_.container->digest);
    }
    std::string put_in_cache(char digit) {
        const std::string digits(64, digit);
        append("cache/" + digits + ".squashfs", "root file system");
        return image::entry_path(path("cache"), "sha256:" + digits);
    }
    // The right to import that image, which another process would have.
    [[nodiscard]] image::Lease held_import(char digit) const {
        make_private_directory(path("cache/.import"));
        image::LeaseSeeker seeker(path("cache/.import/" + std::string(64, digit) + ".lock"));
        auto lease = seeker.attempt();
        EXPECT_TRUE(lease && *lease);
        return std::move(lease.value().value());
    }

    [[nodiscard]] std::string log() const { return text_of("logs/execution-n1.invalid.log"); }

    // The end of a job whose image cannot be had: no step has run, and the record has the reason.
    void expect_no_image(const std::string& reason) {
        EXPECT_EQ(attempt(), 1);
        EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 1"));
        EXPECT_THAT(steps_.requests, IsEmpty());
        EXPECT_EQ(record_.ended_by, record::EndedBy::start);
        ASSERT_TRUE(record_.failure);
        EXPECT_EQ(record_.failure->code, "FailedStartingContainer");
        EXPECT_EQ(record_.failure->message, "unable to start docker container debian");
        EXPECT_EQ(record_.failure->phase, "image");
        EXPECT_EQ(record_.failure->node, "n1.invalid");
        EXPECT_THAT(record_.failure->first_error_line, HasSubstr(reason));
        EXPECT_THAT(record_.failure->first_error_line, Not(HasSubstr("\n")));
        EXPECT_THAT(log(), HasSubstr("the image is not available: "));
        EXPECT_THAT(log(), HasSubstr(reason));
    }
};

}  // namespace

TEST_F(ImagePhase, ComesBeforeAllSteps) {
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    want_from_cache('a');
    put_in_cache('a');
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "image 0", "preparation 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(log(), HasSubstr("the image debian is there\n"));
}

// Breaks when nobody says that the image's own PMIx library does not fit.
TEST_F(ImagePhase, IsFollowedByTheCheckOfTheWiringWhateverTheRanksTell) {
    want_from_cache('a');
    put_in_cache('a');
    plan_.steps[0].tells_bad_wiring = true;
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 0", "wire-up 0", "ranks 0"));
}

TEST_F(ImagePhase, AFileThatIsGoneEndsTheJob) {
    plan_.container->root = path("gone.sqsh");
    expect_no_image("gone.sqsh: cannot be read here");
}

TEST_F(ImagePhase, AnImageThatOthersCouldHaveChangedEndsTheJob) {
    want_from_cache('a');
    fs::permissions(put_in_cache('a'), fs::perms::others_write, fs::perm_options::add);
    expect_no_image(plan_.container->root);
}

// Nobody listens on that port, so skopeo says so at once.
TEST_F(ImagePhase, ARegistryThatDoesNotAnswerEndsTheJob) {
    want_from_cache('a');
    plan_.container->source = "docker://127.0.0.1:1/debian@" + plan_.container->digest;
    expect_no_image("cannot be reached from this host");
    EXPECT_FALSE(fs::exists(plan_.container->root));
    EXPECT_TRUE(fs::is_empty(path("cache/.import")));
}

TEST_F(ImagePhase, AnImportByAnotherProcessIsWaitedFor) {
    want_from_cache('a');
    const auto lease = held_import('a');
    steps_.while_waiting = [this]() -> std::optional<int> {
        EXPECT_THAT(steps_.requests, IsEmpty());
        put_in_cache('a');
        return std::nullopt;
    };
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(log(), HasSubstr("the image debian was imported by another process\n"));
}

TEST_F(ImagePhase, TermWhileItWaitsIsNoFailureOfTheImage) {
    want_from_cache('a');
    const auto lease = held_import('a');
    int looks = 0;
    // A signal is told only once.
    steps_.while_waiting = [&] { return ++looks == 1 ? std::optional(SIGTERM) : std::nullopt; };
    EXPECT_EQ(attempt(), 128 + SIGTERM);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 143"));
    EXPECT_EQ(record_.ended_by, record::EndedBy::user);
    EXPECT_EQ(record_.failure->code, "JobTerminated");
    EXPECT_EQ(record_.failure->signal, SIGTERM);
    EXPECT_THAT(steps_.requests, IsEmpty());

    looks = 0;
    outside_.why = record::EndedBy::time_limit;
    EXPECT_EQ(attempt(), 128 + SIGTERM);
    EXPECT_EQ(record_.ended_by, record::EndedBy::time_limit);
    EXPECT_EQ(record_.failure->code, "JobTimedOut");
}

// With the real tools, from a layout that is made here.
TEST_F(ImagePhase, AnImportKeepsTheCacheWithinItsLimit) {
    for (const base::Arguments& arguments :
         {base::Arguments{"umoci", "init", "--layout", path("layout")},
          base::Arguments{"umoci", "new", "--image", path("layout") + ":x"}}) {
        const auto made = base::run(arguments, {});
        ASSERT_TRUE(made) << made.error().text();
        ASSERT_EQ(made->exit_code, 0) << made->standard_error;
    }
    const auto reference = image::parse("oci:" + path("layout") + ":x");
    ASSERT_TRUE(reference);
    auto image = image::resolve(*reference, "debian", {path("cache"), "", 0}, {}, {});
    ASSERT_TRUE(image) << image.error().text();
    static_cast<image::FrozenImage&>(plan_.container.emplace()) = std::move(image->frozen);
    plan_.container->cache_limit = 1;
    const std::string unused = put_in_cache('a');
    const std::string in_use = put_in_cache('b');
    options_.images_in_use = [] { return std::set<std::string>{"sha256:" + std::string(64, 'b')}; };
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(log(), HasSubstr("the image debian is imported\n"));
    EXPECT_TRUE(fs::exists(plan_.container->root));
    EXPECT_FALSE(fs::exists(unused));
    EXPECT_TRUE(fs::exists(in_use));
}

}  // namespace batchai::run
