// SPDX-License-Identifier: GPL-2.0-or-later
// Faults of the settings, in files that are correct JSON.
#include <string>

#include "fault_case.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

std::string with_mount(std::string_view path) {
    return with_properties(
        "\"mountVolumes\": {\"unmanagedFileSystems\": [{\"mountCommand\": \"scratch\",\n"
        "\"relativeMountPath\": " +
        std::string(path) + "}]}");
}

std::string with_two_mounts(std::string_view first, std::string_view second) {
    return with_properties(
        "\"mountVolumes\": {\"unmanagedFileSystems\": [{\"mountCommand\": \"scratch\",\n"
        "\"relativeMountPath\": \"" +
        std::string(first) +
        "\"}], \"fileServers\": [{\"fileServer\": {\"id\": \"nfs\"},\n\"relativeMountPath\": \"" +
        std::string(second) + "\"}]}");
}

std::string with_nodes(std::string_view count) {
    return "{\"properties\": {\n\"nodeCount\": " + std::string(count) +
           ",\n\"stdOutErrPathPrefix\": \"logs\",\n"
           "\"horovodSettings\": {\"pythonScriptFilePath\": \"a.py\"}}}";
}

const FaultCase key_faults[] = {
    {"UnknownKeyWithGuess", with_properties(" \"schedulingPriorty\": \"low\""), 5, 2, 19, "E012",
     "unknown key \"schedulingPriorty\"; did you mean \"schedulingPriority\"?"},
    {"UnknownKeyWithoutGuess", with_properties("\"colour\": 1"), 5, 1, 8, "E012",
     "unknown key \"colour\""},
    {"UnknownKeyAtTop", "{\"nom\": \"x\"," + with_properties("\"$c\":1").substr(1), 1, 2, 5, "E012",
     "unknown key \"nom\""},
    {"KeyThatTheShellHasTaken", "{\"\": \"x\"," + with_properties("\"$c\":1").substr(1), 1, 2, 2,
     "E012",
     "unknown key \"\"; did the shell replace \"$schema\" and other words that begin with \"$\"? "
     "Quote the word that ends a here-document: << 'EOF'"},
    {"PathWhoseVariableTheShellHasTaken",
     with_properties("\"inputDirectories\": [{\"id\": \"A\", \"path\": \"/data/x\"},\n"
                     "{\"id\": \"B\", \"path\": \"/database\"}],\n"
                     "\"mountVolumes\": {\"unmanagedFileSystems\": [{\"mountCommand\": \"m\", "
                     "\"relativeMountPath\": \"data\"}]}"),
     5, 42, 9, "W107",
     "\"/data/x\" is a path of the node, not of the volume \"data\"; did the shell replace "
     "\"$AZ_BATCHAI_JOB_MOUNT_ROOT\"? Quote the word that ends a here-document: << 'EOF'"},
    {"RetiredKeyAtTop", "{\"location\": \"eastus\"," + with_properties("\"$c\":1").substr(1), 1, 2,
     10, "W103",
     "\"location\" belongs to schema 2018-03-01 and is ignored; use the workspace's location"},
    {"TagsAtTop", "{\"tags\": {\"a\": \"b\"}," + with_properties("\"$c\":1").substr(1), 1, 2, 6,
     "W103", "\"tags\" belongs to schema 2018-03-01 and is ignored"},
    {"ReportedKeyAtTop", "{\"name\": \"x\"," + with_properties("\"$c\":1").substr(1), 1, 2, 6,
     "W104", "\"name\" is set by the service and ignored here; remove it"},
    {"LocationInOlderSchema", in_schema("2018-03-01", "\"location\": \"eastus\""), 5, 1, 10, "W105",
     "\"location\" has no effect: a region belongs to a workspace; remove it"},
    {"MisspeltRequiredKeyIsNotMissingToo",
     "{\"properties\": {\"nodeCout\": 2, \"stdOutErrPathPrefix\": \"l\",\n"
     "\"caffe2Settings\": {\"pythonScriptFilePath\": \"a\"}}}",
     1, 17, 10, "E012", "unknown key \"nodeCout\"; did you mean \"nodeCount\"?"},
    {"MisspeltToolkitIsNotMissingToo", with_toolkit("\"horovodSetings\": {}"), 4, 1, 16, "E012",
     "unknown key \"horovodSetings\"; did you mean \"horovodSettings\"?"},
    {"UnknownKeyInOlderSchema", in_schema("2018-03-01", "\"colour\": 1"), 5, 1, 8, "W101",
     "unknown key \"colour\" is ignored"},
    {"KeyOfADeeperObject", with_properties("\"image\": 1, \"containerSettings\": null"), 5, 1, 7,
     "E012", "unknown key \"image\""},
    {"MisplacedBelow",
     with_properties("\"containerSettings\": {\"image\": \"x\",\n"
                     "\"imageSourceRegistry\": {\"image\": \"x\"}}"),
     5, 23, 7, "E020", "\"image\" is in the wrong place; it belongs in \"imageSourceRegistry\""},
    {"RetiredKey", with_properties("\"priority\": 5"), 5, 1, 10, "W103",
     "\"priority\" belongs to schema 2018-03-01 and is ignored; use schedulingPriority"},
    {"LaterKey", in_schema("2017-09-01-preview", "\"schedulingPriority\": \"low\""), 5, 1, 20,
     "W103",
     "\"schedulingPriority\" was added in schema 2018-05-01, but the file declares "
     "2017-09-01-preview; it takes effect anyway; declare the later schema in \"$schema\""},
    {"ReadOnlyKey", with_properties("\"toolType\": \"horovod\""), 5, 1, 10, "W104",
     "\"toolType\" is set by the service and ignored here; remove it"},
    {"MissingProperties", "\n{}", 2, 1, 1, "E013",
     "\"properties\" is missing at the top level; add \"properties\": { ... }"},
    {"MissingSetting",
     "{\"properties\": {\"nodeCount\": 2,\n"
     "\"horovodSettings\": {\"pythonScriptFilePath\": \"a.py\"}}}",
     1, 16, 1, "E013",
     "\"stdOutErrPathPrefix\" is missing in \"properties\"; add \"stdOutErrPathPrefix\": "
     "\"$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare\""},
    {"MissingInList", with_properties("\"inputDirectories\": [{\"id\": \"A\"}]"), 5, 22, 1, "E013",
     "\"path\" is missing in \"inputDirectories\"; add \"path\": "
     "\"$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/data\""},
    {"MissingSecretValue", with_properties("\"secrets\": [{\"name\": \"A\"}]"), 5, 13, 1, "E013",
     "no value is given in \"secrets\"; add one of \"value\", \"valueSecretReference\", "
     "\"fromEnv\", \"fromFile\""},
    {"NullForRequired", with_nodes("null"), 2, 14, 4, "E014",
     "\"nodeCount\" must be an integer, found null; for example 4"},
    {"NoToolkit", with_toolkit("\"$c\": 1"), 2, 17, 1, "E019",
     "no toolkit is given in \"properties\"; add one of \"horovodSettings\", "
     "\"customMpiSettings\", \"customToolkitSettings\", \"pyTorchSettings\", "
     "\"tensorFlowSettings\", \"cntkSettings\", \"caffeSettings\", \"caffe2Settings\", "
     "\"chainerSettings\""},
    {"TwoToolkits", with_properties("\"customToolkitSettings\": {}"), 5, 1, 23, "E018",
     "\"customToolkitSettings\" contradicts \"horovodSettings\" on line 4; keep only one toolkit"},
    {"CaffeWithBoth",
     with_toolkit(
         "\"caffeSettings\": {\"configFilePath\": \"c\", \"pythonScriptFilePath\": \"s\"}"),
     4, 42, 22, "E018",
     "\"pythonScriptFilePath\" contradicts \"configFilePath\" on line 4; keep only one program"},
    {"CaffeWithNeither", with_toolkit("\"caffeSettings\": {}"), 4, 18, 1, "E013",
     "no program is given in \"caffeSettings\"; add one of \"configFilePath\", "
     "\"pythonScriptFilePath\""},
    {"InterpreterWithoutScript",
     with_toolkit("\"caffeSettings\": {\"configFilePath\": \"c\",\n"
                  "\"pythonInterpreterPath\": \"p\"}"),
     5, 1, 23, "E018",
     "\"pythonInterpreterPath\" has no effect without \"pythonScriptFilePath\"; remove it, or add "
     "\"pythonScriptFilePath\""},
    {"CntkLanguage",
     with_toolkit("\"cntkSettings\": {\"languageType\": \"Python\", \"configFilePath\": \"c\"}"), 4,
     34, 8, "E018",
     "\"languageType\" contradicts \"configFilePath\"; write \"BrainScript\", or leave it out"},
    {"KeyAndReference",
     with_properties("\"mountVolumes\": {\"azureBlobFileSystems\": [{\"accountName\": \"a\",\n"
                     "\"containerName\": \"c\", \"relativeMountPath\": \"r\", \"credentials\": {\n"
                     "\"accountKey\": \"k\",\n\"accountKeySecretReference\": "
                     "{\"sourceVault\": {\"id\": \"v\"}, \"secretUrl\": \"u\"}}}]}"),
     8, 1, 27, "E018",
     "\"accountKeySecretReference\" contradicts \"accountKey\" on line 7; keep only one account "
     "key"},
};

