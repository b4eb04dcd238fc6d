package serverai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The checks of single parameters. Each returns what is wrong in words that follow the parameter's name.

func decode(v json.RawMessage, into any, want string) error {
	if err := json.Unmarshal(v, into); err != nil {
		return fmt.Errorf("must be %s", want)
	}
	return nil
}

func number(low, high float64) func(json.RawMessage) error {
	return func(v json.RawMessage) error {
		var n float64
		if err := decode(v, &n, "a number"); err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("is %v; it goes from %v to %v", n, low, high)
		}
		return nil
	}
}

func integer(low, high int64) func(json.RawMessage) error {
	return func(v json.RawMessage) error {
		var f float64
		if err := decode(v, &f, "an integer"); err != nil {
			return err
		}
		if n := int64(f); float64(n) != f || n < low || n > high {
			return fmt.Errorf("is %s; it is an integer from %d to %d", v, low, high)
		}
		return nil
	}
}

func boolean(v json.RawMessage) error { return decode(v, new(bool), "a boolean") }
func text(v json.RawMessage) error    { return decode(v, new(string), "a string") }
func object(v json.RawMessage) error  { return decode(v, &map[string]json.RawMessage{}, "an object") }

func stop(v json.RawMessage) error {
	var many []string
	if text(v) == nil {
		return nil
	}
	if err := decode(v, &many, "a string or an array of strings"); err != nil {
		return err
	}
	if len(many) > 16 {
		return fmt.Errorf("has %d strings; the limit is 16", len(many))
	}
	return nil
}

type function struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func tools(v json.RawMessage) error {
	var list []function
	if err := decode(v, &list, "an array of {type, function}"); err != nil {
		return err
	}
	if len(list) > 128 {
		return fmt.Errorf("has %d tools; the limit is 128", len(list))
	}
	for i, t := range list {
		if t.Type != "function" || t.Function.Name == "" {
			return fmt.Errorf("[%d] must have type \"function\" and a function with a name", i)
		}
		if len(t.Function.Parameters) > 0 && object(t.Function.Parameters) != nil {
			return fmt.Errorf("[%d].function.parameters must be a JSON schema object", i)
		}
	}
	return nil
}

func toolChoice(v json.RawMessage) error {
	var word string
	if json.Unmarshal(v, &word) == nil {
		if !slices.Contains([]string{"none", "auto", "required"}, word) {
			return fmt.Errorf("is %q; it is none, auto, required, or a function", word)
		}
		return nil
	}
	var f function
	if err := decode(v, &f, "a string or an object"); err != nil {
		return err
	}
	if f.Type != "function" || f.Function.Name == "" {
		return errors.New("must have type \"function\" and a function with a name")
	}
	return nil
}

func responseFormat(v json.RawMessage) error {
	var f struct {
		Type       string `json:"type"`
		JSONSchema *struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := decode(v, &f, "an object"); err != nil {
		return err
	}
	switch f.Type {
	case "text", "json_object":
		return nil
	case "json_schema":
		if f.JSONSchema == nil || object(f.JSONSchema.Schema) != nil {
			return errors.New("of type json_schema needs json_schema.schema, an object")
		}
		return nil
	}
	return fmt.Errorf("has type %q; it is text, json_object or json_schema", f.Type)
}

var roles = []string{"system", "developer", "user", "assistant", "tool"}

func messages(v json.RawMessage) error {
	var list []struct {
		Role       *string         `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCalls  json.RawMessage `json:"tool_calls"`
		ToolCallID string          `json:"tool_call_id"`
	}
	if err := decode(v, &list, "an array of messages"); err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("is empty; one message at least is wanted")
	}
	for i, m := range list {
		if m.Role == nil || !slices.Contains(roles, *m.Role) {
			return fmt.Errorf("[%d].role must be one of %v", i, roles)
		}
		empty := len(m.Content) == 0 || string(m.Content) == "null"
		if empty && !(*m.Role == "assistant" && len(m.ToolCalls) > 0) {
			return fmt.Errorf("[%d].content is missing", i)
		}
		if !empty {
			if err := content(m.Content); err != nil {
				return fmt.Errorf("[%d].content %w", i, err)
			}
		}
		if *m.Role == "tool" && m.ToolCallID == "" {
			return fmt.Errorf("[%d].tool_call_id is missing", i)
		}
	}
	return nil
}

// content is a string or a list of text parts; the fleet serves text models.
func content(v json.RawMessage) error {
	if text(v) == nil {
		return nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := decode(v, &parts, "a string or an array of parts"); err != nil {
		return err
	}
	for i, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("part %d is of type %q; self-hosted models are served text", i, p.Type)
		}
		if p.Text == nil {
			return fmt.Errorf("part %d has no text", i)
		}
	}
	return nil
}

func onlyText(v json.RawMessage) error {
	var kinds []string
	if err := decode(v, &kinds, "an array of strings"); err != nil {
		return err
	}
	for _, k := range kinds {
		if k != "text" {
			return fmt.Errorf("has %q; answers are text", k)
		}
	}
	return nil
}
