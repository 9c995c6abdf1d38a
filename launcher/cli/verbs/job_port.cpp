// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <utility>
#include <vector>

#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_shell.hpp"
#include "cli/verbs/named_job.hpp"
#include "visit/forward.hpp"
#include "visit/visit.hpp"

namespace batchai::cli {
namespace {

struct JobPortOptions {
    NamedJob job;
    visit::NodeChoice place;
    std::vector<std::string> ports;
};

Answer job_port(const JobPortOptions& options) {
    NamedJob job = options.job;
    std::vector<std::string> texts = options.ports;
    // With --job, the first word is a port.
    if (job.option && job.word) {
        texts.insert(texts.begin(), *job.word);
        job.word.reset();
    }
    const auto named = TRY(key_of(job, "port"));
    if (texts.empty())
        return base::fail("name a port of the node", "batchai job port",
                          "batchai job port train 6006", base::ExitCode::usage);
    std::vector<visit::PortWish> wishes;
    for (const std::string& text : texts)
        wishes.push_back(TRY(visit::port_wish(text)));
    const auto here = TRY(open_context());
    const auto running = TRY(visit::running_job(here.store, here.slurm, named.key, named.task));
    const auto place = TRY(visit::choose_node(running, options.place));
    visit::say_which_node(running, options.place, place.node);
    return Outcome{.exit_code = TRY(
                       visit::forward_ports(here.store, here.slurm, running, place.node, wishes))};
}

}  // namespace

const Verbs job_port_verbs("job", 100, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(
        tree, job, "port",
        "Reach ports of a job's node, such as TensorBoard's, as ports of this host. Only your own "
        "programs can connect to them",
        "batchai job port train 6006\n"
        "  batchai job port train 8888:6006 --rank 3",
        job_port, Printing::by_itself);
    add_named_job(leaf, options->job);
    leaf.add_option("port", options->ports,
                    "Port of the node, or HERE:PORT with the port of this host; HERE is 0 for any "
                    "free one. Can be given again")
        .type_name("PORT");
    add_node_choice(leaf, options->place);
});

}  // namespace batchai::cli