const FaultCase value_faults[] = {
    {"TextForInteger", with_nodes("\"4\""), 2, 14, 3, "E014",
     "\"nodeCount\" must be an integer, found a string; write it without quotes"},
    {"NumberForText",
     with_properties("\"environmentVariables\": [{\"name\": \"A\", \"value\": 12}]"), 5, 49, 2,
     "E014", "\"value\" must be a string, found a number; write it in double quotes"},
    {"ObjectForList", with_properties("\"inputDirectories\": {\"id\": \"A\", \"path\": \"p\"}"), 5,
     21, 1, "E014", "\"inputDirectories\" must be an array, found an object; put it into [ ]"},
    {"ListForObject", with_properties("\"constraints\": []"), 5, 16, 1, "E014",
     "\"constraints\" must be an object, found an array; leave out the [ ]"},
    {"TextInList", with_properties("\"secrets\": [\"hush\"]"), 5, 13, 6, "E014",
     "each element of \"secrets\" must be an object"},
    {"TextForBoolean",
     in_schema("2018-03-01",
               "\"outputDirectories\": [{\"id\": \"A\", \"pathPrefix\": \"p\",\n"
               "\"createNew\": \"false\"}]"),
     6, 14, 7, "E014",
     "\"createNew\" must be true or false, found a string; write it without quotes"},
    {"FractionOfNodes", with_nodes("4.5"), 2, 14, 3, "E015",
     "\"nodeCount\" must be an integer, found 4.5; for example 4"},
    {"WholeNumberWithFraction", with_nodes("4.0"), 2, 14, 3, "E015",
     "\"nodeCount\" must be an integer, found 4.0; for example 4"},
    {"NoNodes", with_nodes("0"), 2, 14, 1, "E016",
     "\"nodeCount\" must be from 1 to 65536, found 0"},
    {"NegativeNodes", with_nodes("-4"), 2, 14, 2, "E016",
     "\"nodeCount\" must be from 1 to 65536, found -4"},
    {"TooManyNodes", with_nodes("65537"), 2, 14, 5, "E016",
     "\"nodeCount\" must be from 1 to 65536, found 65537"},
    {"OverflowingNodes", with_nodes("18446744073709551620"), 2, 14, 20, "E016",
     "\"nodeCount\" must be from 1 to 65536, found 18446744073709551620"},
    {"TooManyServers",
     with_toolkit("\"tensorFlowSettings\": {\"pythonScriptFilePath\": \"a\", "
                  "\"parameterServerCount\": 3}"),
     4, 77, 1, "E016",
     "\"parameterServerCount\" is 3, more than the 2 nodes of the job; a node runs at most one "
     "parameter server"},
    {"WrongChoice", with_properties("\"schedulingPriority\": \"hihg\""), 5, 23, 6, "E017",
     "\"schedulingPriority\" must be \"low\", \"normal\" or \"high\", found \"hihg\"; did you mean "
     "\"high\"?"},
    {"BadDuration", with_properties("\"constraints\": {\"maxWallClockTime\": \"1 week\"}"), 5, 37,
     8, "E025",
     "\"maxWallClockTime\" is not a duration: \"1 week\"; write it as \"P7D\", \"PT1H30M\", "
     "\"7.00:00:00\" or \"1:30:00\""},
    {"ZeroDuration", with_properties("\"constraints\": {\"maxWallClockTime\": \"PT0S\"}"), 5, 37, 6,
     "E016", "\"maxWallClockTime\" must be from 0:00:01 to 366 days, 0:00:00, found \"PT0S\""},
    {"EmptyText", with_toolkit("\"horovodSettings\": {\"pythonScriptFilePath\": \"\"}"), 4, 45, 2,
     "E026", "\"pythonScriptFilePath\" must not be empty"},
    {"NulInText", with_toolkit("\"horovodSettings\": {\"pythonScriptFilePath\": \"a\\u0000\"}"), 4,
     45, 9, "E026", "\"pythonScriptFilePath\" must not contain U+0000"},
    {"LineBreakInPath", with_toolkit("\"horovodSettings\": {\"pythonScriptFilePath\": \"a\\nb\"}"),
     4, 45, 6, "E026",
     "\"pythonScriptFilePath\" must not contain control characters such as line breaks"},
    {"OptionAsImage",
     with_properties("\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"--rm\"}}"), 5,
     56, 6, "E026", "\"image\" must not start with \"-\""},
    {"BadFileMode",
     with_properties("\"mountVolumes\": {\"azureFileShares\": [{\"relativeMountPath\": \"s\",\n"
                     "\"azureFileUrl\": \"https://a.file.core.windows.net/s\",\n"
                     "\"fileMode\": \"rwx\"}]}"),
     7, 13, 5, "E026",
     "\"fileMode\" is not a file mode: \"rwx\"; give octal digits such as \"0755\""},
    {"BadMemorySize",
     with_properties("\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"i\"},\n"
                     "\"shmSize\": \"much\"}"),
     6, 12, 6, "E026",
     "\"shmSize\" is not a memory size: \"much\"; give a whole number and b, k, m or g, such as "
     "\"16g\""},
    {"IllFormedUrl",
     with_properties("\"mountVolumes\": {\"azureFileShares\": [{\"relativeMountPath\": \"s\",\n"
                     "\"azureFileUrl\": \"myshare\"}]}"),
     6, 17, 9, "E027",
     "Ill-formed Azure File URL \"myshare\"; write "
     "https://<account>.file.core.windows.net/<share>"},
    {"BadVariableName",
     with_properties("\"environmentVariables\": [{\"name\": \"1A\", \"value\": \"\"}]"), 5, 35, 4,
     "E024",
     "\"name\" is not a variable's name: \"1A\"; use letters, digits and \"_\", with no digit in "
     "front"},
    {"BadDirectoryId",
     with_properties("\"inputDirectories\": [{\"id\": \"A-B\", \"path\": \"p\"}]"), 5, 29, 5,
     "E024",
     "\"id\" is part of a variable's name and cannot be \"A-B\"; use letters, digits and \"_\""},
    {"ReservedName",
     with_properties("\"environmentVariables\": [{\"name\": \"AZ_BATCHAI_X\", \"value\": \"\"}]"),
     5, 35, 14, "W102",
     "\"AZ_BATCHAI_X\" is a variable of the service; choose a name that does not start with "
     "AZ_BATCHAI_"},
    // A file that was written on Windows, as people paste it.
    {"CarriageReturnInACommand",
     with_properties("\"jobPreparation\": {\n \"commandLine\": \"set -e\\r\\nmkdir x\\r\\n\"}"), 6,
     17, 23, "W106",
     "\"commandLine\" has a carriage return (\\r), as in the line ends of Windows; write only \\n "
     "where "
     "a line ends: a shell takes \\r for part of the last word"},
    {"CarriageReturnInAValue",
     with_properties("\"environmentVariables\": [{\"name\": \"A\", \"value\": \"a\\r\"}]"), 5, 49,
     5, "W106",
     "\"value\" has a carriage return (\\r), as in the line ends of Windows; write only \\n where "
     "a "
     "line ends: a shell takes \\r for part of the last word"},
    {"DuplicateInput",
     with_properties("\"inputDirectories\": [{\"id\": \"A\", \"path\": \"p\"},\n"
                     "{\"id\": \"A\", \"path\": \"q\"}]"),
     6, 8, 3, "E023",
     "the input directory \"A\" is given twice; the first is on line 5; remove or rename one of "
     "the two"},
    {"DuplicateOutput",
     with_properties("\"outputDirectories\": [{\"id\": \"A\", \"pathPrefix\": \"p\"},\n"
                     "{\"id\": \"A\", \"pathPrefix\": \"q\"}]"),
     6, 8, 3, "E023",
     "the output directory \"A\" is given twice; the first is on line 5; remove or rename one of "
     "the two"},
    {"SecretNamedAsVariable",
     with_properties("\"environmentVariables\": [{\"name\": \"A\", \"value\": \"\"}],\n"
                     "\"secrets\": [{\"name\": \"A\", \"value\": \"v\"}]"),
     6, 22, 3, "E023",
     "the environment variable \"A\" is given twice; the first is on line 5; remove or rename one "
     "of the two"},
};

