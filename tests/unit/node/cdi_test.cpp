// SPDX-License-Identifier: GPL-2.0-or-later
// The vendors' files, from their text to what a container gets; see docs/containers.md, Devices.
#include "node/devices/cdi.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/devices/cdi_hooks.hpp"
#include "node/devices/job_devices.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// As nvidia-ctk 1.18 writes it for two GPUs, shortened.
constexpr std::string_view nvidia_yaml = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/dri/renderD128
              hostPath: /host/dev/dri/renderD128
        hooks:
            - hookName: createContainer
              path: /usr/bin/nvidia-cdi-hook
              args:
                - nvidia-cdi-hook
                - create-symlinks
                - --link
                - ../renderD128::/dev/dri/by-path/pci-0000:00:05.0-render
              env:
                - NVIDIA_CTK_DEBUG=false
    - name: "1"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia1
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/nvidia1
containerEdits:
    env:
        - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu
        - NVIDIA_VISIBLE_DEVICES=void
    deviceNodes:
        - path: /dev/nvidia-uvm
        - path: /dev/nvidiactl
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args:
            - nvidia-cdi-hook
            - create-symlinks
            - --link
            - libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so
            - --link
            - libGLX_nvidia.so.570.1::/usr/lib/x86_64-linux-gnu/libGLX_indirect.so.0
          env:
            - NVIDIA_CTK_DEBUG=false
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=570.1]
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, disable-device-node-modification]
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.1
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.1
          options: [ro, nosuid, nodev, rbind, rprivate]
        - hostPath: /run/nvidia-persistenced/socket
          containerPath: /run/nvidia-persistenced/socket
          options: [ro, nosuid, nodev, rbind, rprivate, noexec]
)";

CdiSpec parsed(std::string_view text, CdiFormat format) {
    auto spec = parse_cdi(text, format, "/etc/cdi/test");
    if (!spec) throw std::runtime_error(spec.error().text());
    return std::move(*spec);
}

std::vector<std::string> targets(const std::vector<Bind>& binds) {
    std::vector<std::string> names;
    names.reserve(binds.size());
    for (const Bind& bind : binds)
        names.push_back(bind.target);
    return names;
}

DeviceEdits chosen(const slurm::DeviceIndices& of_job) {
    return choose_devices({parsed(nvidia_yaml, CdiFormat::yaml)}, of_job).edits;
}

TEST(Cdi, ReadsAFileOfNvidiasToolInYaml) {
    const CdiSpec spec = parsed(nvidia_yaml, CdiFormat::yaml);
    EXPECT_EQ(spec.kind, "nvidia.com/gpu");
    EXPECT_EQ(spec.device_class(), "gpu");
    EXPECT_THAT(spec.remarks, IsEmpty());
    ASSERT_EQ(spec.devices.size(), 3U);
    EXPECT_EQ(spec.devices[0].name, "0");
    EXPECT_EQ(spec.devices[0].edits.nodes[1].source, "/host/dev/dri/renderD128");
    EXPECT_EQ(spec.edits.environment[1], (plan::Variable{"NVIDIA_VISIBLE_DEVICES", "void"}));
    ASSERT_EQ(spec.edits.mounts.size(), 2U);
    EXPECT_TRUE(spec.edits.mounts[0].read_only);
    EXPECT_THAT(spec.edits.mounts[0].hint, HasSubstr("/etc/cdi/test names it"));
    ASSERT_EQ(spec.edits.hooks.size(), 4U);
    EXPECT_THAT(spec.edits.hooks[0].environment, ElementsAre("NVIDIA_CTK_DEBUG=false"));
}

TEST(Cdi, MeansTheSameInYamlAndInJson) {
    const auto yaml = parsed(
        "cdiVersion: \"0.7.0\"\nkind: v.com/c\ncontainerEdits:\n"
        "  env: [\"X=a=b\", 'Y=1']\n  additionalGids: [5, 44]\n"
        "  hooks: [{hookName: createContainer, path: /h, args: [h, 755, \"true\"], timeout: 3}]\n"
        "devices: [{name: 0, containerEdits: {deviceNodes: [{path: /dev/a, permissions: rw}]}}]\n",
        CdiFormat::yaml);
    const auto json = parsed(
        R"({"cdiVersion": "0.7.0", "kind": "v.com/c", "containerEdits": {
            "env": ["X=a=b", "Y=1"], "additionalGids": [5, 44],
            "hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h", "755", "true"],
                       "timeout": 3}]},
            "devices": [{"name": "0", "containerEdits": {
                "deviceNodes": [{"path": "/dev/a", "permissions": "rw"}]}}]})",
        CdiFormat::json);
    EXPECT_EQ(yaml.edits, json.edits);
    EXPECT_EQ(yaml.devices.at(0).edits, json.devices.at(0).edits);
    EXPECT_EQ(yaml.devices.at(0).name, "0");
    EXPECT_EQ(yaml.edits.hooks.at(0).timeout_seconds, 3);
    EXPECT_THAT(yaml.edits.groups, ElementsAre(5, 44));
}

