// A server that is killed at a random moment of a change restarts with everything that it acknowledged and nothing
// half-done. ATTENTION_KILL_ROUNDS sets the number of kills, ATTENTION_KILL_SEED their moments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/checkpoint/sha256.h"
#include "tests/testing/files/checkpoint_model.h"
#include "tests/testing/files/temporary_folder.h"
#include "tests/testing/server/child_process.h"
#include "tests/testing/server/requests.h"
#include "tests/testing/server/uploads.h"
#include "tests/testing/server/wire.h"

namespace attention::test {
namespace {

namespace fs = std::filesystem;

using Models = std::map<std::string, CheckpointModel>;

// The first two are uploaded, the third is an operator's file.
constexpr const char* kCheckpoints[] = {"one", "two", "file"};
constexpr const char* kAliases[] = {"stable", "canary"};

enum class Kind { kReplace, kAlias, kDeleteVersion, kDeleteAll };
constexpr int kKinds = 4;

// One change of a checkpoint, applicable to the server and to the model.
struct Change {
  Kind kind = Kind::kReplace;
  std::string checkpoint = {};
  int64_t content = 0;
  std::string alias = {};
  int64_t version = 0;

  void Apply(CheckpointModel& model) const {
    if (kind == Kind::kReplace) model.Add(content);
    if (kind == Kind::kAlias) model.SetAlias(alias, version);
    if (kind == Kind::kDeleteVersion) model.Delete(version);
    if (kind == Kind::kDeleteAll) model.Delete(0);
  }
};

// Some megabytes, so that a kill can happen in the middle of an upload.
std::string FileOf(int64_t content) {
  Parameters parameters = ToParameters(SquareLayer(content));
  parameters.push_back(FloatParameter("padding", {1 << 19}, std::vector<float>(1 << 19, 0.5f)));
  return Serialize(parameters);
}

int64_t FromEnvironment(const char* name, int64_t default_value) {
  const char* text = std::getenv(name);
  int64_t value = default_value;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : default_value;
}

class KillTest : public ::testing::Test {
 protected:
  KillTest() { fs::create_directory(weights()); }

  void StartServer() {
    const std::string address = "unix:" + (folder_.path() / "socket").string();
    server_.emplace(std::vector<std::string>{ATTENTION_SERVER, "--listen", address, "--weights-dir", weights().string(),
                                             "--log-level", "off", "--strict-weights", "--keep-versions", "1"});
    ASSERT_TRUE(server_->started());
    auto client = Client::Connect(address);
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
    ASSERT_THAT(client_->WaitUntilReady(std::chrono::seconds(60)), IsOk());
  }

  // Runs changes until the server is killed, a random time after a random number of changes.
  void ChangeUntilKilled(Kind preferred) {
    absl::Notification enough;
    std::thread killer([this, &enough, delay = absl::Microseconds(Draw(0, 30000))] {
      enough.WaitForNotification();
      absl::SleepFor(delay);
      server_->Signal(SIGKILL);
    });
    absl::Status status;
    for (int64_t before = Draw(0, 4); status.ok(); --before) {
      if (before == 0) enough.Notify();
      pending_ = DrawChange(preferred);
      status = Do(*pending_);
      if (!status.ok()) break;
      pending_->Apply(models_[pending_->checkpoint]);
      pending_.reset();
      ++acknowledged_;
    }
    // Any other code is a failure of the change itself.
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    if (!enough.HasBeenNotified()) enough.Notify();
    killer.join();
    EXPECT_EQ(server_->Await(), -SIGKILL);
  }

  // The server serves every acknowledged change, and all or nothing of the unacknowledged one.
  void ExpectNothingLost() {
    const auto list = client_->ListWeightSets();
    ASSERT_THAT(list, IsOk());
    if (pending_) {
      CheckpointModel applied = models_[pending_->checkpoint];
      pending_->Apply(applied);
      if (Describe(pending_->checkpoint, *list) == Describe(applied)) {
        models_[pending_->checkpoint] = applied;
        ++applied_;
      } else {
        ++not_applied_;
      }
      pending_.reset();
    }
    for (const char* checkpoint : kCheckpoints) {
      ASSERT_EQ(Describe(checkpoint, *list), Describe(models_[checkpoint])) << checkpoint;
      for (const auto& [version, content] : models_[checkpoint].contents) ExpectServed(checkpoint, version, content);
    }
  }

