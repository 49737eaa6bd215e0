#include "engine/llama/preload/next_api.h"

#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace rhizome {
namespace {

// The address that this library itself has under a name must not be taken for the next one.
bool is_own(const void* address) {
  Dl_info found{};
  Dl_info own{};
  return dladdr(address, &found) != 0 && dladdr(reinterpret_cast<const void*>(&next_llama_api), &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

int find_in_object(dl_phdr_info* object, size_t /*bytes*/, void* found) {
  if (object->dlpi_name == nullptr || object->dlpi_name[0] == 0) return 0;
  void* handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return 0;
  const void* address = dlsym(handle, "llama_decode");
  if (address == nullptr || is_own(address)) {
    dlclose(handle);
    return 0;
  }
  *static_cast<void**>(found) = handle;  // kept: the library must not go while its functions are in the table
  return 1;
}

void* library_handle() {
  const void* next = dlsym(RTLD_NEXT, "llama_decode");
  if (next != nullptr && !is_own(next)) return RTLD_NEXT;
  void* handle = nullptr;
  dl_iterate_phdr(find_in_object, static_cast<void*>(&handle));
  return handle;
}

LlamaApi look_up() {
  LlamaApi api;
  void* handle = library_handle();
  if (handle == nullptr) return api;
#define RHIZOME_LLAMA_LOOK_UP(name) api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, "llama_" #name));
  RHIZOME_LLAMA_FUNCTIONS(RHIZOME_LLAMA_LOOK_UP)
#undef RHIZOME_LLAMA_LOOK_UP
  return api;
}

// "0.5.0" out of "0.5.0-dev".
std::string_view release_of(std::string_view version) {
  return version.substr(0, version.find('-'));
}

}  // namespace

std::string other_llama_version() {
  const LlamaApi& api = next_llama_api();
  const std::string_view version = api.version == nullptr ? "" : api.version();
  void* handle = library_handle();
  const auto ggml = reinterpret_cast<const char* (*)()>(handle == nullptr ? nullptr : dlsym(handle, "ggml_version"));
  const std::string_view ggml_version = ggml == nullptr ? "" : ggml();
  if (release_of(version) == kLlamaVersion && release_of(ggml_version) == kGgmlVersion) return {};
  return "llama.cpp '" + std::string(version) + "' with ggml '" + std::string(ggml_version) + "'";
}

const LlamaApi& next_llama_api() {
  static const LlamaApi kApi = look_up();
  return kApi;
}

}  // namespace rhizome
