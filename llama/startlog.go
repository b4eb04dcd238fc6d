package llama

import (
	"regexp"
	"strings"
)

// logPrefix is what newer builds put before a message: the time since the start and the level, e.g.
// "0.00.005.003 E ". Older ones print the bare message.
var logPrefix = regexp.MustCompile(`^(?:\x1b\[[0-9;]*m)*(?:\d+\.)+\d+ ([A-Z]) (.*)$`)

// consequences are lines that say only that something failed because of a line above them.
var consequences = []string{
	"exiting due to",
	"llama_model_load_from_file_impl: failed to load model",
	"llama_load_model_from_file: failed to load model",
	"common_fit_params:",
	"failed to load model '", "failed to load model, '", "failed to load model from",
	"failed to create context with model", "failed to create_context with model",
	"unable to load model",
	"cleaning up before exit",
}

// causes tell an error line from chatter in builds that print no level.
var causes = []string{"error", "failed", "fail:", "couldn't", "could not", "cannot", "unable to", "invalid", "insufficient memory", "out of memory", "unknown", "terminate called", "assert"}

// ParseStartError is the line of a failed start that says why, without the time and level before it:
// the last error that is no mere consequence of an earlier one, else the last consequence. It is ""
// when the log has no error: llama-server writes its log from a thread that a failing start may end
// before it wrote everything, which happens on a busy machine.
func ParseStartError(logTail []string) string {
	consequence := ""
	for i := len(logTail) - 1; i >= 0; i-- {
		level, message := splitLog(logTail[i])
		if !isError(level, message) {
			continue
		}
		if !containsAny(message, consequences) {
			return message
		}
		if consequence == "" {
			consequence = message
		}
	}
	return consequence
}

func splitLog(line string) (level, message string) {
	line = strings.TrimRight(line, " \r\n")
	if m := logPrefix.FindStringSubmatch(line); m != nil {
		level, line = m[1], m[2]
	}
	return level, strings.Join(strings.Fields(line), " ")
}

func isError(level, message string) bool {
	if level != "" {
		return level == "E"
	}
	return containsAny(strings.ToLower(message), causes)
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
