package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"interlock.sh/bench/rig"
)

// answerTokens is the length of every answer: the model may not end its turn before.
const answerTokens = 128

// endOfTurn are the tokens by which the model would end; biased away, so that all answers are of one
// length.
var endOfTurn = map[string]int{"0": -100, "2": -100}

// answer is one streamed chat completion.
type answer struct {
	first  time.Duration // from the request to the first words
	last   time.Duration // to the last words
	whole  time.Duration // to the end of the stream
	prompt int
	tokens int
}

// decoding is the speed from the first word to the last.
func (a answer) decoding() float64 { return float64(a.tokens-1) / (a.last - a.first).Seconds() }

// kind is one kind of question: how long its answers are, and a text with room for a number.
type kind struct {
	tokens int
	text   string
}

// The questions: long answers measure speed. The time to the first token has short questions and answers of
// its own and many more of them: on a machine whose speed drifts, reading a long prompt hides milliseconds.
var (
	long = kind{answerTokens, "Case number %06d. You keep the logbook of a small observatory on a hill by the sea. " +
		"Write the entry of last night in plain words: the weather, the instruments, what was seen, and what went wrong."}
	short = kind{4, "Case number %06d."}
)

// prompts are distinct and of one length in tokens: the model splits numbers into digits.
type prompts struct{ next int }

func (p *prompts) make(k kind) string {
	p.next++
	return fmt.Sprintf(k.text, p.next)
}

// request is the body that both doors get.
func request(prompt string, tokens int) []byte {
	b, _ := json.Marshal(map[string]any{ // strings and numbers: it always encodes
		"model": rig.Alias, "messages": []map[string]string{{"role": "user", "content": prompt}},
		"max_tokens": tokens, "temperature": 0, "cache_prompt": false, "logit_bias": endOfTurn,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	return b
}

// ask streams one chat completion.
func ask(ctx context.Context, c *http.Client, door rig.Door, prompt string, tokens int) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, door.URL+"/v1/chat/completions", bytes.NewReader(request(prompt, tokens)))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+door.Key)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is of a reason
		return answer{}, fmt.Errorf("%s: %s", resp.Status, b)
	}
	var a answer
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		at := time.Since(began)
		if string(data) == "[DONE]" {
			a.whole = at
			_, err := io.Copy(io.Discard, resp.Body) // to the end, so that the connection can be kept
			return a, errors.Join(err, a.check(tokens))
		}
		if err := a.chunk(data, at); err != nil {
			return a, err
		}
	}
	return a, errors.Join(errors.New("the stream broke off"), lines.Err())
}

func (a *answer) chunk(data []byte, at time.Duration) error {
	var c struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read chunk: %w", err)
	}
	if c.Error != nil {
		return fmt.Errorf("the stream says %s", c.Error)
	}
	if c.Usage != nil {
		a.prompt, a.tokens = c.Usage.Prompt, c.Usage.Completion
	}
	if len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
		if a.first == 0 {
			a.first = at
		}
		a.last = at
	}
	return nil
}

func (a *answer) check(tokens int) error {
	if a.tokens != tokens || a.first == 0 {
		return fmt.Errorf("an answer has %d tokens, not %d: the comparison would be unfair", a.tokens, tokens)
	}
	return nil
}
