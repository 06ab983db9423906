// Tests of the checks of calls against API keys: every RPC with every scope and every kind of
// credential, generated from the descriptors of the services.
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "tests/server/access_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

bool IsDenied(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
}

// Every RPC x every scope x every kind of credential.
TEST_F(AccessTest, EveryMethodChecksEveryKindOfCredential) {
  struct Credential {
    Scope scope;
    std::string collections;
    std::string text;
  };
  std::vector<Credential> good;
  std::vector<std::string> bad = {"",
                                  "Bearer",
                                  "Bearer ",
                                  "bearer " + admin_key_,
                                  "Basic " + admin_key_,
                                  "Bearer nf_x_y",
                                  "Bearer " + admin_key_ + "0"};
  for (const auto& [scope, name] : kScopeNames) {
    for (const char* const collections : {"c", "c*", "*", "other", "d*"}) {
      const auto scopes = static_cast<uint8_t>(scope);
      good.push_back({scope, collections, AddKey({.scopes = scopes, .collections = collections})});
    }
    const Microseconds past(std::chrono::seconds(1));
    bad.push_back("Bearer " + AddKey({.scopes = static_cast<uint8_t>(scope), .expires = past}));
    std::string wrong = "Bearer " + good.back().text;
    wrong.back() = wrong.back() == '0' ? '1' : '0';
    bad.push_back(wrong);
  }
  const std::string revoked = AddKey({.scopes = 15});
  RemoveKey(revoked);
  bad.push_back("Bearer " + revoked);
  ServeTwo();
  for (const MethodDescriptor* method : AllMethods()) {
    const MethodAccess& access = AccessOf(*method);
    for (const std::string& authorization : bad) {
      const grpc::Status status = CallAny(*method, authorization, "c");
      EXPECT_EQ(status.error_code() == grpc::StatusCode::UNAUTHENTICATED, !access.is_open)
          << method->full_name() << " with '" << authorization << "': " << status.error_message();
    }
    for (const Credential& key : good) {
      const bool covers = access.target == AccessTarget::kCollections
                              ? key.collections.front() == 'c' || key.collections == "*"
                          : access.target == AccessTarget::kServer ? key.collections == "*"
                                                                   : true;
      const bool allowed =
          access.is_open || (covers && (access.scopes & static_cast<uint8_t>(key.scope)) != 0);
      const grpc::Status status = CallAny(*method, "Bearer " + key.text, "c");
      EXPECT_EQ(IsDenied(status), !allowed)
          << method->full_name() << " with the scope " << static_cast<int>(key.scope) << " for "
          << key.collections << ": " << status.error_message();
      EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED, !allowed);
    }
  }
}

// A refusal arrives although the client sends no request: the server does not read the body first.
TEST_F(AccessTest, ACallIsRefusedBeforeItsBodyIsRead) {
  const std::string searcher = AddKey({.scopes = static_cast<uint8_t>(Scope::kSearch)});
  ServeTwo();
  for (const MethodDescriptor* method : AllMethods()) {
    if (AccessOf(*method).is_open) continue;
    EXPECT_THAT(CallAny(*method, "", "c", /*sends=*/false),
                HasCode(absl::StatusCode::kUnauthenticated));
    if ((AccessOf(*method).scopes & static_cast<uint8_t>(Scope::kSearch)) != 0) continue;
    EXPECT_THAT(CallAny(*method, "Bearer " + searcher, "c", /*sends=*/false),
                HasCode(absl::StatusCode::kPermissionDenied));
  }
}

