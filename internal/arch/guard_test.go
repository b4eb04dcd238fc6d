package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const table = "# Architecture\n\n`server/` `agent/` `tasks/` `fault/` `internal/` `docs/` `e2e/`\n\n" +
	"```rooms\n" +
	"cmd\n" +
	"cli\n" +
	"server   # the control plane\n" +
	"agent\n" +
	".\n" +
	"tasks\n" +
	"fault\n" +
	"internal/clock internal/ident\n" +
	"\n" +
	"never server -> agent\n" +
	"never cli -> net/http\n" +
	"pure tasks fault\n" +
	"tests internal/testkit\n" +
	"```\n"

// tree writes a module from "path → source" and loads it with the table above.
func tree(t *testing.T, files map[string]string) (*Module, *Rooms) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.test/house\n\ngo 1.26\n")
	write(Document, table)
	for name, text := range files {
		write(name, text)
	}
	m, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := LoadRooms(root)
	if err != nil {
		t.Fatal(err)
	}
	return m, rooms
}

// pkg is a Go file of package name that imports the given paths, a leading "/" meaning the module.
func pkg(name string, imports ...string) string {
	var b strings.Builder
	b.WriteString("// Package " + name + " owns a test.\npackage " + name + "\n")
	for _, p := range imports {
		if strings.HasPrefix(p, "/") {
			p = "example.test/house" + p
		}
		b.WriteString("import _ \"" + p + "\"\n")
	}
	return b.String()
}

func TestCheckImports(t *testing.T) {
	for _, c := range []struct {
		name, file, source string
		want               string // part of the one violation, or "" for none
	}{
		{"down the table", "server/store/s.go", pkg("store", "/tasks", "/internal/clock", "database/sql"), ""},
		{"within one room", "server/s.go", pkg("server", "/server/store"), ""},
		{"an arrow turned round", "tasks/t.go", pkg("tasks", "/server"), "tasks imports server, but an arrow may only point to a row further down"},
		{"from a folder deep in a room", "agent/localapi/a.go", pkg("localapi", "/cli"), "agent imports cli, but an arrow"},
		{"sideways in one row", "internal/clock/c.go", pkg("clock", "/internal/ident"), "internal/clock imports internal/ident, but an arrow"},
		{"a mechanism imports a room", "internal/ident/i.go", pkg("ident", "/fault"), "internal/ident imports fault, but an arrow"},
		{"the root package is low in the table", "root.go", pkg("house", "/agent"), ". imports agent, but an arrow"},
		{"a ban that the rows would allow", "server/s.go", pkg("server", "/agent/localapi"), "server never imports agent"},
		{"a ban on the standard library", "cli/c.go", pkg("cli", "net/http"), "cli never imports net/http"},
		{"vocabulary opens a file", "tasks/t.go", pkg("tasks", "os"), "tasks is vocabulary and does no input and output, but imports os"},
		{"vocabulary dials", "fault/f.go", pkg("fault", "net"), "fault is vocabulary"},
		{"vocabulary names a status", "fault/f.go", "// Package fault owns.\npackage fault\nimport \"net/http\"\nconst S = http.StatusOK\n", ""},
		{"vocabulary makes a request", "fault/f.go", "// Package fault owns.\npackage fault\nimport \"net/http\"\nvar S, C = http.StatusOK, http.DefaultClient\n", "fault is vocabulary"},
		{"product code imports the test kit", "agent/a.go", pkg("agent", "/internal/testkit"), "agent imports internal/testkit, which is for tests only"},
		{"a test imports the test kit", "agent/a_test.go", pkg("agent", "/internal/testkit"), ""},
		{"the test kit imports everything", "internal/testkit/k.go", pkg("testkit", "/server", "/agent"), ""},
		{"a module of its own imports everything", "e2e/e.go", pkg("e2e", "/internal/testkit", "/server"), ""},
		{"a folder in no room", "util/u.go", pkg("util"), "is in no room"},
		{"an import of no room", "cli/c.go", pkg("cli", "/util"), "is in no room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, rooms := tree(t, map[string]string{c.file: c.source, "e2e/go.mod": "module example.test/e2e\n"})
			expect(t, CheckImports(m, rooms), c.want)
		})
	}
}

func TestABanOnAnUnknownRoomIsSaid(t *testing.T) {
	rooms, err := ParseRooms("```rooms\nserver\nnever sever -> agent\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, CheckImports(&Module{}, rooms), "sever is no room of the table")
}

func TestParseRoomsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"no block":                         "has no ```rooms block",
		"```rooms\na\n":                    "does not end",
		"```rooms\na\nb a\n```":            "a stands in two rows",
		"```rooms\na\nnever a\n```":        "is not \"never a -> b\"",
		"```rooms\na\nnever -> a\n```":     "is not \"never a -> b\"",
		"```rooms\na\nnever a -> # b\n```": "is not \"never a -> b\"",
	} {
		if _, err := ParseRooms(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRooms(%q) said %v, want %q", text, err, want)
		}
	}
}

