package servertasks

import "interlock.sh/tasks"

// The data of journal entries. Fields are only ever added.
type (
	submittedData struct {
		DelayMs     int64 `json:"delayMs,omitempty"`
		ExpiresInMs int64 `json:"expiresInMs,omitempty"`
		WaitMs      int64 `json:"waitMs,omitempty"` // expiresInMs counts from the first claim, at the latest after so long
	}
	queuedData struct {
		Why string `json:"why"` // due, failed, returned or lost
	}
	leasedData struct {
		WorkerID string `json:"workerId"`
		Number   int    `json:"number"`
		Fence    int64  `json:"fence"`
	}
	cancelData struct {
		Reason string `json:"reason,omitempty"`
	}
	failedData struct {
		tasks.Failure
		Returned bool `json:"returned,omitempty"`
	}
	succeededData struct {
		ResultBytes int `json:"resultBytes"`
	}
	unknownData struct {
		Reason string `json:"reason,omitempty"`
		Lost   bool   `json:"lost,omitempty"`
	}
	logData struct {
		Lines []tasks.LogLine `json:"lines"`
	}
)
