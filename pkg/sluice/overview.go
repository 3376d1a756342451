package sluice

import "time"

// Overview summarizes the subscriptions that the caller manages. Fields that the caller may not see
// are absent.
type Overview struct {
	At       time.Time       `json:"at"`
	Oldest   *Undelivered    `json:"oldest_undelivered,omitempty"` // absent: no event waits
	Backlog  OverviewBacklog `json:"backlog"`
	Rates    OverviewRates   `json:"rates"`
	LastHour OverviewHour    `json:"last_hour"`
	Minutes  []MinuteOf      `json:"minutes"` // of the last hour; the last one is not over yet

	Subscriptions map[Health]int    `json:"subscriptions"` // by health
	Breakers      OverviewBreakers  `json:"breakers"`
	Lanes         OverviewLanes     `json:"lanes"`
	DeadLetters   OverviewDead      `json:"dead_letters"`
	Replays       int               `json:"replays"` // number in progress
	Consumers     map[WakeState]int `json:"wake_consumers"`

	Server *OverviewServer `json:"server,omitempty"` // for admins of the server
	Ledger []LedgerEntry   `json:"ledger,omitempty"` // the last ten entries, for admins of the namespace or of the server
}

// Undelivered names the oldest event that waits.
type Undelivered struct {
	At           time.Time `json:"at"` // when it was stored
	AgeSeconds   float64   `json:"age_seconds"`
	Subscription string    `json:"subscription"`
	Namespace    string    `json:"namespace"`
}

// OverviewBacklog counts the undelivered events.
type OverviewBacklog struct {
	Events uint64 `json:"events"` // counts at least one per parked lane
	// Complete: every subscription that seems to have waiting events was counted recently.
	Complete bool `json:"complete"`
}

// OverviewRates are attempts per second of the last minute that all replicas have reported.
type OverviewRates struct {
	Minute     time.Time `json:"minute"`
	Attempts   float64   `json:"attempts_per_second"`
	Deliveries float64   `json:"deliveries_per_second"`
}

// OverviewHour summarizes the attempts of the last hour, to within five minutes.
type OverviewHour struct {
	Delivered uint64                  `json:"delivered"`
	Failed    uint64                  `json:"failed"`
	Failures  map[FailureClass]uint64 `json:"failures"`
	P50       *float64                `json:"p50_ms,omitempty"` // absent without attempts
	P95       *float64                `json:"p95_ms,omitempty"`
	P99       *float64                `json:"p99_ms,omitempty"`
}

// MinuteOf summarizes the attempts of a minute.
type MinuteOf struct {
	At        time.Time `json:"at"`
	Delivered uint64    `json:"delivered"`
	Failed    uint64    `json:"failed"`
}

// OverviewBreakers counts the breakers that are not closed.
type OverviewBreakers struct {
	Open     int `json:"open"`
	HalfOpen int `json:"half_open"`
}

// OverviewLanes counts the parked lanes.
type OverviewLanes struct {
	Parked int `json:"parked"`
	Held   int `json:"held"`        // parked lanes that are held
	Due    int `json:"due_in_hour"` // parked lanes with an attempt in the next hour
}

// OverviewDead counts the dead letters.
type OverviewDead struct {
	Total    uint64            `json:"total"`
	ByReason map[Reason]uint64 `json:"by_reason,omitempty"` // absent without any, and with more than 10,000 on the server
	Counted  bool              `json:"counted"`             // false: the server has too many to count those of a subscription; total is 0
}

// OverviewServer is the state of the server, for its admins.
type OverviewServer struct {
	Version  string            `json:"version"`
	Feeds    int               `json:"feeds"` // connected feeds at all replicas
	Storage  Storage           `json:"storage"`
	Replicas []OverviewReplica `json:"replicas"`
}

// OverviewReplica is a server of a group.
type OverviewReplica struct {
	ID      string    `json:"id"`
	Version string    `json:"version"`
	Leases  int       `json:"leases"` // number of shards of subscriptions that it serves
	Feeds   int       `json:"feeds"`
	SeenAt  time.Time `json:"seen_at"`
}
