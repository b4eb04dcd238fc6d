package llama

import (
	"strings"
	"testing"
)

// The logs are llama-server's own, of build 10434 unless the name says otherwise.
func TestParseStartError(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"no such file", `
0.00.004.800 I srv    load_model: loading model '/m/nope.gguf'
0.00.004.990 E gguf_init_from_file: failed to open GGUF file '/m/nope.gguf' (No such file or directory)
0.00.004.996 E llama_model_load: error loading model: llama_model_loader: failed to load model from /m/nope.gguf
0.00.004.997 E llama_model_load_from_file_impl: failed to load model
0.00.004.999 E cmn  common_init_: failed to load model '/m/nope.gguf'
0.00.005.001 E srv    load_model: failed to load model, '/m/nope.gguf'
0.00.005.003 I srv    operator(): operator(): cleaning up before exit...
0.00.005.343 E srv  llama_server: exiting due to model loading error
`, "gguf_init_from_file: failed to open GGUF file '/m/nope.gguf' (No such file or directory)"},
		{"truncated", `
0.00.005.228 E llama_model_load: error loading model: tensor 'blk.0.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete
0.00.005.238 E llama_model_load_from_file_impl: failed to load model
0.00.005.241 E cmn  common_init_: failed to load model '/m/t.gguf'
0.00.005.243 E srv    load_model: failed to load model, '/m/t.gguf'
0.00.005.677 E srv  llama_server: exiting due to model loading error
`, "llama_model_load: error loading model: tensor 'blk.0.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete"},
		{"out of memory", `
0.00.687.885 E ggml_aligned_malloc: insufficient memory (attempted to allocate 2441.44 MB)
0.00.687.913 E alloc_tensor_range: failed to allocate CPU buffer of size 2560032768
0.00.708.864 E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
0.00.708.948 E cmn  common_init_: failed to create context with model '/m/t.gguf'
0.00.708.956 E srv    load_model: failed to create_context with model '/m/t.gguf'
0.00.709.399 E srv  llama_server: exiting due to model loading error
`, "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"},
		{"port in use", `
0.00.003.683 W srv  llama_server: -----------------
0.00.003.780 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18098
0.00.003.793 I srv    operator(): operator(): cleaning up before exit...
0.00.003.872 E srv  llama_server: exiting due to HTTP server error
`, "srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18098"},
		{"bad argument, without level", "error: invalid argument: --nonsense\n", "error: invalid argument: --nonsense"},
		{"an older build without levels", `
llama_model_load: error loading model: unknown model architecture: 'lalaa'
llama_load_model_from_file: failed to load model
common_init_from_params: failed to load model '/m/x.gguf'
srv    load_model: failed to load model, '/m/x.gguf'
main: exiting due to model loading error
`, "llama_model_load: error loading model: unknown model architecture: 'lalaa'"},
		{"only consequences", `
0.00.005.241 E cmn  common_init_: failed to load model '/m/t.gguf'
0.00.005.677 E srv  llama_server: exiting due to model loading error
`, "srv llama_server: exiting due to model loading error"},
		{"the log thread ended too early", "0.00.003.097 I srv          init: The UI is disabled\nAMX is not ready to be used!\n\n", ""},
		{"nothing", "", ""},
	} {
		if got := ParseStartError(strings.Split(c.log, "\n")); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
