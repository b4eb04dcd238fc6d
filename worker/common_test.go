package worker_test

import (
	"encoding/json"
	"testing"

	"interlock.sh/tasks"
)

func deltaText(t testing.TB, e tasks.Entry) string {
	t.Helper()
	var d tasks.DeltaData
	if err := json.Unmarshal(e.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d.Text
}
