// SPDX-License-Identifier: GPL-2.0-or-later
// The pieces of an import, and whole imports with the real tools from a layout made here.
#include "image/import.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/ensure.hpp"
#include "image/manifest.hpp"
#include "image/resolve.hpp"
#include "scratch.hpp"

namespace batchai::image {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Space, ThatIsNotThereIsSaidInNumbers) {
    const Scratch scratch;
    EXPECT_TRUE(check_space(scratch.path(), 1000, "x"));
    const auto refused = check_space(scratch.path(), std::int64_t{1} << 50, "x");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("takes about 4096.0 TiB in "));
    EXPECT_THAT(refused.error().what, HasSubstr(" are free"));
}

TEST(Config, OfAnImageIsReadInto) {
    FrozenImage frozen;
    ASSERT_TRUE(read_config(R"({"os": "linux", "config": {"Env": ["A=b=c", "=x", "B="],
        "Entrypoint": ["/e", "-x"], "WorkingDir": "/w"}})",
                            frozen));
    EXPECT_EQ(frozen.environment, (std::vector<base::Variable>{{"A", "b=c"}, {"B", ""}}));
    EXPECT_EQ(frozen.entrypoint, (std::vector<std::string>{"/e", "-x"}));
    EXPECT_EQ(frozen.working_directory, "/w");
    EXPECT_FALSE(read_config(R"({"os": "windows"})", frozen));
    EXPECT_FALSE(read_config(R"({"config": {"Env": [1, {}]}, "os": 4})", frozen).has_value());
    EXPECT_TRUE(read_config(R"({"config": {"Entrypoint": null}})", frozen));
}

TEST(Tree, WithClosedDirectoriesAndLinksOutIsMadeReadable) {
    const Scratch scratch;
    scratch.write("outside/kept", "x");
    scratch.write("tree/closed/file", "x");
    fs::create_directory_symlink(scratch / "outside", scratch / "tree/link");
    chmod((scratch / "tree/closed/file").c_str(), 0);
    chmod((scratch / "tree/closed").c_str(), 0);
    ASSERT_TRUE(make_readable(scratch / "tree", {}));
    struct stat status {};
    ASSERT_EQ(stat((scratch / "tree/closed/file").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0400U);
    ASSERT_EQ(stat((scratch / "outside").c_str(), &status), 0);
    EXPECT_EQ(size_of_tree(scratch / "tree"), 1);
}

// A layout of one image with one file.
class Importing : public testing::Test {
  protected:
    void SetUp() override { make_image("one"); }

    void make_image(const std::string& content) {
        const std::string file = scratch.write("content-" + content, content);
        const std::string layout = scratch / "layout";
        if (!fs::exists(layout)) {
            ASSERT_TRUE(tool({"umoci", "init", "--layout", layout}));
        }
        ASSERT_TRUE(tool({"umoci", "new", "--image", layout + ":x"}));
        ASSERT_TRUE(tool(
            {"umoci", "insert", "--rootless", "--image", layout + ":x", file, "/etc/content"}));
    }

    static bool tool(base::Arguments arguments) {
        const auto done = run({std::move(arguments), std::chrono::seconds(20)}, {});
        if (done && done->exit_code == 0) return true;
        ADD_FAILURE() << (done ? done->standard_error : done.error().text());
        return false;
    }

    [[nodiscard]] FrozenImage resolved() const {
        const auto reference = parse("oci:" + scratch.path() + "/layout:x").value();
        return resolve(reference, "x", {scratch.path() + "/cache", "", 0}, Access{}, {})
            .value()
            .frozen;
    }

    // The processor's name in manifests.
    static std::string machine() {
        utsname name{};
        uname(&name);
        return std::string(name.machine) == "x86_64" ? "amd64" : "arm64";
    }

    [[nodiscard]] bool nothing_is_left() const {
        return fs::is_empty(scratch.path() + "/cache/.import");
    }

    Scratch scratch;
};

TEST_F(Importing, MakesTheEntryOnceAndThenFindsIt) {
    const auto frozen = resolved();
    std::vector<Stage> stages;
    EnsureOptions options;
    options.show = [&](const Progress& progress) {
        if (stages.empty() || stages.back() != progress.stage) stages.push_back(progress.stage);
    };
    ASSERT_EQ(ensure(frozen, Access{}, options).value(), Ensured::imported);
    EXPECT_EQ(stages, (std::vector{Stage::pulling, Stage::unpacking, Stage::packing}));
    EXPECT_TRUE(nothing_is_left());
    const auto found = entries(scratch / "cache", false).value();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].image, "x");
    EXPECT_EQ(found[0].digest, frozen.digest);
    EXPECT_EQ(found[0].path, frozen.root);
    stages.clear();
    EXPECT_EQ(ensure(frozen, Access{}, options).value(), Ensured::was_there);
    EXPECT_TRUE(stages.empty());
}

