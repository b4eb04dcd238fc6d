package api

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"interlock.sh/fault"
)

// readJSON decodes a plain handler's body. Fields that it does not know are let through: a newer peer
// must not be refused.
func readJSON(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return tooLarge(-1, tooBig.Limit)
		}
		var coded *fault.Error
		if errors.As(err, &coded) {
			return coded
		}
		return fault.Wrap(err, fault.Malformed, "the body broke off").WithField("body")
	}
	if len(b) == 0 {
		return fault.New(fault.Malformed, "the body is empty; this call wants a JSON object").WithField("body")
	}
	return unmarshal(b, into)
}

// lenientJSON is huma's JSON with our decoder.
func lenientJSON() huma.Format {
	f := huma.DefaultJSONFormat
	f.Unmarshal = unmarshal
	return f
}

// maxRewrites bounds how many numbers of one body unmarshal puts right.
const maxRewrites = 64

// unmarshal is json.Unmarshal that takes 2121.0 and 1e3 where an integer is wanted, as JSON means them,
// and that names the field of what it refuses. Bytes that are kept as they came are not touched.
func unmarshal(b []byte, into any) error {
	for range maxRewrites {
		err := json.Unmarshal(b, into)
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) && strings.HasPrefix(typ.Value, "number") && isInteger(typ.Type.Kind().String()) {
			if fixed, ok := wholeNumber(b, typ.Offset); ok {
				b = fixed
				continue
			}
		}
		return malformed(err)
	}
	return fault.New(fault.Malformed, "more than %d integers are written with a fraction or an exponent", maxRewrites).WithField("body")
}

// wholeNumber writes the number that ends at the offset as an integer, when it is one.
func wholeNumber(b []byte, end int64) ([]byte, bool) {
	const digits = "0123456789+-.eE"
	if end < 1 || end > int64(len(b)) {
		return nil, false
	}
	start := end
	for start > 0 && strings.IndexByte(digits, b[start-1]) >= 0 {
		start--
	}
	f, err := strconv.ParseFloat(string(b[start:end]), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || !strings.ContainsAny(string(b[start:end]), ".eE") {
		return nil, false
	}
	out := append([]byte(nil), b[:start]...)
	out = strconv.AppendInt(out, int64(f), 10)
	return append(out, b[end:]...), true
}

// malformed is a decoder's error in our words.
func malformed(err error) error {
	var (
		typ    *json.UnmarshalTypeError
		syntax *json.SyntaxError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typ):
		field := typ.Field
		if field == "" {
			field = "body"
		}
		return fault.New(fault.Malformed, "%s is a JSON %s; it must be %s", field, typ.Value, jsonType(typ.Type.Kind().String())).WithField(field)
	case errors.As(err, &syntax):
		return fault.New(fault.Malformed, "the body is no JSON: %s at byte %d", syntax.Error(), syntax.Offset).WithField("body")
	}
	return fault.New(fault.Malformed, "the body is no whole JSON value: %v", err).WithField("body")
}

func isInteger(kind string) bool {
	return strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint")
}

func jsonType(kind string) string {
	switch {
	case isInteger(kind):
		return "an integer"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "slice", kind == "array":
		return "an array"
	case kind == "struct", kind == "map":
		return "an object"
	case kind == "bool":
		return "a boolean"
	}
	return "a " + kind
}
