#pragma once

namespace attention {

// Makes the threads on which gRPC runs callbacks live until the process ends. To be called before a call with
// callbacks; all but the first time it does nothing. Thread-safe.
//
// gRPC ends these threads with the last channel that uses them, and waits for them where that channel goes. When it
// goes on one of these threads, since a call outlives its Client or its callback held the last one, the thread would
// wait for itself: gRPC 1.51 then frees its queue twice.
void KeepCallbackThreads();

}  // namespace attention