TEST(Cdi, SaysWhatIsWrong) {
    const auto fault = [](std::string_view text, CdiFormat format = CdiFormat::json) {
        const auto spec = parse_cdi(text, format, "f");
        return spec ? std::string("none") : spec.error().what;
    };
    const auto edits = [&](const std::string& inside) {
        return fault(R"({"cdiVersion":"1","kind":"v/k","containerEdits":{)" + inside + "}}");
    };
    EXPECT_THAT(fault("{}"), HasSubstr("cdiVersion"));
    for (const char* kind : {"k", "/k", "v/"})
        EXPECT_THAT(fault(std::string(R"({"cdiVersion":"1","kind":")") + kind + "\"}"),
                    HasSubstr("VENDOR/CLASS"));
    EXPECT_NE(fault("["), "none");
    EXPECT_THAT(fault("a: [", CdiFormat::yaml), HasSubstr("line 1"));
    EXPECT_THAT(fault("&a [*a]", CdiFormat::yaml), testing::Not("none"));
    EXPECT_THAT(fault(R"({"cdiVersion":"1","kind":"v/k","devices":3})"), HasSubstr("not a list"));
    EXPECT_THAT(edits(R"("env":["=x"])"), HasSubstr("NAME=value"));
    EXPECT_THAT(edits(R"("deviceNodes":[{"path":"dev/x"}])"), HasSubstr("absolute"));
    EXPECT_THAT(edits(R"("mounts":[{"hostPath":"/a","containerPath":"/b","options":["sync"]}])"),
                HasSubstr("mount option \"sync\""));
    EXPECT_THAT(edits(R"("mounts":[{"hostPath":"/a","containerPath":"/b","type":"tmpfs"}])"),
                HasSubstr("type \"tmpfs\""));
    EXPECT_THAT(edits(R"("hooks":[{"hookName":"poststop","path":"/h"}])"),
                HasSubstr("stage \"poststop\""));
    EXPECT_THAT(edits(R"("hooks":[{"hookName":"createContainer","path":"/h","timeout":0}])"),
                HasSubstr("timeout"));
}

TEST(Cdi, RemarksOnWhatNoContainerGets) {
    const auto spec = parsed(R"({"cdiVersion":"0.7.0","kind":"v/k","annotations":{"a":"b"},
        "containerEdits":{"intelRdt":{"closID":"x"},"env":[]}})",
                             CdiFormat::json);
    EXPECT_THAT(spec.remarks, ElementsAre(HasSubstr("\"intelRdt\" is ignored")));
}

TEST(CdiDevices, AreAllWhereSlurmNamesNone) {
    EXPECT_THAT(targets(chosen({}).nodes),
                ElementsAre("/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"));
    EXPECT_THAT(targets(chosen({{"widget", {0}}}).nodes), testing::SizeIs(4));
}

TEST(CdiDevices, AreThoseThatSlurmGaveTheJob) {
    EXPECT_THAT(targets(chosen({{"gpu", {1}}}).nodes),
                ElementsAre("/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/nvidia1"));
    EXPECT_THAT(chosen({{"gpu", {0, 1}}}).hooks, testing::SizeIs(5));
    EXPECT_THAT(chosen({{"gpu", {1}}}).hooks, testing::SizeIs(4));
}

