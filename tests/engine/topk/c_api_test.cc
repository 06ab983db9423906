// Tests of the C ABI that need no device: versions, layout, refusals, messages.
#include <cstddef>
#include <string>
#include <thread>

#include "nearfield/nearfield_topk.h"
#include "tests/engine/topk/c_api_smoke.h"

#include "tests/engine/prelude.h"

namespace nearfield::select {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StrEq;

TEST(TopkCApiTest, NamesItsVersions) {
  EXPECT_EQ(nf_topk_abi_version(), NF_TOPK_ABI_VERSION);
  EXPECT_STREQ(nf_topk_version(), NEARFIELD_VERSION);
}

// The numbers are those of 64-bit platforms; Python and other languages spell them out.
TEST(TopkCApiTest, TheLayoutIsTheSameInC) {
  const CLayout layout = LayoutInC();
  EXPECT_EQ(layout.shape_bytes, sizeof(nf_topk_shape));
  EXPECT_EQ(layout.shape_bytes, 48u);
  EXPECT_EQ(layout.shape_ragged_at, offsetof(nf_topk_shape, ragged));
  EXPECT_EQ(layout.buffers_bytes, sizeof(nf_topk_buffers));
  EXPECT_EQ(layout.buffers_bytes, 72u);
  EXPECT_EQ(layout.buffers_workspace_at, 56u);
}

TEST(TopkCApiTest, EveryFunctionRefusesANullSelector) {
  const nf_topk_shape shape = {.struct_bytes = sizeof(nf_topk_shape)};
  const nf_topk_buffers buffers = {.struct_bytes = sizeof(nf_topk_buffers)};
  const char* name = nullptr;
  int64_t bytes = 0;
  for (const int32_t code :
       {nf_topk_supports(nullptr, &shape, nullptr), nf_topk_choice(nullptr, &shape, &name),
        nf_topk_workspace_bytes(nullptr, &shape, nullptr, &bytes),
        nf_topk_init_workspace(nullptr, nullptr, 0, nullptr),
        nf_topk_run(nullptr, &shape, &buffers, nullptr, nullptr), nf_topk_wait(nullptr, nullptr)}) {
    EXPECT_EQ(code, NF_TOPK_INVALID_ARGUMENT);
    EXPECT_STREQ(nf_topk_last_error(), "selector is null");
  }
  EXPECT_EQ(nf_topk_algorithm_name(nullptr, 0), nullptr);
  EXPECT_EQ(nf_topk_algorithm_summary(nullptr, 0), nullptr);
  nf_topk_destroy(nullptr);
}

TEST(TopkCApiTest, CreateWithoutAPlaceForTheSelectorIsRefused) {
  EXPECT_EQ(nf_topk_create(0, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_STREQ(nf_topk_last_error(), "selector is null");
}

// No machine has this many devices.
TEST(TopkCApiTest, ADeviceThatIsNotThereIsNamed) {
  const int32_t code = CreateInC(1000);
  EXPECT_THAT(code, AnyOf(NF_TOPK_UNAVAILABLE, NF_TOPK_UNIMPLEMENTED));
  EXPECT_THAT(nf_topk_last_error(), AnyOf(HasSubstr("built without CUDA"), HasSubstr("1000"),
                                          HasSubstr("driver"), HasSubstr("compute capability")));
}

TEST(TopkCApiTest, EachThreadHasItsOwnLastError) {
  ASSERT_EQ(nf_topk_create(0, nullptr), NF_TOPK_INVALID_ARGUMENT);
  std::string other;
  std::thread([&other] { other = nf_topk_last_error(); }).join();
  EXPECT_THAT(other, StrEq(""));
  EXPECT_STREQ(nf_topk_last_error(), "selector is null");
}

}  // namespace
}  // namespace nearfield::select
