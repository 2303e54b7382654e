#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/input_options.h"

namespace attention::cli {

// The options of a command that sends one request, filling `inputs` when they are parsed.
void AddInputFlags(CLI::App& command, InputOptions& inputs);

// --version and --alias, of which a command takes one.
void AddVersionFlags(CLI::App& command, VersionChoice& which);

// Throws CLI's error unless there is something to send: `inputs_q`, and a weight set or the layout of the heads.
// `instead` names what the command takes in their place, for instance " (or --public-question)".
void CheckInputFlags(const CLI::App& command, const std::string& instead);

// Throws CLI's error for an option of AddInputFlags that says what is computed, where `flag` says that already.
void CheckNoInputFlags(const CLI::App& command, const std::string& flag);

}  // namespace attention::cli