TEST(CdiDevices, AreFoundByTheirFilesWhereTheVendorCountsInAnotherOrder) {
    const auto nodes = [](int index) {
        const CdiSpec spec = parsed(R"({"cdiVersion": "0.5.0", "kind": "v.com/gpu", "devices": [
            {"name": "0", "containerEdits": {"deviceNodes":
                [{"path": "/dev/nvidia2"}, {"path": "/dev/dri/card1"}]}},
            {"name": "1", "containerEdits": {"deviceNodes":
                [{"path": "/dev/nvidia0"}, {"path": "/dev/dri/card2"}]}},
            {"name": "2", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}},
            {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}]})",
                                    CdiFormat::json);
        return targets(choose_devices({spec}, {{"gpu", {index}}}).edits.nodes);
    };
    EXPECT_THAT(nodes(0), ElementsAre("/dev/nvidia0", "/dev/dri/card2"));
    EXPECT_THAT(nodes(1), ElementsAre("/dev/nvidia1"));
    EXPECT_THAT(nodes(2), ElementsAre("/dev/nvidia2", "/dev/dri/card1"));
}

TEST(CdiDevices, AreAllWhereTheFileLacksOneOfThem) {
    const auto made = choose_devices({parsed(nvidia_yaml, CdiFormat::yaml)}, {{"gpu", {0, 5}}});
    EXPECT_THAT(targets(made.edits.nodes), testing::SizeIs(4));
    EXPECT_THAT(made.remarks, ElementsAre(HasSubstr("gpu 5")));
}

TEST(CdiDevices, OfAJobAreKeptAsText) {
    const slurm::DeviceIndices devices{{"gpu", {0, 12}}, {"widget", {1}}};
    EXPECT_EQ(to_text(devices), "gpu 0 12\nwidget 1\n");
    EXPECT_EQ(device_indices(to_text(devices)), devices);
    EXPECT_THAT(device_indices("gpu\nx  y\n"), IsEmpty());
}

class CdiFilesTest : public testing::Test {
  protected:
    void write(const std::string& name, const std::string& kind, const std::string& variable) {
        const auto path = scratch.path() / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << "cdiVersion: 0.5.0\nkind: " << kind << "\ncontainerEdits: {env: ["
                            << variable << "=1]}\n";
    }
    [[nodiscard]] std::vector<std::string> variables() const {
        const auto files = read_cdi({scratch.path() / "etc", scratch.path() / "run"});
        if (!files) return {files.error().text()};
        std::vector<std::string> names;
        for (const CdiSpec& spec : files->specs)
            names.push_back(spec.edits.environment.at(0).name);
        return names;
    }

    Scratch scratch;
};

TEST_F(CdiFilesTest, OfALaterDirectoryTakeThePlaceOfThoseOfTheSameNameOrKind) {
    write("etc/a.yaml", "v.com/a", "OLD_NAME");
    write("run/a.yaml", "v.com/x", "NEW_NAME");
    write("etc/b.yml", "v.com/b", "OLD_KIND");
    write("run/c.yaml", "v.com/b", "NEW_KIND");
    write("etc/d.yaml", "v.com/d", "OTHER");
    write("etc/e.txt", "v.com/e", "NO_FILE_OF_OURS");
    EXPECT_THAT(variables(), ElementsAre("NEW_NAME", "NEW_KIND", "OTHER"));
}

TEST_F(CdiFilesTest, ThatAreWrongAreNamed) {
    write("run/a.yaml", "v.com/a", "");
    EXPECT_THAT(variables(), ElementsAre(testing::AllOf(HasSubstr("run/a.yaml: cannot be used"),
                                                        HasSubstr("NAME=value"))));
}

TEST_F(CdiFilesTest, ThatAreNoJsonAreNamedOnce) {
    const auto path = scratch.path() / "run/a.json";
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "{\n \"kind\": oops}";
    const auto files = read_cdi({scratch.path() / "run"});
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().where, path.string());
    EXPECT_THAT(files.error().what,
                testing::StartsWith("cannot be used as a CDI file: line 2, column 1"));
    EXPECT_THAT(files.error().what, testing::Not(HasSubstr(path.string())));
}

CdiHook hook(std::vector<std::string> arguments, std::string path = "/usr/bin/nvidia-cdi-hook") {
    return {std::move(path), std::move(arguments), {}, 0, "f"};
}

