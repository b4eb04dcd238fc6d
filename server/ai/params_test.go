package serverai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"interlock.sh/fault"
	serverai "interlock.sh/server/ai"
)

// Of several bad parameters it is always the same one that is named, so that a caller who mends it sees
// the next.
func TestOfSeveralBadParametersTheFirstIsNamed(t *testing.T) {
	raw := map[string]json.RawMessage{
		"messages": json.RawMessage(`[]`), "temperature": json.RawMessage(`9`), "top_p": json.RawMessage(`"x"`), "audio": json.RawMessage(`{}`),
		"frequency_penalty": json.RawMessage(`7`), "zzz": json.RawMessage(`1`),
	}
	for _, want := range []string{"audio", "frequency_penalty", "messages", "temperature", "top_p", "zzz"} {
		for range 20 {
			if _, _, err := serverai.ParseChat(raw); err == nil || fault.Of(err).Field != want {
				t.Fatalf("%v names another than %s", err, want)
			}
		}
		if delete(raw, want); want == "messages" {
			raw["messages"] = json.RawMessage(`[{"role":"user","content":"hi"}]`)
		}
	}
}

// Every parameter of OpenAI's chat completions, as its Go client 3.99.0 knows them, is passed on, read
// here, ignored because the answer is right without it, or refused with a way out; none is unheard of.
func TestEveryParameterOfOpenAI(t *testing.T) {
	const (
		passed  = "passed"
		read    = "read" // here, and not passed on under its name
		ignored = "ignored"
		refused = "refused"
	)
	for _, c := range []struct{ name, value, what string }{
		{"messages", `[{"role":"user","content":"hi"}]`, passed},
		{"model", `"m"`, read},
		{"frequency_penalty", `1`, passed},
		{"logprobs", `true`, passed},
		{"max_completion_tokens", `5`, read},
		{"max_tokens", `5`, passed},
		{"n", `1`, read},
		{"presence_penalty", `1`, passed},
		{"prompt_cache_key", `"k"`, ignored},
		{"safety_identifier", `"u"`, ignored},
		{"seed", `1`, passed},
		{"store", `true`, ignored},
		{"temperature", `1`, passed},
		{"top_logprobs", `1`, passed},
		{"top_p", `1`, passed},
		{"parallel_tool_calls", `true`, passed},
		{"user", `"u"`, ignored},
		{"audio", `{"format":"wav","voice":"alloy"}`, refused},
		{"logit_bias", `{"5":1}`, passed},
		{"metadata", `{"a":"b"}`, ignored},
		{"modalities", `["text"]`, read},
		{"moderation", `{"model":"m"}`, refused},
		{"prompt_cache_retention", `"24h"`, ignored},
		{"reasoning_effort", `"low"`, passed},
		{"service_tier", `"auto"`, ignored},
		{"stop", `"."`, passed},
		{"stream", `true`, read},
		{"stream_options", `{"include_usage":true}`, read},
		{"verbosity", `"low"`, ignored},
		{"function_call", `"auto"`, refused},
		{"functions", `[{"name":"f"}]`, refused},
		{"prediction", `{"type":"content","content":"x"}`, ignored},
		{"prompt_cache_options", `{}`, ignored},
		{"response_format", `{"type":"json_object"}`, passed},
		{"tool_choice", `"auto"`, passed},
		{"tools", `[{"type":"function","function":{"name":"f"}}]`, passed},
		{"web_search_options", `{}`, refused},
	} {
		raw := map[string]json.RawMessage{"messages": json.RawMessage(`[{"role":"user","content":"hi"}]`)}
		switch c.name { // what each needs beside it
		case "stream_options":
			raw["stream"] = json.RawMessage("true")
		case "top_logprobs":
			raw["logprobs"] = json.RawMessage("true")
		case "tool_choice":
			raw["tools"] = json.RawMessage(`[{"type":"function","function":{"name":"f"}}]`)
		}
		raw[c.name] = json.RawMessage(c.value)
		chat, _, err := serverai.ParseChat(raw)
		if c.what == refused {
			e := fault.Of(err)
			if e == nil || e.Code != fault.Invalid || e.Field != c.name || e.Hint == "" || strings.Contains(e.Message, "unrecognized") {
				t.Errorf("%s: %v is no refusal with a way out", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := chat[c.name] != nil; got != (c.what == passed) {
			t.Errorf("%s is %s; passed on: %v", c.name, c.what, got)
		}
	}
}
