// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

namespace standin {
namespace {

const std::map<std::string, long>& defaults() {
    static const auto& values = *new std::map<std::string, long>{
        {"seed", 1},    {"delay", 100}, {"devices", 1}, {"nccl", 22809}, {"slots", 1},
        {"idle", 1},    {"notice", 0},  {"slow", -1},   {"far", -1},     {"garbles", -1},
        {"spoils", -1}, {"apart", -1},  {"peers", 1}};
    return values;
}

}  // namespace

void misuse(const std::string& what) {
    std::fprintf(stderr, "stand-in: misuse: %s\n", what.c_str());
    std::abort();
}

Plan& Plan::get() {
    static auto& plan = *new Plan;
    return plan;
}

Plan::Plan() {
    const char* text = std::getenv("BATCHAI_STANDIN");
    const std::string plan = text == nullptr ? "" : text;
    if (plan.starts_with('@')) {
        std::string from_file;
        std::getline(std::ifstream(plan.substr(1)), from_file);
        configure(from_file);
        return;
    }
    configure(plan);
}

void Plan::configure(std::string_view text) {
    const std::lock_guard lock(mutex_);
    settings_ = defaults();
    rules_.clear();
    counts_.clear();
    while (!text.empty()) {
        const auto word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(word.size() + 1, text.size()));
        if (word.empty()) continue;
        const auto equals = word.find('=');
        const std::string name(word.substr(0, equals));
        const auto value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
        if (name == "fail") {
            add_rule(How::fails, value);
        } else if (name == "late") {
            add_rule(How::fails_later, value);
        } else if (name == "hang") {
            add_rule(How::hangs, value);
        } else if (settings_.contains(name) && !value.empty()) {
            settings_[name] = std::stol(std::string(value));
        } else {
            misuse("the plan has the unknown word " + std::string(word));
        }
    }
}

void Plan::add_rule(How how, std::string_view text) {
    const auto first = text.find(':');
    if (first == text.npos) misuse("the plan's rule has no number: " + std::string(text));
    const auto second = text.find(':', first + 1);
    Rule rule;
    rule.how = how;
    rule.call = text.substr(0, first);
    rule.number = std::stol(std::string(text.substr(first + 1, second - first - 1)));
    if (second != text.npos) rule.code = std::stoi(std::string(text.substr(second + 1)));
    rules_.push_back(std::move(rule));
}

Plan::Fate Plan::enter(const char* call) {
    const std::lock_guard lock(mutex_);
    const long number = ++counts_[call];
    for (const Rule& rule : rules_) {
        if (rule.number == number && rule.call == call) return {rule.how, rule.code};
    }
    return {};
}

int Plan::code_of(const char* call) {
    const Fate fate = enter(call);
    while (fate.how == How::hangs)
        std::this_thread::sleep_for(std::chrono::seconds(1));
    return fate.how == How::fails ? fate.code : 0;
}

long Plan::count(const std::string& call) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(call);
    return found == counts_.end() ? 0 : found->second;
}

long Plan::setting(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return settings_.at(name);
}

void Plan::pause(std::uint64_t whose, std::uint64_t step) {
    const auto delay = static_cast<std::uint64_t>(setting("delay"));
    if (delay == 0) return;
    std::mt19937_64 random(static_cast<std::uint64_t>(setting("seed")) * 1000003 + whose * 7919 +
                           step);
    random.discard(2);
    // One step of eight is slow, so that what should wait for it is found running.
    if (random() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (delay + 1)));
}

}  // namespace standin

void batchai_standin_configure(const char* text) {
    standin::Plan::get().configure(text);
}

long batchai_standin_count(const char* call) {
    return standin::Plan::get().count(call);
}
