package serverai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"interlock.sh/ai"
	"interlock.sh/fault"
)

// Chat is a checked OpenAI chat completion body, as it goes to the model server. Everything is checked
// here: builds of model servers differ in what they refuse.
type Chat map[string]json.RawMessage

// Asked is what the caller of /v1/chat/completions wants of the answer, apart from its content.
type Asked struct {
	Model        string
	Stream       bool
	IncludeUsage bool
}

// passed are the parameters that go to the model server as they are, once checked.
var passed = map[string]func(json.RawMessage) error{
	"temperature":         number(0, 2),
	"top_p":               number(0, 1),
	"presence_penalty":    number(-2, 2),
	"frequency_penalty":   number(-2, 2),
	"seed":                integer(-1<<53, 1<<53),
	"top_logprobs":        integer(0, 20),
	"logprobs":            boolean,
	"stop":                stop,
	"tools":               tools,
	"tool_choice":         toolChoice,
	"parallel_tool_calls": boolean,
	"response_format":     responseFormat,
	"logit_bias":          object,
	"reasoning_effort":    text,
	// Parameters of llama.cpp that its own clients send.
	"cache_prompt":         boolean,
	"top_k":                integer(0, 1<<20),
	"min_p":                number(0, 1),
	"repeat_penalty":       number(0, 10),
	"chat_template_kwargs": object,
}

// ignored are parameters of OpenAI's service that mean nothing to a machine of one's own, or that only
// wish for speed or style: the answer is right without them.
var ignored = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"prompt_cache_options", "verbosity", "prediction",
}

// refused are parameters of OpenAI's service without which the answer is another one than was asked
// for, and ours that /v1 does not take, each with the way out.
var refused = map[string]string{
	"functions":          "it is deprecated: use tools",
	"function_call":      "it is deprecated: use tool_choice",
	"audio":              "leave it out: answers are text",
	"web_search_options": "leave it out, or offer a search of your own in tools: the machines search nothing",
	"waitForMs":          "leave it out: a chat completion is answered at once. A run of POST /api/ai/runs can wait for a machine",
	"moderation":         "leave it out, and moderate in the application: nothing is moderated here",
}

// ParseChat checks a body of /v1/chat/completions. Errors carry the parameter in Field; of several bad ones
// it is the first by name.
func ParseChat(raw map[string]json.RawMessage) (Chat, Asked, error) {
	var asked Asked
	out := Chat{}
	given := func(name string) bool { v, ok := raw[name]; return ok && string(v) != "null" }
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		v := raw[name]
		if !given(name) {
			continue
		}
		var err error
		switch name {
		case "model":
			err = decode(v, &asked.Model, "a string")
		case "stream":
			err = decode(v, &asked.Stream, "a boolean")
		case "stream_options":
			var o struct {
				IncludeUsage bool `json:"include_usage"`
			}
			err = decode(v, &o, "an object")
			asked.IncludeUsage = o.IncludeUsage
		case "messages":
			err = messages(v)
			out[name] = v
		case "max_tokens", "max_completion_tokens":
			if err = integer(1, ai.MaxTokens)(v); name == "max_completion_tokens" || !given("max_completion_tokens") {
				out["max_tokens"] = v // the newer name counts
			}
		case "n":
			if err = integer(1, 1)(v); err != nil {
				err = fmt.Errorf("is %s; one answer a request is served", v)
			}
		case "modalities":
			err = onlyText(v)
		default:
			check, known := passed[name]
			if !known && slices.Contains(ignored, name) {
				continue
			}
			if hint, ok := refused[name]; ok {
				return nil, asked, fault.New(fault.Invalid, "parameter %q is not supported", name).WithField(name).WithHint("%s", hint)
			}
			if !known {
				return nil, asked, fault.New(fault.Invalid, "unrecognized parameter %q", name).WithField(name).WithHint("leave it out")
			}
			err = check(v)
			out[name] = v
		}
		if err != nil {
			return nil, asked, fault.New(fault.Invalid, "%s %v", name, err).WithField(name)
		}
	}
	if !given("messages") {
		return nil, asked, fault.New(fault.Invalid, "messages is missing").WithField("messages")
	}
	if given("stream_options") && !asked.Stream {
		return nil, asked, fault.New(fault.Invalid, "stream_options is only allowed with stream: true").WithField("stream_options")
	}
	if given("top_logprobs") && string(raw["logprobs"]) != "true" {
		return nil, asked, fault.New(fault.Invalid, "top_logprobs is only allowed with logprobs: true").WithField("top_logprobs")
	}
	if out["max_tokens"] == nil {
		out["max_tokens"] = json.RawMessage(fmt.Sprint(ai.DefaultTokens))
	}
	return out, asked, nil
}

// ChatOf makes the body of a run of the resource API, by the same checks.
func ChatOf(r ai.RunRequest) (Chat, error) {
	if (r.Prompt == "") == (len(r.Messages) == 0) {
		return nil, fault.New(fault.Invalid, "exactly one of prompt and messages is wanted").WithField("prompt")
	}
	if r.MaxTokens < 0 || r.MaxTokens > ai.MaxTokens {
		return nil, fault.New(fault.Invalid, "maxTokens is %d; it goes from 1 to %d", r.MaxTokens, ai.MaxTokens).WithField("maxTokens")
	}
	if r.Prompt != "" {
		if r.System != "" {
			r.Messages = append(r.Messages, message("system", r.System))
		}
		r.Messages = append(r.Messages, message("user", r.Prompt))
	} else if r.System != "" {
		return nil, fault.New(fault.Invalid, "system goes with prompt; with messages it is the first message").WithField("system")
	}
	raw := map[string]json.RawMessage{}
	for name, v := range map[string]any{
		"messages": r.Messages, "temperature": r.Temperature, "top_p": r.TopP, "seed": r.Seed, "stop": r.Stop,
		"tools": r.Tools, "tool_choice": r.ToolChoice, "response_format": r.ResponseFormat,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fault.New(fault.Malformed, "%s is no JSON", name).WithField(name)
		}
		raw[name] = b
	}
	if r.MaxTokens > 0 {
		raw["max_tokens"] = json.RawMessage(fmt.Sprint(r.MaxTokens))
	}
	chat, _, err := ParseChat(raw)
	if err != nil {
		e := fault.Of(err)
		if own, ok := ownNames[e.Field]; ok {
			e = e.WithField(own)
		}
		return nil, e
	}
	return chat, nil
}

// ownNames are the fields of a RunRequest whose names differ from OpenAI's.
var ownNames = map[string]string{
	"top_p": "topP", "tool_choice": "toolChoice", "response_format": "responseFormat", "max_tokens": "maxTokens",
}

func message(role, content string) ai.Message {
	b, _ := json.Marshal(content) // a string always encodes
	return ai.Message{Role: role, Content: b}
}
