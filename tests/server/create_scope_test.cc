// Tests of the scope create: what a key with this scope alone may do.
#include <string>

#include "tests/server/access_fixture.h"

namespace nearfield::server {
namespace {

// A pipeline makes its own collections, and can neither drop nor read one.
TEST_F(AccessTest, AKeyOfScopeCreateOnlyCreatesWhatItCoversWithinItsQuota) {
  const std::string maker = AddKey({.principal = "maker",
                                    .scopes = static_cast<uint8_t>(Scope::kCreate),
                                    .collections = "docs-*"});
  EXPECT_OK(ChangeKeyFile(path_, [](KeyFile* file) {
    file->limits["maker"][Quota::kCollections] = 1;
    return absl::OkStatus();
  }));
  ServeTwo();
  const auto create = [&](const std::string& name) {
    return As(maker, &Admin::CreateCollection,
              FromText("name: '" + name +
                       "' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: "
                       "ID_TYPE_UINT64"));
  };
  EXPECT_THAT(create("other-docs"),
              HasCode(absl::StatusCode::kPermissionDenied, HasSubstr("\"docs-*\"")));
  EXPECT_OK(create("docs-a"));
  EXPECT_THAT(create("docs-b"), HasCode(kResourceExhausted, HasSubstr("principal maker")));
  pb::GetCollectionResponse made;
  FromText named("name: 'docs-a'");
  EXPECT_OK(As(maker, &Admin::GetCollection, named, &made));
  EXPECT_EQ(made.collection().owner(), "maker");
  for (const MethodDescriptor* method : AllMethods()) {
    const MethodAccess& access = AccessOf(*method);
    if (access.scopes == kAllScopes || method->name() == "CreateCollection") continue;
    EXPECT_THAT(CallAny(*method, "Bearer " + maker, "docs-a"),
                HasCode(absl::StatusCode::kPermissionDenied, HasSubstr("has the scopes create;")))
        << method->full_name();
  }
  Drain();  // writes every line
  int logged = 0;
  for (const auto& line : LogLinesOf("access")) {
    if (line.value("key", "") != IdIn(maker) || line.value("status", "") != "OK") continue;
    EXPECT_EQ(line.value("method", ""), "CreateCollection");
    ++logged;
  }
  EXPECT_EQ(logged, 1);
}

}  // namespace
}  // namespace nearfield::server
