package sluice

import "time"

// Statistics summarize the attempts of a subscription over a period, in steps.
type Statistics struct {
	Step   string            `json:"step"` // 1m, 5m, 30m or 1h
	Points []StatisticsPoint `json:"points"`
}

// StatisticsPoint summarizes the attempts of one step. The durations are estimates from a
// histogram.
type StatisticsPoint struct {
	At        time.Time               `json:"at"` // the start of the step
	Delivered uint64                  `json:"delivered"`
	Failed    uint64                  `json:"failed"`
	P50       *float64                `json:"p50_ms,omitempty"` // absent without attempts
	P95       *float64                `json:"p95_ms,omitempty"`
	P99       *float64                `json:"p99_ms,omitempty"`
	Failures  map[FailureClass]uint64 `json:"failures,omitempty"` // by class
}

// Sparkline summarizes the attempts of a day in 48 steps of half an hour. The last step is not over
// yet.
type Sparkline struct {
	Step      string   `json:"step"`
	Delivered []uint64 `json:"delivered"`
	Failed    []uint64 `json:"failed"`
}
