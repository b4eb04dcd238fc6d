package supervise

import "strings"

// A child gets what a model server needs to find its libraries, devices and folders, and nothing else:
// the agent's environment has secrets.
var (
	passedNames = map[string]bool{
		"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "LANG": true, "LANGUAGE": true, "TZ": true,
		"TMPDIR": true, "LD_LIBRARY_PATH": true, "DYLD_LIBRARY_PATH": true, "DYLD_FALLBACK_LIBRARY_PATH": true,
		"XDG_CACHE_HOME": true, "XDG_RUNTIME_DIR": true, "HF_HOME": true, "HF_HUB_CACHE": true, "HF_HUB_OFFLINE": true,
		"DRI_PRIME": true, "GPU_DEVICE_ORDINAL": true, "PYTHONPATH": true, "VIRTUAL_ENV": true,
	}
	passedPrefixes = []string{
		"LC_", "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "LLAMA_", "VK_", "MESA_", "ONEAPI_",
		"SYCL_", "ZE_", "MTL_", "METAL_", "MLX_", "OMP_", "OPENBLAS_",
	}
	// LLAMA_ARG_… are llama-server's flags: they would change what a deployment asks for.
	refusedPrefixes = []string{"INTERLOCK_", "LLAMA_ARG_"}
	refusedSuffixes = []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_KEY_FILE"}
)

// scrub is the part of an environment that a child may see. It is never nil, which exec would take for
// the whole of ours.
func scrub(environ []string) []string {
	kept := []string{}
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && passes(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

func passes(name string) bool {
	for _, prefix := range refusedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	for _, suffix := range refusedSuffixes {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	if passedNames[name] {
		return true
	}
	for _, prefix := range passedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
