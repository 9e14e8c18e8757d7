// The host half of a kernel's library: unpacks the arguments of a launch. kda_learn/machines/emulator.py writes the
// few lines that call it for one kernel.
#pragma once
#include "runtime.h"

namespace emulator {

template <class... Parameters> struct Call {
  void (*kernel)(Parameters...);
  void** arguments;  // one pointer per parameter, as cuLaunchKernel takes them

  template <std::size_t... I> void run(std::index_sequence<I...>) const {
    kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[I])...);
  }
  static void run_thread(void* context) {
    static_cast<const Call*>(context)->run(std::index_sequence_for<Parameters...>{});
  }
};

template <class... Parameters>
LaunchResult* launch_kernel(void (*kernel)(Parameters...), void** arguments, const LaunchConfig& config) {
  Call<Parameters...> call{kernel, arguments};
  return launch(config, Call<Parameters...>::run_thread, &call);
}

// What a parameter takes, for the caller to check: a letter and a size in bytes. p, c: a pointer to data, to
// const data, and the size of an element (0: not checked); i, u, f: a signed, unsigned, floating number.
struct ParameterType {
  char letter;
  unsigned char bytes;
};
template <class T> constexpr ParameterType describe_parameter() {
  if constexpr (std::is_pointer_v<T>) {
    using Element = std::remove_pointer_t<T>;
    constexpr bool SCALAR =
        std::is_arithmetic_v<Element> || std::is_same_v<std::remove_const_t<Element>, bf16>;
    if constexpr (SCALAR) {
      return {std::is_const_v<Element> ? 'c' : 'p', sizeof(Element)};
    } else {
      return {std::is_const_v<Element> ? 'c' : 'p', 0};
    }
  } else {
    static_assert(std::is_arithmetic_v<T>, "a kernel takes pointers and numbers");
    return {std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u', sizeof(T)};
  }
}
template <class... Parameters> const ParameterType* describe_kernel(void (*)(Parameters...), u32* count) {
  static constexpr ParameterType TYPES[] = {describe_parameter<Parameters>()..., {'.', 0}};
  *count = sizeof...(Parameters);
  return TYPES;
}

}  // namespace emulator