TEST_F(AccessTest, AnAliasNeedsBothNames) {
  const std::string narrow = AddKey({.scopes = 15, .collections = "c*"});
  const std::string alias_alone = AddKey({.scopes = 15, .collections = "c-alias"});
  const std::string target_alone = AddKey({.scopes = 15, .collections = "other"});
  ServeTwo();
  for (const std::string& key : {narrow, alias_alone, target_alone}) {
    for (const MethodDescriptor* method : AllMethods()) {
      const MethodAccess& access = AccessOf(*method);
      // Upload and SetAlias are tested below.
      if (access.target != AccessTarget::kCollections || method->name() == "Upload" ||
          method->name() == "SetAlias") {
        continue;
      }
      EXPECT_THAT(CallAny(*method, "Bearer " + key, "c-alias"),
                  HasCode(absl::StatusCode::kPermissionDenied))
          << method->full_name();
    }
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + key);
    EXPECT_THAT(Send({Begin("c-alias", 1)}, nullptr, &context),
                HasCode(absl::StatusCode::kPermissionDenied));
  }
  // The holder of c* may not move a name away from other, nor reach other by a new name.
  for (const char* const change :
       {"alias: 'c-alias' collection: 'c'", "alias: 'c-new' collection: 'other'",
        "alias: 'd-new' collection: 'c'", "alias: 'c-new' collection: 'c-alias'"}) {
    EXPECT_THAT(As(narrow, &Admin::SetAlias, FromText(change)),
                HasCode(absl::StatusCode::kPermissionDenied))
        << change;
  }
  EXPECT_OK(As(narrow, &Admin::SetAlias, FromText("alias: 'c-new' collection: 'c'")));
  EXPECT_OK(As(admin_key_, &Retrieval::Count, Of("c-alias")));
}

TEST_F(AccessTest, ListsShowOnlyWhatTheKeyCovers) {
  const std::string narrow = AddKey({.scopes = 15, .collections = "c"});
  ServeTwo();
  EXPECT_OK(As(admin_key_, &Admin::SetAlias, FromText("alias: 'd' collection: 'c'")));
  pb::ListCollectionsResponse listed;
  EXPECT_OK(As(narrow, &Admin::ListCollections, {}, &listed));
  ASSERT_EQ(listed.collections_size(), 1);
  EXPECT_EQ(listed.collections(0).name(), "c");
  EXPECT_THAT(listed.collections(0).aliases(), ::testing::IsEmpty());
  EXPECT_OK(As(admin_key_, &Admin::ListCollections, {}, &listed));
  EXPECT_EQ(listed.collections_size(), 2);
  EXPECT_THAT(listed.collections(0).aliases(), ElementsAre("d"));
}

TEST_F(AccessTest, TheHealthOfACollectionNeedsAKeyThatCoversIt) {
  const std::string narrow = AddKey({.scopes = 1, .collections = "c"});
  ServeTwo();
  const FromText whole = FromText("service: ''");
  const FromText one = FromText("service: 'nearfield.v1.Collection/other'");
  EXPECT_OK(Call(&Health::Check, whole));
  EXPECT_THAT(Call(&Health::Check, one), HasCode(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(As(narrow, &Health::Check, one), HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_OK(As(admin_key_, &Health::Check, one));
  grpc::ClientContext context;
  EXPECT_THAT(health_->Watch(&context, one)->Finish(), HasCode(absl::StatusCode::kUnauthenticated));
}

// Regression: the state of a collection could be read through an alias that the key covers.
TEST_F(AccessTest, TheHealthOfACollectionIsNotToldThroughAnAlias) {
  const std::string narrow = AddKey({.scopes = 1, .collections = "c*"});
  ServeTwo();
  const FromText alias = FromText("service: 'nearfield.v1.Collection/c-alias'");  // of other
  EXPECT_THAT(As(narrow, &Health::Check, alias), HasCode(kNotFound));
  EXPECT_OK(As(admin_key_, &Health::Check, alias));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + narrow);
  const auto watch = health_->Watch(&context, alias);
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_OK(As(admin_key_, &Admin::SetAlias, FromText("alias: 'c-alias' collection: 'c'")));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_OK(As(narrow, &Health::Check, alias));
  context.TryCancel();
}

// Regression: with a key for other collections, a token that another principal had used could be
// read, dropped and distinguished from an unknown one.
TEST_F(AccessTest, TokensOfACollectionThatTheKeyDoesNotCoverAreNotFound) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  const std::string narrow = AddKey({.scopes = 15, .collections = "c*"});
  ServeTwo();
  for (const char* const name : {"c", "other"}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + admin_key_);
    pb::UploadRequest begin = Begin(name, 2);
    begin.mutable_begin()->set_upload_token("t");
    EXPECT_FALSE(Send({begin, Block({1}), Begin(name, 1)}, nullptr, &context).ok());
  }
  const auto of = [](const std::string& name, const std::string& token) {
    return FromText("collection: '" + name + "' upload_token: '" + token + "'");
  };
  const auto message = [&](const std::string& name, const std::string& token) {
    const grpc::Status got = As(narrow, &Ingest::GetUpload, of(name, token));
    const grpc::Status dropped = As(narrow, &Ingest::DropUpload, of(name, token));
    EXPECT_THAT(got, HasCode(kNotFound)) << name << " " << token;
    EXPECT_EQ(dropped.error_message(), got.error_message());
    return got.error_message();
  };
  EXPECT_EQ(message("other", "t"), message("other", "unknown"));
  EXPECT_EQ(message("other", "t"), message("no-collection", "t"));
  EXPECT_EQ(message("c-alias", "t"), message("other", "t"));  // an alias of other
  pb::ListUploadsResponse listed;
  EXPECT_OK(As(narrow, &Ingest::ListUploads, {}, &listed));
  EXPECT_EQ(listed.uploads_count(), 1u);
  ASSERT_EQ(listed.uploads_size(), 1);
  EXPECT_EQ(listed.uploads(0).collection(), "c");
  EXPECT_OK(As(narrow, &Ingest::GetUpload, of("c", "t")));
  EXPECT_OK(As(narrow, &Ingest::DropUpload, of("c", "t")));
  EXPECT_OK(As(admin_key_, &Ingest::GetUpload, of("other", "t")));
  EXPECT_OK(As(admin_key_, &Ingest::ListUploads, {}, &listed));
  EXPECT_EQ(listed.uploads_count(), 1u);
}

