#pragma once
#include "gpu.cuh"

GPU_FN u32 from_header(saddr at) { return lds<u32>(at); }