func TestCheckHygiene(t *testing.T) {
	long := func(n int) string { return pkg("tasks") + strings.Repeat("//\n", n) }
	for _, c := range []struct {
		name, file, source string
		check              func(*Module, *Rooms) []Violation
		want               string
	}{
		{"a file over the limit", "tasks/t.go", long(MaxLines), checkSizes, "the limit is 600"},
		{"a test may be longer", "tasks/t_test.go", long(MaxLines), checkSizes, ""},
		{"but not for ever", "tasks/t_test.go", long(MaxTestLines), checkSizes, "the limit is 800"},
		{"generated code may be long", "tasks/t.go", "// Code generated by x. DO NOT EDIT.\n\n" + long(MaxLines), checkSizes, ""},
		{"no package doc", "tasks/t.go", "package tasks\n", checkDocs, "has no package doc"},
		{"a doc of something else", "tasks/t.go", "// Tasks are nice.\npackage tasks\n", checkDocs, "has no package doc"},
		{"a command's doc", "cmd/x/main.go", "// Command x runs.\npackage main\n", checkDocs, ""},
		{"a folder of tests needs no doc", "tasks/t_test.go", "package tasks\n", checkDocs, ""},
		{"a test that skips", "tasks/t_test.go", "package tasks\nfunc f(t *testing.T) { t.Skip() }\n", CheckCalls, "tests do not skip"},
		{"leaving outside main", "tasks/t.go", "package tasks\nfunc f() { os.Exit(1) }\n", CheckCalls, "os.Exit outside main"},
		{"leaving a child of the test kit", "internal/testkit/k.go", "package testkit\nfunc f() { os.Exit(1) }\n", CheckCalls, ""},
		{"leaving main", "cmd/x/main.go", "package main\nfunc main() { os.Exit(1) }\n", CheckCalls, ""},
		{"a machine's path", "packaging/a.sh", "cd /wo" + "rk/main\n", checkText, "a path of one machine"},
		{"a path that only looks like one", "packaging/a.sh", "cd ~/wo" + "rk/main; see docs/wo" + "rk/a\n", checkText, ""},
		{"a registry's host", "packaging/a.sh", "x\ny https://registry.npm" + "js.org/left\n", checkText, "packaging/a.sh:2: holds the host"},
		{"a folder the document does not name", "attic/a.txt", "x", checkFolders, "attic: is not explained"},
		{"a folder the document names", "server/a.txt", "x", checkFolders, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, rooms := tree(t, map[string]string{c.file: c.source})
			expect(t, c.check(m, rooms), c.want)
		})
	}
}

func checkSizes(m *Module, _ *Rooms) []Violation   { return CheckSizes(m) }
func checkDocs(m *Module, _ *Rooms) []Violation    { return CheckDocs(m) }
func checkText(m *Module, _ *Rooms) []Violation    { return must(CheckText(m)) }
func checkFolders(m *Module, _ *Rooms) []Violation { return must(CheckFolders(m)) }

func must(found []Violation, err error) []Violation {
	if err != nil {
		return []Violation{{Rule: err.Error()}}
	}
	return found
}

func TestConcurrent(t *testing.T) {
	m, _ := tree(t, map[string]string{
		"server/s.go":     pkg("server") + "func f() { go f() }\n",
		"agent/a.go":      pkg("agent") + "func f() { g.Go(f) }\n",
		"tasks/t.go":      pkg("tasks"),
		"tasks/t_test.go": pkg("tasks") + "func f() { go f() }\n",
		"e2e/go.mod":      "module example.test/e2e\n",
		"e2e/e.go":        pkg("e2e") + "func f() { go f() }\n",
	})
	with, without := Concurrent(m)
	dirs := func(ps []*Package) string {
		var out []string
		for _, p := range ps {
			out = append(out, p.Dir)
		}
		return strings.Join(out, " ")
	}
	if dirs(with) != "agent server" || dirs(without) != "tasks" {
		t.Fatalf("with %q, without %q", dirs(with), dirs(without))
	}
}

// expect wants exactly one violation that contains want, or none when want is "".
func expect(t *testing.T, found []Violation, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) == 0:
	case want != "" && len(found) == 1 && strings.Contains(found[0].String(), want):
	default:
		t.Fatalf("found %v, want %q", found, want)
	}
}
