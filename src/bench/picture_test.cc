#include "bench/picture.h"

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

// Enough of XML to see that every element is closed in order, every attribute is quoted and nothing is left unescaped.
::testing::AssertionResult is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < xml.size()) {
    if (xml[at] == '&' && xml.find(';', at) > at + 6) return ::testing::AssertionFailure() << "bare & at " << at;
    if (xml[at] == '>') return ::testing::AssertionFailure() << "bare > at " << at;
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    size_t end = at + 1;
    bool quoted = false;
    while (end < xml.size() && (quoted || xml[end] != '>')) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return ::testing::AssertionFailure() << "bare < at " << end;
      ++end;
    }
    if (end == xml.size()) return ::testing::AssertionFailure() << "an element that does not end";
    const std::string inside = xml.substr(at + 1, end - at - 1);
    const std::string name = inside.substr(0, inside.find_first_of(" \n/", inside[0] == '/' ? 1 : 0));
    if (inside[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return ::testing::AssertionFailure() << name << " closes nothing";
      open.pop_back();
    } else if (inside.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  if (!open.empty()) return ::testing::AssertionFailure() << open.back() << " is left open";
  return ::testing::AssertionSuccess();
}

TEST(Picture, IsWellFormedAndSaysTheNumbers) {
  const std::vector<PicturePanel> panels = {{"turns & <more>", {2682, 2108, 2567}, {2682, 340, 355}, 3356},
                                            {"at once", {9906, 423, 449}, {2700, 340, 352}, 3370}};
  const std::string svg = draw_picture("a \"model\"", panels);
  EXPECT_TRUE(is_well_formed(svg));
  for (const char* text : {"2,682", "9,906", "7,357", "3,377", "3,356", "turns &amp; &lt;more&gt;", "round 3"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
}

TEST(Picture, TheLargestBarFillsThePlotAndAnEmptyOneIsSeen) {
  const std::string svg = draw_picture("", {{"one", {100}, {0}, 0}});
  EXPECT_NE(svg.find("height=\"230\""), std::string::npos);
  EXPECT_NE(svg.find("height=\"1\""), std::string::npos);
}

TEST(Picture, NothingToDrawIsNoPicture) {
  EXPECT_EQ(draw_picture("", {}), "");
}

TEST(Picture, TheCheckItselfCanFail) {
  EXPECT_FALSE(is_well_formed("<a><b></a>"));
  EXPECT_FALSE(is_well_formed("<a>1 & 2</a>"));
  EXPECT_FALSE(is_well_formed("<a>"));
  EXPECT_TRUE(is_well_formed("<a x=\"1 > 0\"><b/></a>"));
}

}  // namespace
}  // namespace rhizome::bench
