package arch

import "testing"

// TestTree holds this repository to its own document.
func TestTree(t *testing.T) {
	root, err := FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := LoadRooms(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("imports point down the table of rooms", func(t *testing.T) { report(t, CheckImports(m, rooms)) })
	t.Run("every package has a doc", func(t *testing.T) { report(t, CheckDocs(m)) })
	t.Run("no file is too long", func(t *testing.T) { report(t, CheckSizes(m)) })
	t.Run("no forbidden call", func(t *testing.T) { report(t, CheckCalls(m, rooms)) })
	t.Run("the document names every folder", func(t *testing.T) {
		found, err := CheckFolders(m)
		if err != nil {
			t.Fatal(err)
		}
		report(t, found)
	})
	t.Run("no line of one machine", func(t *testing.T) {
		found, err := CheckText(m)
		if err != nil {
			t.Fatal(err)
		}
		report(t, found)
	})
}

func report(t *testing.T, found []Violation) {
	t.Helper()
	for _, v := range found {
		t.Error(v)
	}
}
