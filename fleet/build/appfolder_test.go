package build_test

import (
	"testing"

	"interlock.sh/fleet/build"
)

func TestWhatAnAppFolderIs(t *testing.T) {
	for name, want := range map[string]string{"app": "", "app-0123abcd": "0123abcd", build.OwnApp("ffffffff"): "ffffffff"} {
		if mark, ok := build.ReadApp(name); !ok || mark != want {
			t.Errorf("%q: %q, %v", name, mark, ok)
		}
	}
	for _, name := range []string{"", "apple", "app-", "app-0123abc", "app-0123abcde", "app-0123ABCD", "app-0123abcg", "app-0123 bcd", "App", "app ", "xapp", "app/1", "app-old", "app-../../x"} {
		if mark, ok := build.ReadApp(name); ok || mark != "" {
			t.Errorf("%q is an app folder: %q", name, mark)
		}
	}
}