  void ExpectServed(const std::string& checkpoint, int64_t version, int64_t content) const {
    v1::AttendRequest request = QuestionRequest(checkpoint);
    request.set_version(version);
    const auto reply = client_->Attend(ClientRequest(request));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->version, version);
    EXPECT_THAT(reply->output, Near(SquareAnswer(content))) << checkpoint << " " << version;
  }

  // No file of an unfinished upload, and no blob that no version names.
  void ExpectNothingLeftOver() const {
    EXPECT_TRUE(fs::is_empty(weights() / ".attention" / "uploads"));
    std::set<std::string> named;
    for (const auto& [checkpoint, model] : models_) {
      for (const auto& [version, content] : model.contents) {
        Sha256 digest;
        digest.Update(FileOf(content));
        named.insert(digest.Finish());
      }
    }
    for (const auto& blob : fs::directory_iterator(weights() / ".attention" / "blobs")) {
      EXPECT_TRUE(named.count(blob.path().stem().string())) << blob.path();
    }
  }

  int64_t Draw(int64_t low, int64_t high) { return DrawInteger(low, high, random_); }

  // Acknowledged changes; and unacknowledged ones that were, or were not, applied.
  int64_t acknowledged_ = 0, applied_ = 0, not_applied_ = 0;
  std::mt19937 random_{static_cast<uint32_t>(FromEnvironment("ATTENTION_KILL_SEED", 1))};

 private:
  fs::path weights() const { return folder_.path() / "weights"; }

  Change DrawChange(Kind preferred) {
    Change change{.kind = Draw(0, 1) == 0 ? preferred : static_cast<Kind>(Draw(0, kKinds - 1)),
                  .checkpoint = kCheckpoints[Draw(0, 2)]};
    const CheckpointModel& model = models_[change.checkpoint];
    std::vector<int64_t> versions, without_alias;
    for (const auto& [version, content] : model.contents) {
      versions.push_back(version);
      const auto names_it = [version = version](const auto& alias) { return alias.second == version; };
      if (std::none_of(model.aliases.begin(), model.aliases.end(), names_it)) without_alias.push_back(version);
    }
    if (change.kind == Kind::kDeleteVersion && without_alias.empty()) change.kind = Kind::kReplace;
    if (versions.empty()) change.kind = Kind::kReplace;
    const auto one_of = [this](const std::vector<int64_t>& some) { return some[Draw(0, some.size() - 1)]; };
    if (change.kind == Kind::kReplace) change.content = ++last_content_;
    if (change.kind == Kind::kDeleteVersion) change.version = one_of(without_alias);
    if (change.kind == Kind::kAlias) {
      change.alias = kAliases[Draw(0, 1)];
      versions.push_back(0);
      change.version = one_of(versions);
    }
    return change;
  }

  absl::Status Do(const Change& change) const {
    switch (change.kind) {
      case Kind::kAlias:
        return client_->SetAlias({.checkpoint = change.checkpoint, .alias = change.alias, .version = change.version})
            .status();
      case Kind::kDeleteVersion:
        return client_->Delete(change.checkpoint, change.version).status();
      case Kind::kDeleteAll:
        return client_->Delete(change.checkpoint).status();
      case Kind::kReplace:
        break;
    }
    if (change.checkpoint != kCheckpoints[2]) {
      return UploadBytes(*client_, change.checkpoint, FileOf(change.content)).status();
    }
    folder_.Write("weights/file.safetensors", FileOf(change.content));
    return client_->LoadCheckpoint(change.checkpoint).status();
  }

  const TemporaryFolder folder_;
  std::optional<ChildProcess> server_;
  std::optional<Client> client_;
  Models models_;                  // what was acknowledged
  std::optional<Change> pending_;  // sent and not acknowledged
  int64_t last_content_ = 0;
};

TEST_F(KillTest, LosesNoAcknowledgedChange) {
  const int64_t rounds = FromEnvironment("ATTENTION_KILL_ROUNDS", 20);
  ASSERT_NO_FATAL_FAILURE(StartServer());
  for (int64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    ChangeUntilKilled(static_cast<Kind>(round % kKinds));
    ASSERT_NO_FATAL_FAILURE(StartServer());
    ASSERT_NO_FATAL_FAILURE(ExpectNothingLost());
    ExpectNothingLeftOver();
    if (HasFailure()) break;
  }
  std::printf("changes: %lld acknowledged; unacknowledged: %lld applied, %lld not applied\n",
              static_cast<long long>(acknowledged_), static_cast<long long>(applied_),
              static_cast<long long>(not_applied_));
}

}  // namespace
}  // namespace attention::test
