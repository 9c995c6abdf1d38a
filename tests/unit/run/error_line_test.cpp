// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/error_line.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace batchai::run {

TEST(FirstErrorLine, IsTheLastLineOfTheFirstTraceback) {
    EXPECT_EQ(first_error_line("warning: an error may follow\n"
                               "Traceback (most recent call last):\n"
                               "  File \"train.py\", line 3, in <module>\n"
                               "    x = 1 / 0\n"
                               "ZeroDivisionError: division by zero\n"
                               "other error\n"),
              "ZeroDivisionError: division by zero");
}

TEST(FirstErrorLine, IsElseTheFirstLineThatLooksLikeOne) {
    EXPECT_EQ(first_error_line("starting\nbash: foo: No such file or directory\nbye\n"),
              "bash: foo: No such file or directory");
}

TEST(FirstErrorLine, IsElseTheLastThingSaid) {
    EXPECT_EQ(first_error_line("one\ntwo\n\n"), "two");
    EXPECT_EQ(first_error_line(""), "");
}

TEST(FirstErrorLine, CarriesNoControlCharacters) {
    EXPECT_EQ(first_error_line("error: \033[31mred\n"), "error: \uFFFD[31mred");
}

struct Said {
    std::string by;    // which program
    std::string text;  // on standard error
    std::string line;  // that says what went wrong
};

// What programs really print. Breaks when a mere warning, or a line that says nothing, is taken for
// the cause.
TEST(FirstErrorLine, IsFoundInWhatToolsPrint) {
    const std::vector<Said> all{
        {"torch.distributed",
         "[rank2]: Traceback (most recent call last):\n"
         "[rank2]:   File \"/home/a/train.py\", line 7, in <module>\n"
         "[rank2]:     inner()\n"
         "[rank2]:     ^^^^^^^\n"
         "[rank2]: ValueError: the cause\n"
         "[rank2]:[W1127 05:28:07.123 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group() "
         "was not called (function operator())\n",
         "ValueError: the cause"},
        {"torch's C++ before the traceback",
         "[W socket.cpp:663] [c10d] The client socket has failed to connect to [h1]:29500\n"
         "W1127 05:28:07.123000 4711 torch/distributed/run.py:792] error_file is not set\n"
         "RuntimeError: no GPU\n",
         "RuntimeError: no GPU"},
        {"torchrun --tee",
         "[default1]:Traceback (most recent call last):\n"
         "[default1]:  File \"x.py\", line 1, in <module>\n"
         "[default1]:KeyError: 'a'\n",
         "KeyError: 'a'"},
        {"mpirun --tag-output",
         "[1,3]<stderr>:Traceback (most recent call last):\n"
         "[1,3]<stderr>:  File \"x.py\", line 1, in <module>\n"
         "[1,3]<stderr>:OSError: [Errno 122] Disk quota exceeded\n",
         "OSError: [Errno 122] Disk quota exceeded"},
        {"srun --label",
         "2: Traceback (most recent call last):\n2:   File \"x.py\", line 1\n2: KeyError: 'b'\n",
         "KeyError: 'b'"},
        {"bash with a locale that is missing",
         "/bin/bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)\n"
         "ERROR: disk quota exceeded\n",
         "ERROR: disk quota exceeded"},
        {"perl with a locale that is missing",
         "perl: warning: Setting locale failed.\n"
         "perl: warning: Please check that your locale settings:\n"
         "perl: warning: Falling back to the standard locale (\"C\").\n"
         "Can't open perl script \"x.pl\": No such file or directory\n",
         "Can't open perl script \"x.pl\": No such file or directory"},
        {"manpath", "manpath: can't set the locale; make sure $LC_* and $LANG are correct\nbye\n",
         "bye"},
        {"Python's warnings",
         "/usr/lib/python3/x.py:3: UserWarning: an error may follow\n  warn(\n"
         "ImportError: libfoo.so: cannot open shared object file\n",
         "ImportError: libfoo.so: cannot open shared object file"},
        {"Python's logging",
         "2026-11-27 05:28:07,123 - train - WARNING - could not find a cache\n"
         "2026-11-27 05:28:08,123 - train - ERROR - no data\n",
         "2026-11-27 05:28:08,123 - train - ERROR - no data"},
        {"TensorFlow",
         "2026-11-27 05:28:07.1: W tensorflow/stream_executor/x.cc:64] Could not load dynamic "
         "library 'libcudart.so.11.0'; dlerror: not found\n"
         "tensorflow.python.framework.errors_impl.NotFoundError: no file\n",
         "tensorflow.python.framework.errors_impl.NotFoundError: no file"},
        {"tqdm and then an error",
         "\repoch 1:  10%|#  | failed 0\repoch 1: 100%|###| done\nCUDA error: out of memory\r\n",
         "CUDA error: out of memory"},
        {"a progress bar that an error overwrites", "epoch 1: 10% failed: 0\rerror: no space\n",
         "error: no space"},
        {"C++",
         "terminate called after throwing an instance of 'std::runtime_error'\n"
         "  what():  no such layer\nAborted (core dumped)\n",
         "no such layer"},
        {"Rust", "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds\n",
         "thread 'main' panicked at src/main.rs:2:5:"},
        {"python -m", "/usr/bin/python3: No module named train\n",
         "/usr/bin/python3: No module named train"},
        {"set -u", "/bin/bash: line 1: DATA: unbound variable\n",
         "/bin/bash: line 1: DATA: unbound variable"},
        {"an error that gives information", "trying\nfatal: no device, info: 3\nbye\n",
         "fatal: no device, info: 3"},
        {"nothing but a warning", "x.c:1: warning: unused variable\n",
         "x.c:1: warning: unused variable"},
        {"a time at the begin of the line", "12:30:01 error: late\n", "12:30:01 error: late"}};
    for (const Said& said : all)
        EXPECT_EQ(first_error_line(said.text), said.line) << said.by;
}

// Breaks when a rank that is killed is said to have died of an earlier loss, which it has outlived.
TEST(FirstErrorLine, IsNoFailureAfterWhichAnElasticFunctionGoesOn) {
    const std::string outlived = "elastic: back to commit 2: rank 1 failed: lost rank 5\n";
    EXPECT_EQ(first_error_line(outlived, true), "");
    EXPECT_EQ(first_error_line(outlived + "ValueError: x\n", true), "ValueError: x");
    // Otherwise the failure may be why the rank was ended.
    EXPECT_EQ(first_error_line(outlived + "ValueError: x\n") + "\n", outlived);
}

}  // namespace batchai::run