// Breaks when a complete image is replaced, which nodes may have mounted from a file server.
TEST_F(Importing, LeavesTheEntryThatAnotherProcessHasMadeMeanwhile) {
    const auto frozen = resolved();
    EnsureOptions options;
    options.show = [&](const Progress& progress) {
        if (progress.stage != Stage::packing || fs::exists(frozen.root)) return;
        std::ofstream(frozen.root) << "of another";
        chmod(frozen.root.c_str(), 0400);
    };
    const auto ensured = ensure(frozen, Access{}, options);
    ASSERT_TRUE(ensured) << ensured.error().text();
    EXPECT_TRUE(base::read_file(frozen.root).value() == "of another");
    EXPECT_TRUE(nothing_is_left());
}

// Breaks when a process that was stopped so long that another has taken its lease fails, and the
// job with it.
TEST_F(Importing, WaitsForTheProcessThatHasTakenItsLease) {
    const auto frozen = resolved();
    const fs::path imports = scratch / "cache/.import";
    const fs::path lock = imports / (entry_stem(frozen.digest) + ".lock");
    EnsureOptions options;
    bool taken = false;
    options.show = [&](const Progress& progress) {
        if (progress.stage == Stage::waiting && !fs::exists(frozen.root)) {
            std::ofstream(frozen.root) << "of another";
            chmod(frozen.root.c_str(), 0400);
        }
        if (progress.stage != Stage::unpacking || taken) return;
        taken = true;
        collect_leftovers(imports, entry_stem(frozen.digest), "token");
        std::ofstream(lock) << "another-boot pid:[1] 1 1 elsewhere token\n";
    };
    const auto ensured = ensure(frozen, Access{}, options);
    ASSERT_TRUE(ensured) << ensured.error().text();
    EXPECT_EQ(*ensured, Ensured::imported_by_another);
    EXPECT_TRUE(fs::exists(lock));
}

// An archive that skopeo cannot read to its end.
class EndlessArchive {
  public:
    EndlessArchive(const std::string& path, std::string_view begin) {
        fs::remove(path);
        mkfifo(path.c_str(), 0600);
        pipe_ = base::FileDescriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_TRUE(base::write_all(pipe_.get(), begin));
    }

  private:
    base::FileDescriptor pipe_;
};