TEST(VendorHooks, AreKnownByTheToolAndItsVerb) {
    const auto links = vendor_hook(
        hook({"nvidia-cdi-hook", "create-symlinks", "--link", "a::/b", "--link=c::/d"}));
    ASSERT_TRUE(links);
    EXPECT_THAT(links->options, ElementsAre(Pair("link", "a::/b"), Pair("link", "c::/d")));
    EXPECT_TRUE(vendor_hook(
        hook({"nvidia-ctk", "hook", "update-ldcache", "--folder", "/l"}, "/opt/bin/nvidia-ctk")));
    EXPECT_FALSE(vendor_hook(hook({"nvidia-ctk", "info"}, "/usr/bin/nvidia-ctk")));
    EXPECT_FALSE(vendor_hook(hook({"nvidia-cdi-hook", "what-is-new"})));
    EXPECT_FALSE(vendor_hook(hook({"nvidia-cdi-hook", "update-ldcache", "--folder"})));
    EXPECT_FALSE(vendor_hook(hook({"x", "create-symlinks"}, "/usr/bin/other")));
}

class VendorHookTest : public testing::Test {
  protected:
    std::string done(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "nvidia-cdi-hook");
        const auto known = vendor_hook(hook(std::move(arguments)));
        if (!known) return "not known";
        const auto performed = perform(*known, root, directories);
        return performed ? "done" : performed.error().text();
    }
    [[nodiscard]] std::filesystem::path inside(const std::string& path) const {
        return scratch.path() / path;
    }

    Scratch scratch;
    base::Root root{
        base::FileDescriptor(open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
        scratch.path().string()};
    std::vector<std::string> directories;
};

TEST_F(VendorHookTest, MakesLinksInTheRootWhereverItsOwnLinksLead) {
    std::filesystem::create_directories(inside("real"));
    std::filesystem::create_symlink("/real", inside("usr"));
    std::ofstream(inside("real/old.so")) << "old";
    for (int again = 0; again < 2; ++again)
        EXPECT_EQ(done({"create-symlinks", "--link", "lib.so.1::/usr/lib/lib.so", "--link",
                        "/abs::/usr/old.so"}),
                  "done");
    EXPECT_EQ(std::filesystem::read_symlink(inside("real/lib/lib.so")), "lib.so.1");
    EXPECT_EQ(std::filesystem::read_symlink(inside("real/old.so")), "/abs");
    EXPECT_THAT(done({"create-symlinks", "--link", "a:/b"}), HasSubstr("not TARGET::/LINK"));
    EXPECT_THAT(done({"create-symlinks", "--link", "a::/usr/lib"}),
                HasSubstr("cannot be replaced"));
}

TEST_F(VendorHookTest, CollectsTheLoadersDirectoriesOnceAndANewerDriverFirst) {
    std::filesystem::create_directories(inside("usr/local/cuda/compat"));
    std::ofstream(inside("usr/local/cuda/compat/libcuda.so.580.1.2")) << "library";
    std::filesystem::create_symlink("libcuda.so.580.1.2",
                                    inside("usr/local/cuda/compat/libcuda.so.1"));
    for (const char* folder : {"/lib/a", "/lib/b", "/lib/a"})
        EXPECT_EQ(done({"update-ldcache", "--folder", folder}), "done");
    EXPECT_EQ(done({"enable-cuda-compat", "--host-driver-version=580.9"}), "done");
    EXPECT_THAT(directories, ElementsAre("/lib/a", "/lib/b"));
    EXPECT_EQ(done({"enable-cuda-compat", "--host-driver-version=570.9"}), "done");
    EXPECT_THAT(directories, ElementsAre("/usr/local/cuda/compat", "/lib/a", "/lib/b"));
}

TEST_F(VendorHookTest, HasNothingToDoWhereOnlyRootCouldMakeDevices) {
    for (const char* verb : {"disable-device-node-modification", "update-nvidia-params"})
        EXPECT_EQ(done({verb}), "done");
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST_F(VendorHookTest, ChangesModesOfWhatIsThere) {
    std::filesystem::create_directories(inside("dev/dri"));
    std::filesystem::permissions(inside("dev/dri"), std::filesystem::perms::owner_all);
    EXPECT_EQ(done({"chmod", "--mode", "755", "--path", "/dev/dri", "--path", "/dev/none"}),
              "done");
    EXPECT_EQ(std::filesystem::status(inside("dev/dri")).permissions(),
              static_cast<std::filesystem::perms>(0755));
    EXPECT_THAT(done({"chmod", "--mode", "9", "--path", "/dev/dri"}), HasSubstr("not a mode"));
}

}  // namespace
}  // namespace batchai::node
