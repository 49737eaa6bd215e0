#include "engine/llama/outputs.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Outputs, LeaveIndicesAloneWhenNothingWasCut) {
  Outputs outputs;
  EXPECT_FALSE(outputs.saving());
  for (const int32_t index : {-2, -1, 0, 7})
    EXPECT_EQ(outputs.translate(index), index);
}

TEST(Outputs, TranslateTheIndicesOfACutBatch) {
  Outputs outputs;
  // Of ten rows only 4, 8 and 9 went to the engine, in another order.
  const Row rows[] = {{1, 0, 0, true, 8}, {1, 0, 0, false, 4}, {1, 0, 0, true, 9}};
  outputs.split(rows, 10);
  EXPECT_EQ(outputs.translate(8), 0);
  EXPECT_EQ(outputs.translate(4), 1);
  EXPECT_EQ(outputs.translate(9), 2);
  EXPECT_EQ(outputs.translate(-1), -1) << "counts from the last output, and all outputs are there";
  EXPECT_EQ(outputs.translate(-2), -2);
  for (const int32_t cut : {0, 1, 7})
    EXPECT_GE(outputs.translate(cut), 10) << "no such row in the engine";
  EXPECT_EQ(outputs.translate(10), 10) << "the engine refuses what the caller's batch has not";
  outputs.reset();
  EXPECT_EQ(outputs.translate(8), 8);
}

TEST(Outputs, KeepCopiesUnderTheCallersIndices) {
  Outputs outputs;
  outputs.begin_saving(2);
  EXPECT_TRUE(outputs.saving());
  EXPECT_EQ(outputs.all_saved(), nullptr);
  EXPECT_EQ(outputs.saved(-1), nullptr);
  float values[] = {1, 2};
  outputs.save(3, values);
  values[0] = 5;
  outputs.save(7, values);
  ASSERT_NE(outputs.saved(3), nullptr);
  EXPECT_EQ(outputs.saved(3)[0], 1);
  EXPECT_EQ(outputs.saved(3)[1], 2);
  EXPECT_EQ(outputs.saved(7)[0], 5);
  EXPECT_EQ(outputs.saved(-1), outputs.saved(7));
  EXPECT_EQ(outputs.saved(-2), outputs.saved(3));
  EXPECT_EQ(outputs.all_saved(), outputs.saved(3)) << "one behind the other, as llama_get_logits gives them";
  for (const int32_t missing : {0, 4, 8, -3, -100})
    EXPECT_EQ(outputs.saved(missing), nullptr) << missing;
  outputs.begin_saving(2);
  EXPECT_EQ(outputs.saved(3), nullptr) << "another batch";
  outputs.reset();
  EXPECT_FALSE(outputs.saving());
}

TEST(Outputs, SaveNothingWhenTheEngineHasNoOutput) {
  Outputs outputs;
  outputs.begin_saving(2);
  outputs.save(0, nullptr);
  EXPECT_EQ(outputs.saved(0), nullptr);
  EXPECT_EQ(outputs.saved(-1), nullptr);
}

}  // namespace
}  // namespace rhizome
