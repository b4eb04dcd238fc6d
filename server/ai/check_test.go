package serverai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/fault"
	serverai "interlock.sh/server/ai"
)

const hello = `"messages":[{"role":"user","content":"hi"}]`

// What a caller of /v1 may send, and what is refused with which parameter: the same on every build of
// every model server.
func TestTheParametersOfAChat(t *testing.T) {
	for _, c := range []struct{ body, param, says string }{
		{`{` + hello + `}`, "", ""},
		{`{` + hello + `,"temperature":0,"top_p":1,"presence_penalty":-2,"frequency_penalty":2,"seed":-5}`, "", ""},
		{`{` + hello + `,"temperature":2.1}`, "temperature", "2.1"},
		{`{` + hello + `,"temperature":-0.1}`, "temperature", "-0.1"},
		{`{` + hello + `,"temperature":"hot"}`, "temperature", "number"},
		{`{` + hello + `,"temperature":null}`, "", ""},
		{`{` + hello + `,"top_p":1.5}`, "top_p", "1.5"},
		{`{` + hello + `,"presence_penalty":-3}`, "presence_penalty", "-3"},
		{`{` + hello + `,"frequency_penalty":3}`, "frequency_penalty", "3"},
		{`{` + hello + `,"seed":1.5}`, "seed", "1.5"},
		{`{` + hello + `,"seed":7.0}`, "", ""},
		{`{` + hello + `,"n":1}`, "", ""},
		{`{` + hello + `,"n":2}`, "n", "one answer"},
		{`{` + hello + `,"max_tokens":1}`, "", ""},
		{`{` + hello + `,"max_tokens":0}`, "max_tokens", "0"},
		{`{` + hello + `,"max_tokens":-1}`, "max_tokens", "-1"},
		{`{` + hello + `,"max_tokens":16384}`, "", ""},
		{`{` + hello + `,"max_tokens":16385}`, "max_tokens", "16384"},
		{`{` + hello + `,"max_completion_tokens":16385}`, "max_completion_tokens", "16384"},
		{`{` + hello + `,"max_tokens":"many"}`, "max_tokens", "integer"},
		{`{` + hello + `,"stop":"."}`, "", ""},
		{`{` + hello + `,"stop":[".","!"]}`, "", ""},
		{`{` + hello + `,"stop":[1]}`, "stop", "strings"},
		{`{` + hello + `,"stop":["` + strings.Repeat(`x","`, 16) + `x"]}`, "stop", "17"},
		{`{` + hello + `,"logprobs":true,"top_logprobs":3}`, "", ""},
		{`{` + hello + `,"logprobs":1}`, "logprobs", "boolean"},
		{`{` + hello + `,"top_logprobs":3}`, "top_logprobs", "logprobs"},
		{`{` + hello + `,"logprobs":true,"top_logprobs":21}`, "top_logprobs", "20"},
		{`{` + hello + `,"stream":true,"stream_options":{"include_usage":true}}`, "", ""},
		{`{` + hello + `,"stream_options":{"include_usage":true}}`, "stream_options", "stream: true"},
		{`{` + hello + `,"stream_options":null,"top_logprobs":null,"stream":null,"model":null,"novel":null}`, "", ""},
		{`{` + hello + `,"stream":"yes"}`, "stream", "boolean"},
		{`{` + hello + `,"stream":true,"stream_options":[]}`, "stream_options", "object"},
		{`{` + hello + `,"model":7}`, "model", "string"},
		{`{` + hello + `,"logit_bias":{"5":1}}`, "", ""},
		{`{` + hello + `,"logit_bias":[1]}`, "logit_bias", "object"},
		{`{` + hello + `,"parallel_tool_calls":false}`, "", ""},
		{`{` + hello + `,"user":"x","metadata":{"a":"b"},"store":true,"service_tier":"auto"}`, "", ""},
		{`{` + hello + `,"tempreature":1}`, "tempreature", "unrecognized"},
		{`{` + hello + `,"modalities":["text","audio"]}`, "modalities", "audio"},
		{`{` + hello + `,"modalities":"text"}`, "modalities", "array"},

		{`{}`, "messages", "missing"},
		{`{"messages":null}`, "messages", "missing"},
		{`{"messages":[]}`, "messages", "empty"},
		{`{"messages":"hi"}`, "messages", "array"},
		{`{"messages":[{"content":"hi"}]}`, "messages", "role"},
		{`{"messages":[{"role":"boss","content":"hi"}]}`, "messages", "role"},
		{`{"messages":[{"role":"user"}]}`, "messages", "[0].content"},
		{`{"messages":[{"role":"user","content":null}]}`, "messages", "[0].content"},
		{`{"messages":[{"role":"user","content":7}]}`, "messages", "[0].content"},
		{`{"messages":[{"role":"user","content":""}]}`, "", ""},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, "", ""},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, "messages", "image_url"},
		{`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages", "no text"},
		{`{"messages":[{"role":"system","content":"a"},{"role":"developer","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"c"}]}`, "", ""},
		{`{"messages":[{"role":"tool","content":"c"}]}`, "messages", "tool_call_id"},

		{`{` + hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"}`, "", ""},
		{`{` + hello + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}}`, "", ""},
		{`{` + hello + `,"tools":{}}`, "tools", "array"},
		{`{` + hello + `,"tools":[{"type":"web_search"}]}`, "tools", "function"},
		{`{` + hello + `,"tools":[{"type":"function","function":{}}]}`, "tools", "name"},
		{`{` + hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":"x"}}]}`, "tools", "schema"},
		{`{` + hello + `,"tool_choice":"maybe"}`, "tool_choice", "maybe"},
		{`{` + hello + `,"tool_choice":{"type":"function"}}`, "tool_choice", "name"},
		{`{` + hello + `,"tool_choice":7}`, "tool_choice", "string"},
		{`{` + hello + `,"response_format":{"type":"text"}}`, "", ""},
		{`{` + hello + `,"response_format":{"type":"json_object"}}`, "", ""},
		{`{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}}`, "", ""},
		{`{` + hello + `,"response_format":{"type":"json_schema"}}`, "response_format", "json_schema.schema"},
		{`{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":[]}}}`, "response_format", "json_schema.schema"},
		{`{` + hello + `,"response_format":{"type":"xml"}}`, "response_format", "xml"},
		{`{` + hello + `,"response_format":"json"}`, "response_format", "object"},
	} {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.body), &raw); err != nil {
			t.Fatal(c.body, err)
		}
		_, _, err := serverai.ParseChat(raw)
		if c.param == "" {
			if err != nil {
				t.Errorf("%s: %v", c.body, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is taken; want field %q", c.body, c.param)
			continue
		}
		e := fault.Of(err)
		if e.Code != fault.Invalid || e.Field != c.param || !strings.Contains(e.Error(), c.says) {
			t.Errorf("%s: %v (field %q); want field %q saying %q", c.body, err, e.Field, c.param, c.says)
		}
	}
}

// What goes to the model server is what was checked, with a bound on the answer, and nothing else.
func TestWhatTheModelServerIsSent(t *testing.T) {
	var raw map[string]json.RawMessage
	body := `{` + hello + `,"model":"m","stream":true,"stream_options":{"include_usage":true},"user":"u","metadata":{},"temperature":0.5,"stop":null,"max_completion_tokens":5}`
	if err := json.Unmarshal([]byte(body), &raw); err != nil {
		t.Fatal(err)
	}
	chat, asked, err := serverai.ParseChat(raw)
	if err != nil || asked != (serverai.Asked{Model: "m", Stream: true, IncludeUsage: true}) {
		t.Fatal(asked, err)
	}
	got, err := json.Marshal(chat)
	if want := `{"max_tokens":5,` + hello + `,"temperature":0.5}`; err != nil || string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	raw["max_tokens"] = json.RawMessage(`9`)
	for range 20 { // whatever order a map has
		if chat, _, err = serverai.ParseChat(raw); err != nil || string(chat["max_tokens"]) != "5" {
			t.Errorf("both names: %s %v", chat["max_tokens"], err)
		}
	}
	delete(raw, "max_tokens")
	delete(raw, "max_completion_tokens")
	if chat, _, err = serverai.ParseChat(raw); err != nil || string(chat["max_tokens"]) != fmt.Sprint(ai.DefaultTokens) {
		t.Errorf("without a bound: %s %v", chat["max_tokens"], err)
	}
}

func TestTheRequestOfARun(t *testing.T) {
	hot, top, seed := 3.0, 0.5, int64(1)
	text := []ai.Message{{Role: "user", Content: json.RawMessage(`"hi"`)}}
	for name, c := range map[string]struct {
		req   ai.RunRequest
		param string
	}{
		"prompt":                {ai.RunRequest{Prompt: "hi", System: "s", TopP: &top, Seed: &seed, MaxTokens: 5}, ""},
		"messages":              {ai.RunRequest{Messages: text}, ""},
		"neither":               {ai.RunRequest{}, "prompt"},
		"both":                  {ai.RunRequest{Prompt: "hi", Messages: text}, "prompt"},
		"system with messages":  {ai.RunRequest{System: "s", Messages: text}, "system"},
		"negative tokens":       {ai.RunRequest{Prompt: "hi", MaxTokens: -1}, "maxTokens"},
		"temperature":           {ai.RunRequest{Prompt: "hi", Temperature: &hot}, "temperature"},
		"topP":                  {ai.RunRequest{Prompt: "hi", TopP: &hot}, "topP"},
		"toolChoice":            {ai.RunRequest{Prompt: "hi", ToolChoice: json.RawMessage(`7`)}, "toolChoice"},
		"responseFormat":        {ai.RunRequest{Prompt: "hi", ResponseFormat: json.RawMessage(`7`)}, "responseFormat"},
		"tools that are none":   {ai.RunRequest{Prompt: "hi", Tools: json.RawMessage(`"x"`)}, "tools"},
		"tools that are broken": {ai.RunRequest{Prompt: "hi", Tools: json.RawMessage(`{`)}, "tools"},
		"a bad message":         {ai.RunRequest{Messages: []ai.Message{{Role: "user"}}}, "messages"},
	} {
		_, err := serverai.ChatOf(c.req)
		if (err == nil) != (c.param == "") || err != nil && fault.Of(err).Field != c.param {
			t.Errorf("%s: %v", name, err)
		}
	}
}