// Breaks when what skopeo has unpacked of an archive stays in a temporary directory.
TEST_F(Importing, LeavesNothingOfAnArchiveWhenItIsInterrupted) {
    const std::string archive = scratch / "archive.tar";
    ASSERT_TRUE(tool({"skopeo", "copy", "--quiet", "oci:" + (scratch / "layout") + ":x",
                      "oci-archive:" + archive + ":x"}));
    const fs::path temporary = scratch / "temporary";
    fs::create_directory(temporary);
    setenv("TMPDIR", temporary.c_str(), 1);
    const auto places = Places{scratch / "cache", "", 0};
    const auto reference = parse("oci-archive:" + archive + ":x").value();
    const auto found = resolve(reference, "x", places, Access{}, {});
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_TRUE(fs::is_empty(temporary));

    const std::string begins = base::read_file(archive).value().substr(0, 1536);
    std::optional<EndlessArchive> endless;
    const auto unpacks_below = [](const fs::path& directory) {
        for (const auto& entry : fs::recursive_directory_iterator(directory)) {
            if (entry.path().filename() == "sha256") return true;
        }
        return false;
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto is_late = [&] { return std::chrono::steady_clock::now() > end; };
    EnsureOptions options;
    options.show = [&](const Progress& progress) {
        if (progress.stage == Stage::pulling && !endless) endless.emplace(archive, begins);
    };
    bool seen = false;
    options.watch.interrupted = [&] {
        seen = seen || (endless && unpacks_below(scratch / "cache"));
        return seen || is_late();
    };
    EXPECT_FALSE(ensure(found->frozen, Access{}, options));
    EXPECT_TRUE(seen);
    EXPECT_TRUE(nothing_is_left());

    seen = false;
    endless.emplace(archive, begins);
    const Watch asking{{}, [&] {
                           seen = seen || unpacks_below(temporary);
                           return seen || is_late();
                       }};
    EXPECT_FALSE(resolve(reference, "x", places, Access{}, asking));
    EXPECT_TRUE(seen);
    EXPECT_TRUE(fs::is_empty(temporary));
    unsetenv("TMPDIR");
}

// Breaks when layers reach umoci as they came: before 0.5 it reads no zstd.
TEST_F(Importing, UnpacksLayersThatArePackedWithZstd) {
    const std::string layout = scratch / "layout";
    ASSERT_TRUE(tool({"skopeo", "copy", "--quiet", "--dest-compress-format", "zstd",
                      "oci:" + layout + ":x", "oci:" + (scratch / "zstd") + ":x"}));
    fs::remove_all(layout);
    fs::rename(scratch / "zstd", layout);
    const auto frozen = resolved();
    ASSERT_THAT(raw_manifest("oci:" + layout + ":x", "x", Access{}, {}).value(),
                HasSubstr("tar+zstd"));
    const auto ensured = ensure(frozen, Access{}, {});
    ASSERT_TRUE(ensured) << ensured.error().text();
    EXPECT_TRUE(nothing_is_left());
    const auto content =
        run({{"unsquashfs", "-cat", frozen.root, "etc/content"}, std::chrono::seconds(20)}, {});
    EXPECT_EQ(content.value().standard_output, "one");
}

TEST_F(Importing, OfAnImageThatHasChangedIsRefused) {
    const auto frozen = resolved();
    make_image("two");
    const auto refused = ensure(frozen, Access{}, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("has changed since the job was submitted"));
    EXPECT_TRUE(nothing_is_left());
}

// Puts a program of the name before the others on PATH.
class Instead {
  public:
    Instead(const Scratch& scratch, const std::string& name, const std::string& script)
        : path_(std::getenv("PATH")) {
        const std::string file = scratch.write("instead/" + name, "#!/bin/sh\n" + script);
        chmod(file.c_str(), 0755);
        setenv("PATH", fmt::format("{}/instead:{}", scratch.path(), path_).c_str(), 1);
    }
    Instead(const Instead&) = delete;
    Instead& operator=(const Instead&) = delete;
    ~Instead() { setenv("PATH", path_.c_str(), 1); }

  private:
    std::string path_;
};

// Breaks when the digest is compared only before the copy: it reads the source anew, which may show
// it another image.
TEST_F(Importing, OfAnImageThatTheSourceChangesForTheCopyIsRefused) {
    const auto frozen = resolved();
    fs::copy(scratch / "layout", scratch / "other", fs::copy_options::recursive);
    make_image("two");
    fs::rename(scratch / "layout", scratch / "two");
    fs::rename(scratch / "other", scratch / "layout");
    fs::rename(scratch / "two", scratch / "other");
    const Instead instead(scratch, "skopeo",
                          fmt::format("if [ \"$1\" = copy ] && [ -d {0}/other ]; then\n"
                                      "rm -rf {0}/layout; mv {0}/other {0}/layout; fi\n"
                                      "exec /usr/bin/skopeo \"$@\"\n",
                                      scratch.path()));
    const auto refused = ensure(frozen, Access{}, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("is not what its source said"));
    EXPECT_TRUE(nothing_is_left());
    EXPECT_FALSE(fs::exists(frozen.root));
}

// Breaks when what is in a list, an archive, or of Docker's types is taken for another image than
// the one with the digest.
TEST_F(Importing, TakesListsArchivesAndDockersManifests) {
    const std::string layout = "oci:" + scratch.path() + "/layout:x";
    const auto imports = [&](const std::string& source) {
        const auto reference = parse(source).value();
        const auto frozen =
            resolve(reference, source, {scratch.path() + "/cache", "", 0}, Access{}, {})
                .value()
                .frozen;
        EXPECT_THAT(frozen.root, HasSubstr("/cache/local-"));
        const auto ensured = ensure(frozen, Access{}, {});
        EXPECT_TRUE(ensured) << source << (ensured ? "" : ensured.error().text());
        EXPECT_TRUE(fs::exists(frozen.root)) << source;
        fs::remove_all(scratch / "cache");
    };
    for (const std::string& target : {"oci-archive:" + scratch.path() + "/oci.tar:x",
                                      "docker-archive:" + scratch.path() + "/docker.tar:x:y"}) {
        ASSERT_TRUE(tool({"skopeo", "copy", "--quiet", layout, target}));
        imports(target);
    }
    // A list in the place of the manifest.
    const std::string index = base::read_file(scratch / "layout/index.json").value();
    const auto at = index.find("sha256:") + 7;
    const std::string digits = index.substr(at, 64);
    const auto bytes = fs::file_size(scratch / ("layout/blobs/sha256/" + digits));
    const std::string list = fmt::format(
        R"({{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)"
        R"({{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{}","size":{},)"
        R"("platform":{{"architecture":"{}","os":"linux"}}}}]}})",
        digits, bytes, machine());
    scratch.write("layout/blobs/sha256/" + digest_of(list).substr(7), list);
    scratch.write(
        "layout/index.json",
        fmt::format(
            R"({{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.index.v1+json",)"
            R"("digest":"{}","size":{},"annotations":{{"org.opencontainers.image.ref.name":"x"}}}}]}})",
            digest_of(list), list.size()));
    imports(layout);
}