#define OUTSIDE "\"relativeMountPath\" must name a directory below the mount root: "
#define SUCH "; give a path such as \"myshare\""
const FaultCase mount_faults[] = {
    {"Absolute", with_mount("\"/etc\""), 6, 22, 6, "E021", OUTSIDE "\"/etc\" is absolute" SUCH},
    {"Parent", with_mount("\"..\""), 6, 22, 4, "E021",
     OUTSIDE "\"..\" has a \"..\" component" SUCH},
    {"ParentInside", with_mount("\"a/../b\""), 6, 22, 8, "E021",
     OUTSIDE "\"a/../b\" has a \"..\" component" SUCH},
    {"ParentByEscapes", with_mount("\"\\u002e\\u002e/b\""), 6, 22, 16, "E021",
     OUTSIDE "\"../b\" has a \"..\" component" SUCH},
    {"Dot", with_mount("\".\""), 6, 22, 3, "E021", OUTSIDE "\".\" has a \".\" component" SUCH},
    {"Empty", with_mount("\"\""), 6, 22, 2, "E021", OUTSIDE "it is empty" SUCH},
    {"DoubledSlash", with_mount("\"a//b\""), 6, 22, 6, "E021",
     OUTSIDE "\"a//b\" has an empty component; remove the slash that is doubled or at the end"},
    {"Backslash", with_mount("\"..\\\\b\""), 6, 22, 7, "E021",
     OUTSIDE "\"..\\b\" contains a backslash; separate directories with \"/\""},
    {"ControlCharacter", with_mount("\"a\\nb\""), 6, 22, 6, "E021",
     OUTSIDE "\"a\uFFFDb\" contains a control character" SUCH},
    {"SamePath", with_two_mounts("a/b", "a/b"), 7, 22, 5, "E022",
     "two mounts have the path \"a/b\"; the other is on line 6; give each its own "
     "\"relativeMountPath\""},
    {"Inside", with_two_mounts("a", "a/b"), 7, 22, 5, "E022",
     "the mount \"a/b\" lies inside the mount \"a\" on line 6; give each its own "
     "\"relativeMountPath\""},
    {"Around", with_two_mounts("a/b", "a"), 6, 22, 5, "E022",
     "the mount \"a/b\" lies inside the mount \"a\" on line 7; give each its own "
     "\"relativeMountPath\""},
};

