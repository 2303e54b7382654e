#pragma once

#include <string>

#include "client/cli/command_line.h"
#include "client/cli/options.h"

namespace attention::cli {

// The arguments of a command that sends one request.
void AddInputFlags(Command command, InputOptions& inputs);

// --version and --alias, of which a command takes at most one.
void AddVersionFlags(Command command, VersionChoice& which);

// Fails unless there is something to send: `inputs_q`, and a weight set or a head layout. `instead` names what the
// command takes in their place, for instance " (or --public-question)".
void CheckInputFlags(Command command, const std::string& instead);

// Fails if an argument of AddInputFlags selects what is computed, which `flag` does already.
void CheckNoInputFlags(Command command, const std::string& flag);

}  // namespace attention::cli
