// Command testsum reads the output of `go test -json` on standard input and prints one line a package,
// the whole output of every test that failed, and the counts. It fails when a test or a build failed,
// or when the input ends before every package did. With TEST_COUNTS set it appends
// "passed failed skipped" to that file, so that several runs can be added up.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := run(os.Stdin, os.Stdout, os.Getenv("TEST_COUNTS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of `go test -json`; `go doc test2json` explains the fields.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// sum is what was seen so far.
type sum struct {
	passed, failed, skipped int
	broken                  bool                // something failed outside of a package
	open                    map[string]bool     // packages that began and have not ended
	failedIn                map[string]bool     // packages with a test that failed
	output                  map[string][]string // by package and test, until it is known to have passed
	out                     io.Writer
}

func run(in io.Reader, out io.Writer, countsFile string) (ok bool, err error) {
	s := &sum{open: map[string]bool{}, failedIn: map[string]bool{}, output: map[string][]string{}, out: out}
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		var e event
		switch {
		case len(line) > 0 && json.Unmarshal(line, &e) == nil:
			s.add(e)
		case len(line) > 0: // what go itself says before it speaks JSON
			s.broken = true
			fmt.Fprintf(out, "%s", line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, fmt.Errorf("read events: %w", err)
		}
	}
	for p := range s.open {
		s.failed++
		fmt.Fprintf(out, "FAIL  %s ended without a verdict\n%s", p, strings.Join(s.output[p+" "], ""))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if countsFile != "" {
		if err := s.save(countsFile); err != nil {
			return false, err
		}
	}
	return s.failed == 0 && !s.broken, nil
}

func (s *sum) add(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.out, e.Output)
	case e.Action == "build-fail":
		s.broken = true
	case e.Action == "start":
		s.open[e.Package] = true
	case e.Action == "output":
		s.output[key] = append(s.output[key], e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		s.endPackage(e, key)
	case e.Action == "pass":
		s.passed++
		delete(s.output, key)
	case e.Action == "skip":
		s.skipped++
		fmt.Fprintf(s.out, "skip  %s\n%s", key, strings.Join(s.output[key], ""))
		delete(s.output, key)
	case e.Action == "fail":
		s.failed++
		s.failedIn[e.Package] = true
		fmt.Fprintf(s.out, "FAIL  %s\n%s", key, strings.Join(s.output[key], ""))
		delete(s.output, key)
	}
}

// endPackage prints a package's line. A package that failed prints all it said itself (a panic, a
// race, a build, a TestMain that gave up), and what its unfinished tests said; when none of its tests is
// to blame, the package itself counts as a failure.
func (s *sum) endPackage(e event, key string) {
	delete(s.open, e.Package)
	switch e.Action {
	case "pass":
		fmt.Fprintf(s.out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		if !s.failedIn[e.Package] {
			s.failed++
		}
		for k, lines := range s.output {
			if k != key && strings.HasPrefix(k, e.Package+" ") {
				fmt.Fprintf(s.out, "%s", strings.Join(lines, ""))
			}
		}
		fmt.Fprintf(s.out, "%sFAIL  %s %.1fs\n", strings.Join(s.output[key], ""), e.Package, e.Elapsed)
	}
	delete(s.output, key)
}

func (s *sum) save(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("save counts: %w", err)
	}
	if _, err := fmt.Fprintln(f, s.passed, s.failed, s.skipped); err != nil {
		_ = f.Close()
		return fmt.Errorf("save counts: %w", err)
	}
	return f.Close()
}
