#include "bench/codec_cases.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "bench/block_images.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "machine/clock.h"

namespace rhizome::bench {
namespace {

constexpr std::array kCases = {
    CodecCase{"sizes", "images of a model's KV against what they hold, at 16, 64 and 256 tokens", run_codec_sizes},
    CodecCase{"speeds", "encode and decode, one core, 8 MiB, 64 tokens, beside memcpy and zstd", run_codec_speeds},
};

constexpr std::array<uint32_t, 3> kBlockSizes = {16, 64, 256};
constexpr uint64_t kWorkingSetBytes = uint64_t{8} << 20;

double cpu_ns(const std::function<void()>& run) {
  const uint64_t before_ns = thread_cpu_now_ns();
  run();
  return static_cast<double>(thread_cpu_now_ns() - before_ns);
}

// The bounds are for processors with AVX-512; elsewhere the figures are called otherwise.
std::string kernel_suffix() {
  const std::string name = fastest_plane_kernels().name;
  return name == "avx512" ? "" : "_" + name;
}

void check(CodecStage& stage, BlockImages& images, const char* what) {
  if (!images.decode() || !images.is_right()) stage.report.failure(std::string(what) + ": the rows came back changed");
}

struct Speeds {
  std::vector<double> copy_ns;
  std::vector<double> encode_ns;
  std::vector<double> decode_ns;
  std::vector<double> encode_ratios;  // to the copies beside it
  std::vector<double> decode_ratios;
};

// Each round copies, encodes and decodes once, so that what disturbs the machine disturbs all three.
Speeds measure(CodecStage& stage, BlockImages& images, Codec codec, uint32_t rounds) {
  Speeds speeds;
  for (uint32_t round = 0; round < rounds; ++round) {
    const double before = cpu_ns([&] { images.copy(); });
    const double encode = cpu_ns([&] { images.encode(codec); });
    const double between = cpu_ns([&] { images.copy(); });
    const double decode = cpu_ns([&] { images.decode(); });
    speeds.copy_ns.push_back(before);
    speeds.copy_ns.push_back(between);
    speeds.encode_ns.push_back(encode);
    speeds.decode_ns.push_back(decode);
    speeds.encode_ratios.push_back((before + between) / 2 / encode);
    speeds.decode_ratios.push_back((before + between) / 2 / decode);
    stage.progress.step();
  }
  return speeds;
}

std::string gb_per_s(uint64_t bytes, double ns) {
  return fixed(static_cast<double>(bytes) / ns, 2) + " GB/s";
}

struct Sizes {
  double raw = 0;
  double e3 = 0;
  double rans = 0;
  double zstd = 0;
};

Sizes measure_sizes(CodecStage& stage, const KvRows& rows, uint32_t block_tokens) {
  BlockImages images(rows, block_tokens, 0);
  Sizes sizes;
  sizes.raw = static_cast<double>(images.raw_bytes());
  sizes.e3 = static_cast<double>(images.encode(Codec::kE3));
  check(stage, images, "E3");
  sizes.rans = static_cast<double>(images.encode(Codec::kRans));
  check(stage, images, "E-rANS");
  sizes.zstd = static_cast<double>(images.encode(Codec::kZstdPlanes));
  check(stage, images, "zstd planes");
  stage.report.answered("sizes " + std::to_string(block_tokens) + ": " + std::to_string(sizes.e3 + sizes.rans));
  stage.progress.step();
  return sizes;
}

Status report_sizes(CodecStage& stage, const KvRows& rows) {
  const bool is_f16 = rows.element_type() == ElementType::kF16;
  const std::string type = is_f16 ? "f16" : "bf16";
  std::vector<double> least;
  for (const uint32_t block_tokens : kBlockSizes) {
    if (rows.blocks_count(block_tokens) == 0) return fail(Code::kInvalidArgument, "there are fewer than 256 tokens");
    const Sizes sizes = measure_sizes(stage, rows, block_tokens);
    const std::string tokens = std::to_string(block_tokens);
    const std::string ending = type + "_b" + tokens;
    stage.report.row("raw over image, " + type + ", " + tokens + " tokens", fixed(sizes.raw / sizes.e3, 3),
                     fixed(sizes.raw / sizes.rans, 3));
    stage.report.figure("e3_ratio_" + ending, sizes.raw / sizes.e3);
    stage.report.figure("erans_ratio_" + ending, sizes.raw / sizes.rans);
    stage.report.figure("zstd1_planes_ratio_" + ending, sizes.raw / sizes.zstd);
    if (block_tokens == 64)
      stage.report.figure(is_f16 ? "ratio_erans_vs_e3_size_f16" : "ratio_erans_vs_e3_size", sizes.rans / sizes.e3);
    least.push_back(sizes.raw / sizes.e3);
  }
  stage.report.figure("e3_ratio_" + type, *std::ranges::min_element(least));
  return {};
}

}  // namespace

std::span<const CodecCase> codec_cases() {
  return kCases;
}

Status run_codec_sizes(CodecStage& stage) {
  if (!stage.is_model) {
    stage.report.note("sizes are of a model's KV only, and this is made up");
    return {};
  }
  stage.report.section("sizes", "whole images of " + stage.from + ", header and identity counted", "E3", "E-rANS");
  stage.progress.begin("sizes", static_cast<uint32_t>(stage.rows.size() * kBlockSizes.size()));
  for (const KvRows& rows : stage.rows) {
    if (const Status reported = report_sizes(stage, rows); !reported) return reported;
  }
  return {};
}

Status run_codec_speeds(CodecStage& stage) {
  const uint32_t rounds = stage.quick ? 21 : 301;
  const uint32_t slow_rounds = stage.quick ? 3 : 7;
  constexpr uint32_t kBlockTokens = 64;
  const KvRows& rows = stage.rows.front();
  if (rows.blocks_count(kBlockTokens) == 0) return fail(Code::kInvalidArgument, "there are fewer than 64 tokens");
  stage.progress.begin("speeds", rounds + 2 * slow_rounds);
  BlockImages images(rows, kBlockTokens, kWorkingSetBytes);
  const uint64_t bytes = images.raw_bytes();
  images.encode(Codec::kE3);
  check(stage, images, "E3");
  const Speeds e3 = measure(stage, images, Codec::kE3, rounds);
  const Speeds rans = measure(stage, images, Codec::kRans, slow_rounds);
  const Speeds zstd = measure(stage, images, Codec::kZstdPlanes, slow_rounds);
  check(stage, images, "zstd planes");

  stage.report.section(
      "speeds",
      stage.from + ", one core, 8 MiB, blocks of 64 tokens, raw bytes counted, kernels " + fastest_plane_kernels().name,
      "encode", "decode");
  stage.report.row("memcpy", gb_per_s(bytes, median(e3.copy_ns)), "");
  const auto row = [&](const char* what, const Speeds& speeds) {
    stage.report.row(what, gb_per_s(bytes, median(speeds.encode_ns)), gb_per_s(bytes, median(speeds.decode_ns)));
  };
  row("E3", e3);
  row("E-rANS", rans);
  row("zstd 1 on byte planes", zstd);
  const std::string suffix = kernel_suffix();
  stage.report.figure("ratio_e3_encode_vs_memcpy" + suffix, median(e3.encode_ratios));
  stage.report.figure("ratio_e3_decode_vs_memcpy" + suffix, median(e3.decode_ratios));
  stage.report.figure("ratio_e3_encode_vs_zstd1_planes" + suffix, median(zstd.encode_ns) / median(e3.encode_ns));
  stage.report.figure("ratio_e3_decode_vs_zstd1_planes" + suffix, median(zstd.decode_ns) / median(e3.decode_ns));
  stage.report.figure("ratio_erans_decode_vs_memcpy" + suffix, median(rans.decode_ratios));
  stage.report.figure("memcpy_gb_per_s", static_cast<double>(bytes) / median(e3.copy_ns));
  stage.report.answered("speeds: " + std::to_string(images.encode(Codec::kE3)));
  return {};
}

}  // namespace rhizome::bench
