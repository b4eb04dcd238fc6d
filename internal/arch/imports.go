package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// doing are the packages of the standard library that touch the world outside the process.
var doing = []string{"database/sql", "net", "net/http", "net/rpc", "net/smtp", "os", "os/exec", "os/signal", "syscall"}

// CheckImports lists every import of product code that the table of rooms does not allow. Tests may
// import what they need; modules of their own (e2e, bench) are no product code.
func CheckImports(m *Module, rooms *Rooms) []Violation {
	var out []Violation
	for _, b := range rooms.Never {
		if !rooms.has(b.From) {
			out = append(out, Violation{Document, fmt.Sprintf("never %s -> %s: %s is no room of the table", b.From, b.To, b.From)})
		}
	}
	for _, p := range m.Packages {
		if p.Nested {
			continue
		}
		room, ok := rooms.Of(p.Dir)
		if !ok {
			out = append(out, Violation{p.Dir, "is in no room: move it into one, or add a row to the table in " + Document})
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, spec := range f.AST.Imports {
				if rule := judge(m, rooms, room, f.AST, spec); rule != "" {
					out = append(out, Violation{m.at(spec), rule})
				}
			}
		}
	}
	return out
}

// judge is the rule that one import breaks, or "".
func judge(m *Module, rooms *Rooms, room string, file *ast.File, spec *ast.ImportSpec) string {
	target := importPath(spec)
	inside, local := strings.CutPrefix(target, m.Path+"/")
	if target == m.Path {
		inside, local = ".", true
	}
	if !local {
		return judgeOutside(rooms, room, file, spec, target)
	}
	to, ok := rooms.Of(inside)
	switch {
	case !ok:
		return fmt.Sprintf("imports %s, which is in no room", target)
	case to == room || slices.Contains(rooms.Tests, room):
		return ""
	case slices.Contains(rooms.Tests, to):
		return fmt.Sprintf("%s imports %s, which is for tests only", room, to)
	case slices.Contains(rooms.Never, Ban{room, to}):
		return fmt.Sprintf("%s never imports %s", room, to)
	case rooms.rows[to] <= rooms.rows[room]:
		return fmt.Sprintf("%s imports %s, but an arrow may only point to a row further down the table of %s", room, to, Document)
	}
	return ""
}

func judgeOutside(rooms *Rooms, room string, file *ast.File, spec *ast.ImportSpec, target string) string {
	switch {
	case slices.Contains(rooms.Never, Ban{room, target}) && !onlyConstants(file, spec, target):
		return fmt.Sprintf("%s never imports %s", room, target)
	case slices.Contains(rooms.Pure, room) && slices.Contains(doing, target) && !onlyConstants(file, spec, target):
		return fmt.Sprintf("%s is vocabulary and does no input and output, but imports %s", room, target)
	}
	return ""
}

// onlyConstants is true when a file uses nothing of net/http but the names of statuses and methods:
// those are words, not I/O.
func onlyConstants(file *ast.File, spec *ast.ImportSpec, target string) bool {
	if target != "net/http" {
		return false
	}
	name := path.Base(target)
	if spec.Name != nil {
		name = spec.Name.Name
	}
	only := name != "." && name != "_"
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name &&
			!strings.HasPrefix(sel.Sel.Name, "Status") && !strings.HasPrefix(sel.Sel.Name, "Method") {
			only = false
		}
		return true
	})
	return only
}