// A stream that is open when its key is revoked ends with its next message.
TEST_F(AccessTest, ARevokedKeyEndsItsStreams) {
  const std::string key = AddKey({.scopes = 15});
  ServeTwo();
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + key);
  const auto stream = ingest_->Upload(&context);
  pb::UploadResponse response;
  ASSERT_TRUE(stream->Write(Begin("c", 2)) && stream->Read(&response));
  // Another change of the file does no harm.
  AddKey({.scopes = 1});
  ReloadKeys();
  ASSERT_TRUE(stream->Write(Block({1})) && stream->Read(&response));
  RemoveKey(key);
  ReloadKeys();
  stream->Write(Block({2}));
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(),
              HasCode(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked or changed")));
}

// SearchAll and Scan have no further request: they end before their next reply.
TEST_F(AccessTest, ARevokedKeyEndsItsReplies) {
  const std::string key = AddKey({.scopes = 15});
  ServeTwo();
  for (const bool scans : {false, true}) {
    const std::string text = scans ? AddKey({.scopes = 15}) : key;
    ReloadKeys();
    testing::Gate& gate = scans ? script_->filter_gate : script_->search_gate;
    gate.Close();
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + text);
    pb::SearchAllRequest all;
    *all.mutable_search() = SearchFor("c", {1, 1});
    const auto pages = scans ? nullptr : retrieval_->SearchAll(&context, all);
    const auto rows =
        scans ? retrieval_->Scan(&context, FromText("collection: 'c' filter_text: 'id == 1'"))
              : nullptr;
    gate.AwaitArrivals(1);
    RemoveKey(text);
    ReloadKeys();
    gate.Open();
    pb::SearchResponse page;
    pb::ScanResponse row;
    EXPECT_FALSE(scans ? rows->Read(&row) : pages->Read(&page));
    EXPECT_THAT(scans ? rows->Finish() : pages->Finish(),
                HasCode(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked or changed")));
  }
}

// A watch of a collection ends when its key is revoked; one that needs no key goes on.
TEST_F(AccessTest, AnInvalidKeyEndsItsWatch) {
  const std::string key = AddKey({.scopes = 1, .collections = "c"});
  ServeTwo();
  const FromText one = FromText("service: 'nearfield.v1.Collection/c'");
  grpc::ClientContext open_context;
  const auto open = health_->Watch(&open_context, FromText("service: ''"));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + key);
  const auto watch = health_->Watch(&context, one);
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response) && open->Read(&response));
  AddKey({.scopes = 1});
  ReloadKeys();  // another change of the file does no harm
  RemoveKey(key);
  ReloadKeys();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_THAT(watch->Finish(), HasCode(absl::StatusCode::kUnauthenticated));
  open_context.TryCancel();  // it needed no key, and did not end
  EXPECT_THAT(open->Finish(), HasCode(absl::StatusCode::kCancelled));
}

