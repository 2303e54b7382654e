#include "server/runtime/stop_signals.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>

namespace attention::server {
namespace {

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

const char* Name(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

// A shell tells a program that was ended by SIGINT from one that ended by itself.
void EndBySigint() {
  signal(SIGINT, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(SIGINT);
}

}  // namespace

StopSignals::StopSignals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Loop(); });
}

StopSignals::~StopSignals() {
  eventfd_write(end_fd_, 1);
  thread_.join();
  close(signal_fd_);
  close(end_fd_);
}

void StopSignals::SetServing() {
  absl::MutexLock lock(&mu_);
  phase_ = Phase::kServing;
}

void StopSignals::Loop() {
  pollfd polled[] = {{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}};
  while (true) {
    if (poll(polled, 2, -1) < 0) continue;
    signalfd_siginfo received;
    if (polled[0].revents == 0) return;
    if (read(signal_fd_, &received, sizeof(received)) == sizeof(received)) Handle(static_cast<int>(received.ssi_signo));
  }
}

void StopSignals::Handle(int signal) {
  if (signal == SIGHUP) {
    spdlog::info("received SIGHUP, which is ignored");
  } else {
    Stop(signal);
  }
}

void StopSignals::Stop(int signal) {
  Phase before;
  {
    absl::MutexLock lock(&mu_);
    before = phase_;
    if (phase_ == Phase::kServing) phase_ = Phase::kStopping;
  }
  switch (before) {
    case Phase::kStarting:
      spdlog::info("received {} before the start was complete; stopped", Name(signal));
      std::_Exit(0);
    case Phase::kServing:
      spdlog::info("received {}; SIGINT ends the process at once", Name(signal));
      stop_.Notify();
      return;
    case Phase::kStopping:
      spdlog::info("received {} while stopping", Name(signal));
      if (signal == SIGINT) EndBySigint();
  }
}

}  // namespace attention::server
