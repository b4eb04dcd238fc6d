package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The longest that a file may grow. A file near its limit wants to be two.
const (
	MaxLines     = 600
	MaxTestLines = 800
)

// CheckSizes lists the files that are longer than the limit; generated ones are exempt.
func CheckSizes(m *Module) []Violation {
	var out []Violation
	for _, p := range m.Packages {
		for _, f := range p.Files {
			limit := MaxLines
			if f.Test {
				limit = MaxTestLines
			}
			if f.Lines > limit && !ast.IsGenerated(f.AST) {
				out = append(out, Violation{f.Path, fmt.Sprintf("has %d lines, the limit is %d: split it by concept", f.Lines, limit)})
			}
		}
	}
	return out
}

// CheckDocs lists the packages whose doc comment is missing or does not begin as godoc expects.
func CheckDocs(m *Module) []Violation {
	var out []Violation
	for _, p := range m.Packages {
		name := p.Name()
		if name == "" {
			continue
		}
		doc := ""
		for _, f := range p.Files {
			if !f.Test && f.AST.Doc != nil {
				doc = f.AST.Doc.Text()
			}
		}
		begin := "Package " + name + " "
		if name == "main" {
			begin = "Command "
		}
		if !strings.HasPrefix(doc, begin) {
			out = append(out, Violation{p.Dir, fmt.Sprintf("has no package doc that begins with %q and says what it owns and must not do", begin)})
		}
	}
	return out
}

// CheckCalls lists calls that a rule of the house forbids: leaving the process outside main (the rooms
// that serve tests may, because a test binary that is run again as a child is a main of its own), and
// tests that skip themselves (a helper that is missing is installed by packaging/dev/setup.sh; a test
// of one system belongs in a file of that system).
func CheckCalls(m *Module, rooms *Rooms) []Violation {
	var out []Violation
	for _, p := range m.Packages {
		room, _ := rooms.Of(p.Dir)
		mayExit := p.Name() == "main" || slices.Contains(rooms.Tests, room)
		for _, f := range p.Files {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := sel.X.(*ast.Ident)
				if !ok {
					return true
				}
				switch name := x.Name + "." + sel.Sel.Name; name {
				case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
					if !mayExit && !f.Test {
						out = append(out, Violation{m.at(call), name + " outside main: return an error"})
					}
				case "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "tb.Skip", "tb.Skipf":
					if f.Test {
						out = append(out, Violation{m.at(call), name + ": tests do not skip"})
					}
				}
				return true
			})
		}
	}
	return out
}

// CheckFolders lists the top-level folders that the document does not name as `folder/`.
func CheckFolders(m *Module) ([]Violation, error) {
	text, err := os.ReadFile(filepath.Join(m.Root, filepath.FromSlash(Document)))
	if err != nil {
		return nil, fmt.Errorf("check folders: %w", err)
	}
	var seen []string
	err = walk(m.Root, func(rel string, _ fs.DirEntry) error {
		if top, _, below := strings.Cut(rel, "/"); below && !slices.Contains(seen, top) {
			seen = append(seen, top)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check folders: %w", err)
	}
	var out []Violation
	for _, top := range seen {
		if !bytes.Contains(text, []byte("`"+top+"/`")) {
			out = append(out, Violation{top, fmt.Sprintf("is not explained in %s: name it there as `%s/`", Document, top)})
		}
	}
	return out, nil
}

// Lines that make sense on one machine only. The words are cut in two so that this file passes.
var (
	machinePath  = regexp.MustCompile("(?m)(^|[\\s\"'`(=:])/(wo" + "rk|ro" + "ot)/[A-Za-z0-9._]")
	registryHost = regexp.MustCompile(`registry\.npm` + `js\.org|proxy\.gol` + `ang\.org|files\.python` + `hosted\.org|//py` + `pi\.org`)
)

// CheckText lists the text files that hold a path of somebody's machine or the host of a package
// registry.
func CheckText(m *Module) ([]Violation, error) {
	var out []Violation
	err := walk(m.Root, func(rel string, d fs.DirEntry) error {
		if info, err := d.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(m.Root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil
		}
		for what, expr := range map[string]*regexp.Regexp{
			"holds a path of one machine": machinePath,
			"holds the host of a registry, which belongs in the user's own configuration": registryHost,
		} {
			if at := expr.FindIndex(text); at != nil {
				line := 1 + bytes.Count(text[:at[0]+1], []byte("\n"))
				out = append(out, Violation{fmt.Sprintf("%s:%d", rel, line), what})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check text: %w", err)
	}
	return out, nil
}