TEST_F(Importing, ThatIsInterruptedLeavesNothing) {
    const auto frozen = resolved();
    int looks = 0;
    EnsureOptions options;
    options.watch.interrupted = [&] { return ++looks > 3; };
    const auto stopped = ensure(frozen, Access{}, options);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().exit_code, interrupted_code);
    EXPECT_TRUE(nothing_is_left());
    EXPECT_EQ(ensure(frozen, Access{}, {}).value(), Ensured::imported);
}

TEST_F(Importing, CollectsWhatADeadImportHasLeft) {
    const auto frozen = resolved();
    const std::string other(64, 'd');
    scratch.write("cache/.import/" + other + ".token/root/file", "x");
    scratch.write("cache/.import/" + entry_stem(frozen.digest) + ".token/root/file", "x");
    for (const char* directory : {"cache", "cache/.import"})
        chmod((scratch / directory).c_str(), 0700);
    ASSERT_EQ(ensure(frozen, Access{}, {}).value(), Ensured::imported);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Importing, ByManyProcessesAtOnceIsDoneByOne) {
    const auto frozen = resolved();
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            const auto done = ensure(frozen, Access{}, {});
            _exit(done ? static_cast<int>(*done) : 100);
        }
        children.push_back(child);
    }
    int imported = 0;
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_LT(WEXITSTATUS(status), 100);
        imported += WEXITSTATUS(status) == static_cast<int>(Ensured::imported) ? 1 : 0;
    }
    EXPECT_EQ(imported, 1);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Importing, AnImageThatIsNoLongerInAFileIsSaidSo) {
    FrozenImage frozen;
    frozen.root = scratch / "gone.sqsh";
    EXPECT_THAT(ensure(frozen, Access{}, {}).error().text(), HasSubstr("cannot be read here"));
}

}  // namespace
}  // namespace batchai::image
