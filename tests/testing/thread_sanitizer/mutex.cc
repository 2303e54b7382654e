#include "absl/synchronization/mutex.h"

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

// ThreadSanitizer sees only code that was compiled for it, and Debian's abseil was not. Without help it reports races
// on everything that an absl::Mutex guards. These definitions replace the library's, call them, and tell the sanitizer
// about them. Part of a test program only with ATTENTION_SANITIZE=thread.

#define ATTENTION_TO_STRING(name) #name
#define ATTENTION_EXPAND(name) ATTENTION_TO_STRING(name)

namespace {

// The library's function, by its mangled name: {"_ZN4absl", "5Mutex4LockEv"} with the inline namespace in between.
template <typename Function>
Function* Library(const char* before, const char* after) {
  const std::string name_space = ATTENTION_EXPAND(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol = before + std::to_string(name_space.size()) + name_space + after;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol.c_str()));
}

void Acquired(const void* object) { __tsan_acquire(const_cast<void*>(object)); }
void Releasing(const void* object) { __tsan_release(const_cast<void*>(object)); }

// Wraps the condition of a waiting thread. The library evaluates it with the lock held, on this thread or on another
// one that unlocks, and the sanitizer does not see that the lock is held then.
struct GuardedCondition {
  absl::Mutex* mutex;
  const absl::Condition* condition;

  bool Eval() const {
    Acquired(mutex);
    const bool holds = condition->Eval();
    Releasing(mutex);
    return holds;
  }
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* const lock = Library<void(Mutex*)>("_ZN4absl", "5Mutex4LockEv");
  lock(this);
  Acquired(this);
}

void Mutex::Unlock() {
  static auto* const unlock = Library<void(Mutex*)>("_ZN4absl", "5Mutex6UnlockEv");
  Releasing(this);
  unlock(this);
}

bool Mutex::TryLock() {
  static auto* const try_lock = Library<bool(Mutex*)>("_ZN4absl", "5Mutex7TryLockEv");
  const bool locked = try_lock(this);
  if (locked) Acquired(this);
  return locked;
}

void Mutex::ReaderLock() {
  static auto* const lock = Library<void(Mutex*)>("_ZN4absl", "5Mutex10ReaderLockEv");
  lock(this);
  Acquired(this);
}

void Mutex::ReaderUnlock() {
  static auto* const unlock = Library<void(Mutex*)>("_ZN4absl", "5Mutex12ReaderUnlockEv");
  Releasing(this);
  unlock(this);
}

bool Mutex::AwaitCommon(const Condition& condition, synchronization_internal::KernelTimeout timeout) {
  static auto* const await = Library<bool(Mutex*, const Condition&, synchronization_internal::KernelTimeout)>(
      "_ZN4absl", "5Mutex11AwaitCommonERKNS0_9ConditionENS0_24synchronization_internal13KernelTimeoutE");
  const GuardedCondition guarded{this, &condition};
  const Condition evaluated(&guarded, &GuardedCondition::Eval);
  Releasing(this);
  const bool holds = await(this, evaluated, timeout);
  Acquired(this);
  return holds;
}

bool CondVar::WaitCommon(Mutex* mutex, synchronization_internal::KernelTimeout timeout) {
  static auto* const wait = Library<bool(CondVar*, Mutex*, synchronization_internal::KernelTimeout)>(
      "_ZN4absl", "7CondVar10WaitCommonEPNS0_5MutexENS0_24synchronization_internal13KernelTimeoutE");
  Releasing(mutex);
  const bool timed_out = wait(this, mutex, timeout);
  Acquired(mutex);
  return timed_out;
}

#if ABSL_LTS_RELEASE_VERSION < 20230125
void Mutex::LockWhen(const Condition& condition) {
  static auto* const lock_when =
      Library<void(Mutex*, const Condition&)>("_ZN4absl", "5Mutex8LockWhenERKNS0_9ConditionE");
  const GuardedCondition guarded{this, &condition};
  const Condition evaluated(&guarded, &GuardedCondition::Eval);
  Releasing(this);
  lock_when(this, evaluated);
  Acquired(this);
}
#endif

void Notification::Notify() {
  static auto* const notify = Library<void(Notification*)>("_ZN4absl", "12Notification6NotifyEv");
  Releasing(this);
  notify(this);
}

void Notification::WaitForNotification() const {
  static auto* const wait = Library<void(const Notification*)>("_ZNK4absl", "12Notification19WaitForNotificationEv");
  wait(this);
  Acquired(this);
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const wait = Library<bool(const Notification*, Duration)>(
      "_ZNK4absl", "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = wait(this, timeout);
  if (notified) Acquired(this);
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
