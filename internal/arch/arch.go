// Package arch reads the source tree and says where it leaves the shape that docs/ARCHITECTURE.md
// draws: imports that point the wrong way, packages without a doc, files that grew too long, lines
// that only make sense on one machine.
//
// It owns the checks; the table of rooms stays in the document, so that the drawing and the guard
// cannot drift apart. It parses files and runs nothing, and nothing that ships may import it.
package arch

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is a parsed Go source tree, modules nested in it (e2e, bench) included.
type Module struct {
	Root     string // absolute folder of go.mod
	Path     string // module path
	Fset     *token.FileSet
	Packages []*Package // sorted by Dir
}

// Package is one folder of Go files.
type Package struct {
	Dir    string // slash-separated, relative to the root; "." for the root package
	Nested bool   // belongs to a module of its own inside the tree
	Files  []*File
}

// File is one Go file.
type File struct {
	Path  string // slash-separated, relative to the root
	Test  bool
	Lines int
	AST   *ast.File
}

// Violation is one place that breaks a rule.
type Violation struct {
	Where string // file or folder, with a line where there is one
	Rule  string // what is broken and what to do
}

// String is "where: rule".
func (v Violation) String() string { return v.Where + ": " + v.Rule }

// FindRoot is the nearest folder at or above dir that holds a go.mod.
func FindRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find module root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find module root: no go.mod at or above the current folder")
		}
		dir = parent
	}
}

// Load parses every Go file below root.
func Load(root string) (*Module, error) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	m := &Module{Root: root, Fset: token.NewFileSet()}
	for line := range strings.Lines(string(gomod)) {
		if rest, ok := strings.CutPrefix(line, "module "); ok {
			m.Path = strings.TrimSpace(rest)
		}
	}
	byDir := map[string]*Package{}
	nested := map[string]bool{}
	err = walk(root, func(rel string, d fs.DirEntry) error {
		dir := path.Dir(rel)
		if path.Base(rel) == "go.mod" && dir != "." {
			nested[dir] = true
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(m.Fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := byDir[dir]
		if p == nil {
			p = &Package{Dir: dir}
			byDir[dir] = p
			m.Packages = append(m.Packages, p)
		}
		p.Files = append(p.Files, &File{
			Path: rel, Test: strings.HasSuffix(rel, "_test.go"), Lines: bytes.Count(src, []byte("\n")), AST: tree,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	for _, p := range m.Packages {
		for dir := p.Dir; dir != "."; dir = path.Dir(dir) {
			p.Nested = p.Nested || nested[dir]
		}
	}
	slices.SortFunc(m.Packages, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return m, nil
}

// walk calls f for every file that belongs to the project: hidden folders, testdata, what a build
// leaves behind and what npm installs are no part of it.
func walk(root string, f func(rel string, d fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // an editor's or a test's temporary file that just left
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
				name == "testdata" || name == "node_modules" || rel == "bin" || rel == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		return f(rel, d)
	})
}

// Name is the package's name as its product files declare it, or "" when it has only tests.
func (p *Package) Name() string {
	for _, f := range p.Files {
		if !f.Test {
			return f.AST.Name.Name
		}
	}
	return ""
}

// ImportPath is the path other packages import p by.
func (m *Module) ImportPath(p *Package) string {
	if p.Dir == "." {
		return m.Path
	}
	return m.Path + "/" + p.Dir
}

func (m *Module) at(n ast.Node) string {
	pos := m.Fset.Position(n.Pos())
	return pos.Filename + ":" + strconv.Itoa(pos.Line)
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}
