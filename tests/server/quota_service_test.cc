// Tests of the shares of principals: one abuses the server under many names and with two keys, and
// the other keeps its share.
#include <future>
#include <string>
#include <vector>

#include "tests/server/access_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

class QuotaServiceTest : public AccessTest {
 protected:
  QuotaServiceTest() {
    Set(settings_.caller_share_percent, "50");
    for (std::string& key : abuser_) key = AddKey({.principal = "abuser", .scopes = 15});
    honest_ = AddKey({.principal = "honest", .scopes = 15});
  }

  // Sets the key, and a name that the client invents.
  static void SetCaller(const std::string& key, int number, grpc::ClientContext* context) {
    context->AddMetadata("authorization", "Bearer " + key);
    context->AddMetadata("nearfield-caller", "invented" + std::to_string(number));
  }
  // Returns the key of the abuser's next call.
  const std::string& Abuser(int number) const { return abuser_[static_cast<size_t>(number) % 2]; }

  // An upload that has begun, or was refused.
  struct OpenUpload {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<pb::UploadRequest, pb::UploadResponse>> stream;
    bool accepted = false;
    grpc::Status Finish() {
      stream->WritesDone();
      for (pb::UploadResponse response; stream->Read(&response);) {
      }
      return stream->Finish();
    }
  };
  std::unique_ptr<OpenUpload> Open(const std::string& key, const pb::UploadRequest& begin) {
    auto upload = std::make_unique<OpenUpload>();
    SetCaller(key, names_++, &upload->context);
    upload->stream = ingest_->Upload(&upload->context);
    upload->stream->Write(begin);
    pb::UploadResponse response;
    upload->accepted = upload->stream->Read(&response);
    return upload;
  }
  grpc::Status UploadAs(const std::string& key, const std::string& collection,
                        const std::vector<uint64_t>& ids) {
    const auto upload = Open(key, Begin(collection, ids.size()));
    if (upload->accepted && upload->stream->Write(Block(ids))) upload->stream->Write(Commit());
    return upload->Finish();
  }
  grpc::Status SearchOf(const std::string& key, const pb::SearchRequest& request,
                        pb::SearchResponse* response = nullptr) {
    grpc::ClientContext context;
    SetCaller(key, names_++, &context);
    return Search(request, response, &context);
  }
  void CreateAs(const std::string& key, const std::string& name) {
    EXPECT_OK(As(key, &Admin::CreateCollection,
                 FromText("name: '" + name +
                          "' dim: 2 metric: METRIC_DOT dtype: "
                          "DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64")));
  }
  static const pb::QuotaUse& DeviceUse(const pb::PrincipalUse& use) {
    EXPECT_EQ(use.quotas(0).name(), "device_bytes");
    return use.quotas(0);
  }
  void LimitDeviceBytes(const std::string& principal, int64_t bytes) {
    EXPECT_OK(ChangeKeyFile(path_, [&](KeyFile* file) {
      file->limits[principal][Quota::kDeviceBytes] = bytes;
      return absl::OkStatus();
    }));
    if (server_ != nullptr) ReloadKeys();
  }

  std::string abuser_[2];
  std::string honest_;
  std::atomic<int> names_{0};
};

TEST_F(QuotaServiceTest, TheSearchQueue) {
  Set(settings_.queue_requests_max, "8");
  Set(settings_.admission, "false");
  ServeTwo();
  ASSERT_OK(UploadAs(admin_key_, "c", {1, 2}));
  script_->search_gate.Close();
  std::vector<std::future<grpc::Status>> calls;
  // Starts a search, and waits until it is in the queue or refused.
  const auto start = [&](const std::string& key) {
    SearchQueue& queue = server_->state().core()->queue;
    const int64_t before = queue.waiting();
    calls.push_back(std::async(std::launch::async, [this, &key] {
      return SearchOf(key, SearchFor("c", {1, 0}));
    }));
    while (queue.waiting() == before &&
           calls.back().wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      std::this_thread::yield();
    }
    return queue.waiting() > before;
  };
  calls.push_back(std::async(std::launch::async, [this] {
    return SearchOf(admin_key_, SearchFor("c", {1, 0}));
  }));
  script_->search_gate.AwaitArrivals(1);  // the device is busy now
  int accepted = 0;
  for (int i = 0; i < 16; ++i) accepted += start(Abuser(i)) ? 1 : 0;
  EXPECT_EQ(accepted, 4);  // half
  EXPECT_TRUE(start(honest_));
  EXPECT_TRUE(start(honest_));
  script_->search_gate.Open();
  int served = 0;
  for (auto& call : calls) served += call.get().ok() ? 1 : 0;
  EXPECT_EQ(served, 1 + accepted + 2);
}