// Beyond loopback without a key in the file, which only allow_insecure allows, no call is taken.
TEST_F(AccessTest, AKeyFileWithoutKeysTakesNoCall) {
  RemoveKey(admin_key_);
  Serve();
  for (const MethodDescriptor* method : AllMethods()) {
    if (AccessOf(*method).is_open) continue;
    for (const std::string& authorization : {std::string(), "Bearer " + admin_key_}) {
      EXPECT_THAT(CallAny(*method, authorization, "c"), HasCode(absl::StatusCode::kUnauthenticated))
          << method->full_name();
    }
  }
}

// Regression: after a revocation that the server did not see, the log said "keys loaded" as ever.
TEST_F(AccessTest, TheLogNamesTheKeysThatAReloadChanged) {
  ServeTwo();
  const std::string key = AddKey({.scopes = 1});
  const std::string id(IdIn(key));
  const auto latest = [this] { return LogLinesOf("keys loaded").back(); };
  EXPECT_EQ(latest()["added"], std::string(IdIn(admin_key_)));
  ReloadKeys();
  EXPECT_EQ(latest()["added"], id);
  EXPECT_EQ(latest()["removed"], "");
  RemoveKey(key);
  ReloadKeys();
  EXPECT_EQ(latest()["added"], "");
  EXPECT_EQ(latest()["removed"], id);
  ReloadKeys();
  EXPECT_EQ(latest()["removed"], "");
  for (int i = 0; i < 25; ++i) AddKey({.scopes = 1});
  ReloadKeys();
  EXPECT_THAT(std::string(latest()["added"]), HasSubstr(" and 5 more"));
}

TEST_F(AccessTest, AKeyFileThatCannotBeReadLeavesTheKeysInForce) {
  ServeTwo();
  std::ofstream(path_) << "{";
  ReloadKeys();
  EXPECT_THAT(LogLinesOf("the keys are not reloaded: those in force stay"), ::testing::SizeIs(1));
  EXPECT_OK(As(admin_key_, &Admin::GetCapacity, {}));
}

TEST_F(AccessTest, TheAccessLogHasDenialsAndAdminCallsAndNoSecret) {
  Set(settings_.log_requests, "some");
  const std::string narrow = AddKey({.scopes = 1, .collections = "c"});
  ServeTwo();
  EXPECT_OK(As(admin_key_, &Admin::GetCapacity, {}));
  EXPECT_FALSE(Call(&Admin::GetCapacity, {}).ok());
  EXPECT_FALSE(As(narrow, &Retrieval::Count, Of("other")).ok());
  EXPECT_OK(As(narrow, &Retrieval::Count, Of("c")));
  Drain();  // writes every line
  std::vector<std::string> told;
  for (const auto& line : LogLinesOf("access")) {
    if (line.value("method", "") == "CreateCollection" || line.value("method", "") == "SetAlias") {
      continue;  // of ServeTwo
    }
    told.push_back(line.value("method", "") + " " + line.value("status", "") + " " +
                   line.value("principal", "") + " " + line.value("key", ""));
  }
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(
                        "GetCapacity OK someone " + std::string(IdIn(admin_key_)),
                        "GetCapacity UNAUTHENTICATED  ",
                        "Count PERMISSION_DENIED someone " + std::string(IdIn(narrow))));
  for (const std::string& line : LogLines()) {
    EXPECT_THAT(line, Not(HasSubstr(admin_key_.substr(20))));
    EXPECT_THAT(line, Not(HasSubstr(narrow.substr(20))));
  }
}

// A holder of several keys is one caller, whatever names it sends.
TEST_F(AccessTest, APrincipalIsOneCaller) {
  Set(settings_.uploads_max, "2");
  Set(settings_.caller_share_percent, "50");
  const std::string second = AddKey({.scopes = 15});
  ServeTwo();
  const auto open = [&](grpc::ClientContext* context, const std::string& key) {
    context->AddMetadata("authorization", "Bearer " + key);
    context->AddMetadata("nearfield-caller", key.substr(0, 30));
    auto stream = ingest_->Upload(context);
    stream->Write(Begin("c", 1));
    return stream;
  };
  grpc::ClientContext first_context;
  grpc::ClientContext second_context;
  const auto first = open(&first_context, admin_key_);
  pb::UploadResponse response;
  ASSERT_TRUE(first->Read(&response));
  const auto refused = open(&second_context, second);
  EXPECT_FALSE(refused->Read(&response));
  EXPECT_THAT(refused->Finish(), HasCode(kResourceExhausted));
  first_context.TryCancel();
  EXPECT_FALSE(first->Finish().ok());
}

}  // namespace
}  // namespace nearfield::server
