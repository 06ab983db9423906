// Tests that the access table agrees with the descriptors of the services and with the contract.
#include <map>
#include <string>
#include <vector>

#include "tests/server/access_fixture.h"

namespace nearfield::server {
namespace {

// The scopes that the contract gives each RPC; the test's own list, so that a wrong entry of the
// server's table is found.
const std::map<std::string, std::string>& ScopesOfContract() {
  static const auto* const scopes = new std::map<std::string, std::string>{
      {"Search", "search"},
      {"SearchStream", "search"},
      {"SearchAll", "search"},
      {"Verify", "search"},
      {"Count", "search, read"},
      {"Facets", "search, read"},
      {"PinEpoch", "search, read"},
      {"Fetch", "read"},
      {"Scan", "read"},
      {"Upload", "write"},
      {"Delete", "write"},
      {"Update", "write"},
      {"GetUpload", "write"},
      {"DropUpload", "write"},
      {"ListUploads", "write"},
      {"CreateCollection", "create, admin"},
      {"AddAttribute", "admin"},
      {"DropAttribute", "admin"},
      {"DropCollection", "admin"},
      {"GetCapacity", "admin"},
      {"GetCounters", "admin"},
      {"SetAlias", "admin"},
      {"DropAlias", "admin"},
      {"CreateSnapshot", "admin"},
      {"DeleteSnapshot", "admin"},
      {"ListSnapshots", "admin"},
      {"Compact", "admin"},
      {"GetLimits", "search, read, write, create, admin"},
      {"GetCollection", "search, read, write, create, admin"},
      {"ListCollections", "search, read, write, create, admin"},
      {"GetServerState", "search, read, write, create, admin"},
      {"Check", "search, read, write, create, admin"},
      {"Watch", "search, read, write, create, admin"}};
  return *scopes;
}

// Returns the paths of the fields of a request that name a collection or an alias: the texts
// `collection` and `alias` in any message that a request has once, and `name` of those calls whose
// name speaks of a collection.
void CollectNames(const MethodDescriptor& method, const google::protobuf::Descriptor& message,
                  const std::string& prefix, int levels, std::vector<std::string>* paths) {
  using google::protobuf::FieldDescriptor;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.is_repeated()) continue;
    if (field.message_type() != nullptr && levels > 0) {
      CollectNames(method, *field.message_type(), prefix + field.name() + ".", levels - 1, paths);
    }
    const bool is_name =
        field.name() == "collection" || field.name() == "alias" ||
        (field.name() == "name" && method.name().find("Collection") != std::string::npos);
    if (field.type() == FieldDescriptor::TYPE_STRING && is_name) {
      paths->push_back(prefix + field.name());
    }
  }
}

TEST(AccessTableTest, HasExactlyTheMethodsOfTheDescriptorsWithTheirScopes) {
  std::vector<std::string> named;
  for (const MethodDescriptor* method : AllMethods()) {
    const MethodAccess* const access = FindAccess(method->full_name());
    ASSERT_NE(access, nullptr) << method->full_name() << " has no entry in the access table";
    EXPECT_EQ(ScopesText(access->scopes), ScopesOfContract().at(method->name()));
    EXPECT_EQ(access->is_open, method->service()->name() == "Health");
    named.push_back(method->full_name());
  }
  std::vector<std::string> listed;
  for (const MethodAccess& access : AccessTable()) listed.emplace_back(access.name);
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(named));
}

TEST(AccessTableTest, NamesEveryFieldThatNamesACollection) {
  for (const MethodDescriptor* method : AllMethods()) {
    const MethodAccess& access = AccessOf(*method);
    std::vector<std::string> paths;
    CollectNames(*method, *method->input_type(), "", /*levels=*/3, &paths);
    std::vector<std::string> fields;
    for (const std::string_view field : access.fields) {
      if (!field.empty()) fields.emplace_back(field);
    }
    EXPECT_THAT(fields, ::testing::UnorderedElementsAreArray(paths)) << method->full_name();
    EXPECT_EQ(access.target == AccessTarget::kCollections || access.target == AccessTarget::kHidden,
              !paths.empty())
        << method->full_name();
  }
}

}  // namespace
}  // namespace nearfield::server
