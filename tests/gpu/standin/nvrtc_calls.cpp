// SPDX-License-Identifier: Apache-2.0
//
// NVRTC's calls. It compiles nothing: it makes sure that it is given the kernels that the stand-in
// was built from, and names them.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gpu/cuda/embedded.hpp"
#include "kernels.hpp"

namespace {

constexpr int invalid_input = 3;
constexpr int invalid_option = 5;
constexpr int compilation = 6;

constexpr const char* codecs[] = {
#define STANDIN_NAME(name, tensor_bytes, wire_bytes) #name,
    MPI_BRIDGE_CODECS(STANDIN_NAME)
#undef STANDIN_NAME
};

struct Program {
    bool known = false;
    std::string image;
    std::string log;
};

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = 12;
    *minor = 0;
    return 0;
}

const char* nvrtcGetErrorString(int result) {
    return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR of the stand-in";
}

int nvrtcCreateProgram(Program** program, const char* source, const char* /*name*/, int headers,
                       const char* const* texts, const char* const* names) {
    *program = new Program;
    std::map<std::string, std::string> given;
    for (int i = 0; i < headers; ++i)
        given[names[i]] = texts[i];
    (*program)->known = source == mpi_bridge::kernel_source() &&
                        given["kernel_codecs.h"] == mpi_bridge::kernel_codecs() &&
                        given["kernel_interface.h"] == mpi_bridge::kernel_interface();
    return 0;
}

int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return 0;
}

int nvrtcCompileProgram(Program* program, int options, const char* const* texts) {
    if (!program->known) {
        program->log = "the stand-in was built from another kernels.cu";
        return compilation;
    }
    std::string codec;
    bool architecture = false;
    for (int i = 0; i < options; ++i) {
        const std::string option = texts[i];
        if (option.starts_with("-DMPIB_ONLY_CODEC=")) {
            codec = option.substr(option.find('=') + 1);
        } else if (option == "--gpu-architecture=sm_80" || option == "--gpu-architecture=sm_90") {
            architecture = true;
        } else if (option != "--std=c++17") {
            program->log = "the stand-in does not know " + option;
            return invalid_option;
        }
    }
    if (!architecture ||
        std::find(std::begin(codecs), std::end(codecs), codec) == std::end(codecs)) {
        program->log = "there is no such codec or architecture";
        return compilation;
    }
    for (const std::string& part :
         {std::string(standin::image_mark), codec, "mpib_pack_" + codec, "mpib_unpack_" + codec}) {
        program->image += part;
        program->image += '\0';
    }
    return 0;
}

int nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
    *bytes = program->log.size() + 1;
    return 0;
}

int nvrtcGetProgramLog(Program* program, char* text) {
    std::memcpy(text, program->log.c_str(), program->log.size() + 1);
    return 0;
}

int nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
    *bytes = program->image.size();
    return program->image.empty() ? invalid_input : 0;
}

int nvrtcGetCUBIN(Program* program, char* image) {
    std::copy(program->image.begin(), program->image.end(), image);
    return 0;
}
}
