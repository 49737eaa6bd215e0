#include "bench/picture.h"

#include <algorithm>
#include <sstream>

#include "bench/text.h"

namespace rhizome::bench {
namespace {

constexpr int kPanelWidth = 400;
constexpr int kMargin = 32;
constexpr int kPlotTop = 150;
constexpr int kPlotHeight = 230;
constexpr int kPlotBottom = kPlotTop + kPlotHeight;
constexpr int kHeight = kPlotBottom + 96;
constexpr int kBarWidth = 46;
constexpr const char* kStockColor = "#9aa5b1";
constexpr const char* kOurColor = "#2f855a";
constexpr const char* kTextColor = "#1f2933";
constexpr const char* kQuietColor = "#616e7c";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct TextStyle {
  int size = 13;
  const char* color = kTextColor;
  const char* anchor = "start";
  bool bold = false;
};

void text(std::ostream& out, double x, double y, const std::string& what, const TextStyle& style) {
  out << "  <text x=\"" << x << "\" y=\"" << y << "\" font-size=\"" << style.size << "\" fill=\"" << style.color
      << "\" text-anchor=\"" << style.anchor << "\"" << (style.bold ? " font-weight=\"600\"" : "") << ">"
      << escaped(what) << "</text>\n";
}

void bar(std::ostream& out, double x, uint64_t value, uint64_t largest, const char* color) {
  const double height = std::max(1.0, static_cast<double>(value) / static_cast<double>(largest) * kPlotHeight);
  out << "  <rect x=\"" << x << "\" y=\"" << kPlotBottom - height << "\" width=\"" << kBarWidth << "\" height=\""
      << height << "\" rx=\"2\" fill=\"" << color << "\"/>\n";
  text(out, x + kBarWidth / 2.0, kPlotBottom - height - 6, with_commas(value), {12, kTextColor, "middle"});
}

uint64_t sum(const std::vector<uint64_t>& values) {
  uint64_t total = 0;
  for (const uint64_t value : values)
    total += value;
  return total;
}

void draw_totals(std::ostream& out, double left, const PicturePanel& panel) {
  const std::string stock = with_commas(sum(panel.stock_rounds));
  const std::string ours = with_commas(sum(panel.our_rounds));
  text(out, left, kPlotBottom + 50, stock + " \xE2\x86\x92 " + ours + " tokens in all",
       {15, kTextColor, "start", true});
  if (panel.ideal_tokens == 0) return;
  const std::string ideal = "each distinct token once would be " + with_commas(panel.ideal_tokens);
  text(out, left, kPlotBottom + 70, ideal, {13, kQuietColor});
}

void draw_panel(std::ostream& out, double left, const PicturePanel& panel, uint64_t largest) {
  const double width = kPanelWidth - kMargin;
  text(out, left, kPlotTop - 42, panel.title, {15, kTextColor, "start", true});
  const size_t rounds = std::min(panel.stock_rounds.size(), panel.our_rounds.size());
  const double step = width / static_cast<double>(std::max<size_t>(rounds, 1));
  for (size_t round = 0; round < rounds; ++round) {
    const double middle = left + step * (static_cast<double>(round) + 0.5);
    bar(out, middle - kBarWidth - 2, panel.stock_rounds[round], largest, kStockColor);
    bar(out, middle + 2, panel.our_rounds[round], largest, kOurColor);
    text(out, middle, kPlotBottom + 20, "round " + std::to_string(round + 1), {12, kQuietColor, "middle"});
  }
  out << "  <line x1=\"" << left << "\" y1=\"" << kPlotBottom << "\" x2=\"" << left + width << "\" y2=\"" << kPlotBottom
      << "\" stroke=\"#cbd2d9\"/>\n";
  draw_totals(out, left, panel);
}

void draw_legend(std::ostream& out, double x) {
  const double y = 76;
  out << "  <rect x=\"" << x << "\" y=\"" << y - 11 << "\" width=\"12\" height=\"12\" rx=\"2\" fill=\"" << kStockColor
      << "\"/>\n";
  text(out, x + 18, y, "llama-server", {13, kQuietColor});
  out << "  <rect x=\"" << x + 120 << "\" y=\"" << y - 11 << "\" width=\"12\" height=\"12\" rx=\"2\" fill=\""
      << kOurColor << "\"/>\n";
  text(out, x + 138, y, "the same server with Rhizome", {13, kQuietColor});
}

}  // namespace

std::string draw_picture(const std::string& subtitle, const std::vector<PicturePanel>& panels) {
  if (panels.empty()) return {};
  uint64_t largest = 1;
  for (const PicturePanel& panel : panels) {
    for (const uint64_t value : panel.stock_rounds)
      largest = std::max(largest, value);
    for (const uint64_t value : panel.our_rounds)
      largest = std::max(largest, value);
  }
  const int width = std::max<int>(static_cast<int>(panels.size()), 1) * kPanelWidth + kMargin;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << kHeight
      << "\" viewBox=\"0 0 " << width << " " << kHeight
      << "\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n"
      << "  <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  text(out, kMargin, 34, "Prompt tokens computed in each round", {18, kTextColor, "start", true});
  text(out, kMargin, 54, subtitle, {13, kQuietColor});
  draw_legend(out, kMargin);
  for (size_t i = 0; i < panels.size(); ++i)
    draw_panel(out, kMargin + static_cast<double>(i) * kPanelWidth, panels[i], largest);
  out << "</svg>\n";
  return out.str();
}

}  // namespace rhizome::bench
