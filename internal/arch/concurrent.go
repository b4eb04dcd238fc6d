package arch

import "go/ast"

// Concurrent are the packages, of this module alone, whose product code starts goroutines: the ones
// whose tests are worth the price of the race detector.
func Concurrent(m *Module) (with, without []*Package) {
	for _, p := range m.Packages {
		switch {
		case p.Nested:
		case startsGoroutines(p):
			with = append(with, p)
		default:
			without = append(without, p)
		}
	}
	return with, without
}

// startsGoroutines sees go statements and the Go method of an errgroup, a WaitGroup and their like.
func startsGoroutines(p *Package) bool {
	found := false
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
					found = true
				}
			}
			return !found
		})
	}
	return found
}