class SettingsFault : public testing::TestWithParam<FaultCase> {};

TEST_P(SettingsFault, IsNamedAtItsPlace) {
    expect_only_this_fault(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Keys, SettingsFault, testing::ValuesIn(key_faults), case_name);
INSTANTIATE_TEST_SUITE_P(Values, SettingsFault, testing::ValuesIn(value_faults), case_name);
INSTANTIATE_TEST_SUITE_P(Mounts, SettingsFault, testing::ValuesIn(mount_faults), case_name);

TEST(MountPaths, ThatShareAPrefixOfTheirNamesDoNotOverlap) {
    EXPECT_TRUE(parse(with_two_mounts("data", "data2/x")).spec.has_value());
}

TEST(MisplacedSettings, AreSentIntoProperties) {
    const Parsed parsed = parse("{\"nodeCount\": 4}");
    ASSERT_EQ(parsed.diagnostics.size(), 2U);
    EXPECT_EQ(parsed.diagnostics[0].message, "\"properties\" is missing at the top level");
    EXPECT_EQ(parsed.diagnostics[1].code, "E020");
    EXPECT_EQ(parsed.diagnostics[1].hint, "it belongs in \"properties\"");
    EXPECT_EQ(parsed.diagnostics[1].position, (Position{1, 2, 11}));
}

TEST(OlderSchemas, KeepTheirOwnRequirements) {
    const std::string variable = "\"environmentVariables\": [{\"name\": \"A\"}]";
    EXPECT_TRUE(parse(in_schema("2017-09-01-preview", variable)).spec.has_value());
    EXPECT_FALSE(parse(in_schema("2018-03-01", variable)).spec.has_value());
}

}  // namespace
}  // namespace batchai::job::test
