#!/usr/bin/env bash
# Fails, with file and line, for phrases that are harder to read than the usual English ones.
#
#   tests/prose_check.sh [FILE…]    default: every file of the repository
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Each line: a Perl regular expression in any case, a tab, what to write instead.
readonly phrases='
\b(what|query|queries|rows?|src|dst|inputs?(_q)?`?) asks?\b	query input
\b(is|are|was|were) asked\b(?! (for|to)\b)	key and value input; was called
\bstands?\b(?![- ](for|in\b|ins\b|alone program))	is, appears, is at
\bstands? in\b	is in, appears in
\bbehind the (last|first|one|diagonal|end|key|query|header|slash|dot|name|brace)\b	after the …
\b(those|rows|keys|queries|before and|bytes) behind\b	after
\b(what|bytes|lists|as it) came\b	the actual value; received
\bwanted\b	expected
\bwants?,? (an?|the|at|no|got|found|`\w+`)\b	requires; expected X, got Y
\b(found|got) [^ ]{1,30}, (want|need)	expected X, got Y
\bmay go at any\b|\bgoes (away|with (it|the))\b|\bit goes\b(?! (on|back|to|through|into))|\b(falls?|fell|falling) away\b	is destroyed; is left out
(?<!")\bnobody\b	no caller, no thread
\b(he|his|him)\b	they, the caller
\bfor want of\b	without
\bas ever\b	as always
\bso many\b	that many
\b(ends?|ended) well\b	finishes successfully
\bneeds not\b	does not need
\bwhatever\b	regardless of, every
\b(told|tells?) of\b	is informed about
\blays (?!out\b)	puts, shows
\bholds for\b	applies to
\b(come|comes|came) again\b	retry
\btakes? `?\w+`? along\b|\bduty to\b	takes ownership of, must
\bgives up the call\b|\bOf the thread that\b	cancels the call; name the subject first
\banything of the CPUs?\b|\ball there is of\b	CPU time
\bof theirs\b|\bof his\b	their
\blooked into\b	checked, read
\bdo without\b	lack
'

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(git ls-files --cached --others --exclude-standard)

status=0
while IFS=$'\t' read -r pattern instead; do
  [[ -n $pattern ]] || continue
  while read -r hit; do
    echo "$hit"
    echo "    write instead: $instead"
    status=1
  done < <(grep -nHIP -- "(?i)$pattern" "${files[@]}" 2>/dev/null | grep -v '^tests/prose_check\.sh:')
done <<<"$phrases"
((status != 0)) || echo "prose: nothing to change"
exit "$status"