TEST_F(QuotaServiceTest, PlacesAndTokensOfUploads) {
  const store::TempDir data;
  Set(settings_.data_dir, data / "data");
  Set(settings_.uploads_max, "4");
  Set(settings_.upload_tokens_max, "4");
  ServeTwo();
  const auto begin = [](const std::string& token) {
    pb::UploadRequest request = Begin("c", 4);
    request.mutable_begin()->set_upload_token(token);
    return request;
  };
  std::vector<std::unique_ptr<OpenUpload>> uploads;
  for (int i = 0; i < 4; ++i) {
    uploads.push_back(Open(Abuser(i), begin("abuse" + std::to_string(i))));
    EXPECT_EQ(uploads.back()->accepted, i < 2);
  }
  EXPECT_THAT(uploads.back()->Finish(), RefusedWith(kResourceExhausted, "of this caller"));
  EXPECT_OK(UploadAs(honest_, "c", {100}));
  // The places become free, and the tokens keep their rows.
  for (int i = 0; i < 2; ++i) {
    pb::UploadResponse response;
    EXPECT_TRUE(uploads[static_cast<size_t>(i)]->stream->Write(Block({1})));
    EXPECT_TRUE(uploads[static_cast<size_t>(i)]->stream->Read(&response));
    EXPECT_THAT(uploads[static_cast<size_t>(i)]->Finish(), HasCode(kInvalidArgument));
  }
  AwaitNoUpload();
  for (int i = 0; i < 2; ++i) {
    const auto refused = Open(Abuser(i), begin("more" + std::to_string(i)));
    EXPECT_FALSE(refused->accepted);
    EXPECT_THAT(refused->Finish(), RefusedWith(kResourceExhausted, "resumable uploads"));
  }
  const auto first = Open(honest_, begin("honest0"));
  const auto second = Open(honest_, begin("honest1"));
  EXPECT_TRUE(first->accepted && second->accepted);
  for (OpenUpload* each : {first.get(), second.get()}) each->context.TryCancel();
  for (OpenUpload* each : {first.get(), second.get()}) EXPECT_FALSE(each->Finish().ok());
}

TEST_F(QuotaServiceTest, TheEpochsOfCursors) {
  Set(settings_.epochs_kept_max, "2");
  Set(settings_.epochs_kept_percent, "100");
  ServeTwo();
  pb::SearchRequest first = SearchFor("c", {1, 0});
  first.set_k(1);
  first.set_with_cursor(true);
  std::vector<std::string> cursors;
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_OK(UploadAs(admin_key_, "c", {10 * i, 10 * i + 1, 10 * i + 2}));
    pb::SearchResponse response;
    ASSERT_OK(SearchOf(i == 0 ? honest_ : Abuser(static_cast<int>(i)), first, &response));
    cursors.push_back(response.results(0).next_cursor());
  }
  ASSERT_OK(UploadAs(admin_key_, "c", {1000}));
  const std::vector<bool> kept = {true, false, false, true, true};
  for (size_t i = 0; i < cursors.size(); ++i) {
    pb::SearchRequest next = first;
    next.set_cursor(cursors[i]);
    EXPECT_EQ(SearchOf(i == 0 ? honest_ : Abuser(0), next).ok(), kept[i]) << i;
  }
}

TEST_F(QuotaServiceTest, DeviceBytes) {
  LimitDeviceBytes("abuser", 100 * kDeviceRowBytes);
  ServeTwo();
  CreateAs(abuser_[0], "a1");
  CreateAs(abuser_[1], "a2");
  CreateAs(honest_, "h");
  const auto running = Open(abuser_[0], Begin("a1", 60));
  ASSERT_TRUE(running->accepted);
  grpc::Status refused = Open(abuser_[1], Begin("a2", 41))->Finish();
  EXPECT_THAT(refused, RefusedWith(kResourceExhausted, "begin.rows_max", "principal abuser",
                                   absl::StrCat("holds ", 60 * kDeviceRowBytes, " of at most ",
                                                100 * kDeviceRowBytes)));
  ASSERT_TRUE(running->stream->Write(Block({1, 2, 3})) && running->stream->Write(Commit()));
  EXPECT_OK(running->Finish());
  // Uploads of others into its collections count for the owner; its own limit is that of no
  // other.
  EXPECT_THAT(Open(honest_, Begin("a2", 98))->Finish(), RefusedWith(kResourceExhausted, "abuser"));
  EXPECT_TRUE(Open(abuser_[0], Begin("h", 1000))->accepted);
  AwaitNoUpload();
  EXPECT_OK(UploadAs(honest_, "h", std::vector<uint64_t>{1, 2, 3, 4}));

  pb::GetCapacityResponse capacity;
  EXPECT_OK(As(admin_key_, &Admin::GetCapacity, {}, &capacity));
  ASSERT_EQ(capacity.principals_size(), 3);
  EXPECT_EQ(capacity.principals(0).principal(), "abuser");
  EXPECT_EQ(DeviceUse(capacity.principals(0)).used(), 3 * kDeviceRowBytes);
  EXPECT_EQ(DeviceUse(capacity.principals(0)).max(), 100 * kDeviceRowBytes);
  EXPECT_EQ(capacity.principals(1).principal(), "honest");
  EXPECT_EQ(DeviceUse(capacity.principals(1)).used(), 4 * kDeviceRowBytes);
  EXPECT_EQ(DeviceUse(capacity.principals(1)).max(), 0u);
  EXPECT_EQ(capacity.principals(2).principal(), "someone");
  pb::GetCollectionResponse collection;
  EXPECT_OK(As(honest_, &Admin::GetCollection, Named("a1"), &collection));
  EXPECT_EQ(collection.collection().owner(), "abuser");
  EXPECT_EQ(server_->state().call_counter().refusals().at("principal_device_bytes"), 2);

  // A lower limit holds after the reload, and nothing is lost.
  LimitDeviceBytes("abuser", 1);
  EXPECT_FALSE(Open(abuser_[0], Begin("a1", 1))->accepted);
  EXPECT_OK(As(abuser_[0], &Retrieval::Count, Of("a1")));
  EXPECT_OK(As(abuser_[0], &Ingest::Delete, FromText("collection: 'a1' ids { numbers: 1 }")));
  LimitDeviceBytes("abuser", 100 * kDeviceRowBytes);
  EXPECT_OK(As(abuser_[0], &Admin::DropCollection, Named("a1")));
  EXPECT_TRUE(Open(abuser_[0], Begin("a2", 100))->accepted);
}

}  // namespace
}  // namespace nearfield::server
