#!/usr/bin/env python3
"""Finds library names that a source file uses without an include of their header.

Such a file compiles only because another library header happens to include that header, so it may not compile with the
next compiler or library. Precompiled headers hide it, too. An include in one of our own headers, which the file includes,
counts. Prints FILE:LINE and exits with 1 if it finds any.
"""
import re
import subprocess
import sys

HEADERS = {
    "absl/strings/str_cat.h": "absl::(StrCat|StrAppend|Hex)",
    "absl/strings/str_join.h": "absl::StrJoin",
    "absl/strings/str_split.h": "absl::StrSplit",
    "absl/strings/str_replace.h": "absl::StrReplaceAll",
    "absl/strings/str_format.h": "absl::(StrFormat|StrAppendFormat|FPrintF)",
    "absl/strings/match.h": "absl::(StartsWith|EndsWith|StrContains|EqualsIgnoreCase)",
    "absl/strings/strip.h": "absl::(ConsumePrefix|ConsumeSuffix|StripPrefix|StripSuffix)",
    "absl/strings/escaping.h": "absl::(BytesToHexString|CHexEscape|Base64Escape|HexStringToBytes)",
    "absl/strings/numbers.h": "absl::(SimpleAtoi|SimpleAtod|SimpleAtof|SimpleHexAtoi)",
    "absl/strings/string_view.h": "absl::string_view",
    "absl/status/statusor.h": "absl::StatusOr",
    "absl/status/status.h": "absl::(Status|StatusCode|OkStatus|[A-Z][A-Za-z]+Error)",
    "absl/types/span.h": "absl::(Span|MakeSpan|MakeConstSpan)",
    "absl/synchronization/mutex.h": "absl::(Mutex|MutexLock|CondVar)",
    "absl/synchronization/notification.h": "absl::Notification",
    "absl/time/clock.h": "absl::(Now|SleepFor)",
    "absl/time/time.h": "absl::(Time|Duration|Seconds|Milliseconds|InfiniteFuture|InfiniteDuration)",
    "absl/algorithm/container.h": "absl::c_",
    "absl/container/flat_hash_map.h": "absl::flat_hash_map",
    "absl/container/flat_hash_set.h": "absl::flat_hash_set",
    "absl/functional/any_invocable.h": "absl::AnyInvocable",
    "absl/functional/function_ref.h": "absl::FunctionRef",
    "absl/base/thread_annotations.h": "ABSL_(GUARDED_BY|EXCLUSIVE_LOCKS_REQUIRED|LOCKS_EXCLUDED)",
    "algorithm": "std::(min|max|copy|copy_n|fill|fill_n|sort|find|find_if|all_of|any_of|transform|clamp|equal|reverse)",
    "array": "std::array",
    "atomic": "std::atomic",
    "chrono": "std::chrono",
    "cmath": "std::(sqrt|exp|log|tanh|abs|isfinite|isnan|isinf|fma)",
    "cstring": "std::(memcpy|memset|memcmp|strlen|strerror)",
    "deque": "std::deque",
    "fstream": "std::(ifstream|ofstream|fstream)",
    "functional": "std::function",
    "future": "std::(future|promise|async)",
    "limits": "std::numeric_limits",
    "map": "std::(map|multimap)",
    "memory": "std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)",
    "mutex": "std::(mutex|once_flag|call_once|lock_guard)",
    "numeric": "std::(accumulate|iota|reduce|gcd)",
    "optional": "std::(optional|nullopt)",
    "random": "std::(mt19937|mt19937_64|uniform_int_distribution|uniform_real_distribution|normal_distribution)",
    "set": "std::(set|multiset)",
    "sstream": "std::(stringstream|ostringstream|istringstream)",
    "string": "std::(string|to_string|getline)",
    "thread": "std::(thread|this_thread)",
    "tuple": "std::(tuple|tie|make_tuple)",
    "variant": "std::(variant|visit|get_if|holds_alternative)",
    "vector": "std::vector",
}
# A header that includes another one by its own documentation.
PROVIDES = {
    "absl/status/statusor.h": ["absl/status/status.h"],
    "absl/time/clock.h": ["absl/time/time.h"],
    "absl/synchronization/mutex.h": ["absl/base/thread_annotations.h"],
}
INCLUDE = re.compile(r'#include [<"]([^>"]+)[>"]')
COMMENT_OR_STRING = re.compile(r'//.*|"(?:\\.|[^"\\])*"')


def main():
    names = subprocess.run(["git", "ls-files", "*.cc", "*.h"], capture_output=True, text=True, check=True).stdout.split()
    texts = {}
    for name in names:
        with open(name, encoding="utf-8") as file:
            texts[name] = file.read()
    closures = {}

    def closure(name):
        if name not in closures:
            closures[name] = set()  # ends a cycle
            found = set()
            for include in INCLUDE.findall(texts[name]):
                found.add(include)
                found.update(PROVIDES.get(include, []))
                if include in texts:
                    found |= closure(include)
            closures[name] = found
        return closures[name]

    uses = {header: re.compile(r"\b(?:" + pattern + r")" + ("" if pattern.endswith("_") else r"\b"))
            for header, pattern in HEADERS.items()}
    findings = 0
    for name, text in texts.items():
        missing = {header: use for header, use in uses.items() if header not in closure(name)}
        for number, line in enumerate(text.split("\n"), 1):
            line = line if line.startswith("#") else COMMENT_OR_STRING.sub("", line)
            for header in [header for header, use in missing.items() if use.search(line)]:
                print(f"{name}:{number}: expected an include of {header}, got none")
                findings += 1
                del missing[header]
    print(f"includes: {findings} missing in {len(names)} files")
    return 1 if findings else 0


sys.exit(main())
