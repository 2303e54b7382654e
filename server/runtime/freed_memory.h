#pragma once

namespace attention::server {

// What malloc does with the memory that is freed.

// A fresh page costs some ten times the time of copying it. Requests and replies of megabytes come and go all the time,
// so what they leave is kept for the next ones instead of being given back to the kernel. That is kept once for each of
// malloc's arenas: with one for each CPU, instead of eight, the threads share what they keep, and the memory of the
// process soon stops growing. For the start of a process.
void KeepFreedMemory();

// Gives back what is kept now: after an unload, which leaves as much as the file was long, and which nobody does often.
void GiveBackFreedMemory();

}  // namespace attention::server
