package config

import (
	"errors"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits bounds what there may be.
type Limits struct {
	// SubscriptionsPerNamespace is how many subscriptions a namespace may have; 0: any number; 10000.
	SubscriptionsPerNamespace int `json:"subscriptions_per_namespace" env:"SUBSCRIPTIONS_PER_NAMESPACE"`
	// SubscriptionsPerPrincipal is how many subscriptions one principal may have that a grant bounds, and those to whom it
	// gave parts of it; 0: any number; 1000.
	SubscriptionsPerPrincipal int `json:"subscriptions_per_principal" env:"SUBSCRIPTIONS_PER_PRINCIPAL"`
	// SubscriptionsPerHost is how many of them send to one host without its consent (endpoint.handshake); 0: any number; 100.
	SubscriptionsPerHost int `json:"subscriptions_per_host" env:"SUBSCRIPTIONS_PER_HOST"`
	// SendsPerSubscription is how many tests, retries, redrives and replays of a subscription may be asked for in a minute;
	// 0: any number; 60.
	SendsPerSubscription int `json:"sends_per_subscription" env:"SENDS_PER_SUBSCRIPTION"`
	// SendsPerPrincipal is the same for all that a principal asks for that a grant bounds; 300.
	SendsPerPrincipal int `json:"sends_per_principal" env:"SENDS_PER_PRINCIPAL"`
	// FilterCostPerPrincipal is what dear CEL filters of a principal's subscriptions may cost a second; 0: any amount;
	// 1000000, about a quarter of a processor.
	FilterCostPerPrincipal int `json:"filter_cost_per_principal" env:"FILTER_COST_PER_PRINCIPAL"`
	// FilterCostPerNamespace is the same for all subscriptions of a namespace; 0: any amount; 4000000.
	FilterCostPerNamespace int `json:"filter_cost_per_namespace" env:"FILTER_COST_PER_NAMESPACE"`
	// ScheduledPerNamespace is how many events of a namespace may wait for the time at which they are stored; 0: any number; 10000.
	ScheduledPerNamespace int `json:"scheduled_per_namespace" env:"SCHEDULED_PER_NAMESPACE"`
	// ScheduleAhead is how far away that time may be, at least 1s; 0: as far as one likes; 8760h.
	ScheduleAhead sluice.Duration `json:"schedule_ahead" env:"SCHEDULE_AHEAD"`
	// AppointmentsPerNamespace is how many appointments a namespace may have; 0: any number; 1000.
	AppointmentsPerNamespace int `json:"appointments_per_namespace" env:"APPOINTMENTS_PER_NAMESPACE"`
}

func defaultLimits() Limits {
	return Limits{
		SubscriptionsPerNamespace: 10_000, SubscriptionsPerPrincipal: 1000, SubscriptionsPerHost: 100, SendsPerSubscription: 60, SendsPerPrincipal: 300,
		FilterCostPerPrincipal: 1_000_000, FilterCostPerNamespace: 4_000_000,
		ScheduledPerNamespace: 10_000, ScheduleAhead: sluice.Duration(365 * 24 * time.Hour), AppointmentsPerNamespace: 1000,
	}
}

func (l Limits) check() error {
	return errors.Join(
		when(l.SubscriptionsPerNamespace < 0, "limits.subscriptions_per_namespace %d: write a number, or 0 for any number", l.SubscriptionsPerNamespace),
		when(l.SubscriptionsPerPrincipal < 0, "limits.subscriptions_per_principal %d: write a number, or 0 for any number", l.SubscriptionsPerPrincipal),
		when(l.SubscriptionsPerHost < 0, "limits.subscriptions_per_host %d: write a number, or 0 for any number", l.SubscriptionsPerHost),
		when(l.SendsPerSubscription < 0, "limits.sends_per_subscription %d: write a number, or 0 for any number", l.SendsPerSubscription),
		when(l.SendsPerPrincipal < 0, "limits.sends_per_principal %d: write a number, or 0 for any number", l.SendsPerPrincipal),
		when(l.FilterCostPerPrincipal < 0, "limits.filter_cost_per_principal %d: write a number, or 0 for any amount", l.FilterCostPerPrincipal),
		when(l.FilterCostPerNamespace < 0, "limits.filter_cost_per_namespace %d: write a number, or 0 for any amount", l.FilterCostPerNamespace),
		when(l.ScheduledPerNamespace < 0, "limits.scheduled_per_namespace %d: write a number, or 0 for any number", l.ScheduledPerNamespace),
		when(l.ScheduleAhead != 0 && l.ScheduleAhead < second, "limits.schedule_ahead %s: write a duration of at least 1s, such as 8760h, or 0s for no bound", l.ScheduleAhead),
		when(l.AppointmentsPerNamespace < 0, "limits.appointments_per_namespace %d: write a number, or 0 for any number", l.AppointmentsPerNamespace),
	)
}

// Durable is about Durable Streams, which are below /streams/<namespace>/.
type Durable struct {
	// Anonymous are namespaces whose streams anybody may read, write and delete without a token, as far as
	// neither an access list nor a label is against it: for trying it out; none.
	Anonymous []string `json:"anonymous" env:"ANONYMOUS"`
	// AtRoot is the namespace whose streams are at /v1/stream/<path> too, for clients that know the server's origin
	// only; "": none.
	AtRoot string `json:"at_root" env:"AT_ROOT"`
	// LongPoll is how long a reader waits for what comes next, at most 1m; 30s.
	LongPoll sluice.Duration `json:"long_poll" env:"LONG_POLL"`
	// MaxBody bounds what is appended at once, in bytes; 10485760 (10 MiB).
	MaxBody int64 `json:"max_body" env:"MAX_BODY"`
}

func (d Durable) check() error {
	errs := []error{
		when(d.AtRoot != "" && sluice.CheckNamespaceName(d.AtRoot) != nil, "durable.at_root %q: write the name of a namespace, or nothing", d.AtRoot),
		when(d.LongPoll <= 0 || d.LongPoll > sluice.Duration(time.Minute), "durable.long_poll %s: write a duration up to 1m, such as 30s", d.LongPoll),
		when(d.MaxBody <= 0 || d.MaxBody > maxAppend, "durable.max_body %d: write a number of bytes up to %d", d.MaxBody, maxAppend),
	}
	for _, name := range d.Anonymous {
		errs = append(errs, when(sluice.CheckNamespaceName(name) != nil, "durable.anonymous %q: write names of namespaces", name))
	}
	return errors.Join(errs...)
}

// maxAppend is what still fits into one batch of events.
const maxAppend = 256 << 20

// Watches is about what is done when events meet a condition.
type Watches struct {
	// PerNamespace is how many watches a namespace may have; 0: any number; 100.
	PerNamespace int `json:"per_namespace" env:"PER_NAMESPACE"`
	// EvaluationsPerSecond is how many events a watch looks at in a second; of how many it does not, is told; 1000.
	EvaluationsPerSecond int `json:"evaluations_per_second" env:"EVALUATIONS_PER_SECOND"`
	// Paths is of how many paths a watch remembers whether its condition holds, and when it fired; beyond it forgets
	// the one of which nothing came for the longest time; at most 4096; 1024.
	Paths int `json:"paths" env:"PATHS"`
}

// maxPaths is how many paths fit into the record of a watch.
const maxPaths = 4096

func (w Watches) check() error {
	return errors.Join(
		when(w.PerNamespace < 0, "watches.per_namespace %d: write a number, or 0 for any number", w.PerNamespace),
		when(w.EvaluationsPerSecond <= 0, "watches.evaluations_per_second %d: write a number above 0", w.EvaluationsPerSecond),
		when(w.Paths <= 0 || w.Paths > maxPaths, "watches.paths %d: write a number of paths from 1 to %d", w.Paths, maxPaths),
	)
}

// Feed is about the live feeds of namespaces.
type Feed struct {
	// Ring is how many of its last events are kept in memory for each namespace that somebody has a feed
	// of, and how many events a reader may be behind that says nothing else; 1024.
	Ring int `json:"ring" env:"RING"`
	// MaxBuffer is how many events a reader may ask to be allowed to be behind; 16384.
	MaxBuffer int `json:"max_buffer" env:"MAX_BUFFER"`
	// Heartbeat is after how long a feed that has nothing to send says so, at least 1s; 15s.
	Heartbeat sluice.Duration `json:"heartbeat" env:"HEARTBEAT"`
	// MaxFeeds is how many feeds this server has at once; 20000.
	MaxFeeds int `json:"max_feeds" env:"MAX_FEEDS"`
	// MaxPerPrincipal is how many of them one principal has that a grant bounds; 1000.
	MaxPerPrincipal int `json:"max_per_principal" env:"MAX_PER_PRINCIPAL"`
	// RingBytes is how much memory the last events of all namespaces take together, about; 1073741824 (1 GiB).
	RingBytes int `json:"ring_bytes" env:"RING_BYTES"`
}

func (f Feed) check() error {
	return errors.Join(
		when(f.Ring <= 0 || f.Ring > maxRing, "feed.ring %d: write a number of events from 1 to %d", f.Ring, maxRing),
		when(f.MaxBuffer <= 0 || f.MaxBuffer > maxRing, "feed.max_buffer %d: write a number of events from 1 to %d", f.MaxBuffer, maxRing),
		when(f.MaxFeeds <= 0, "feed.max_feeds %d: write a number above 0", f.MaxFeeds),
		when(f.MaxPerPrincipal <= 0, "feed.max_per_principal %d: write a number above 0", f.MaxPerPrincipal),
		when(f.RingBytes < minRingBytes, "feed.ring_bytes %d: write at least %d (1 MiB)", f.RingBytes, minRingBytes),
		when(f.Heartbeat < second, "feed.heartbeat %s: write a duration of at least 1s, such as 15s", f.Heartbeat),
	)
}

// maxRing is how many events still fit into memory; minRingBytes is what some events need.
const maxRing, minRingBytes = 1 << 20, 1 << 20

// Export is about copies in files.
type Export struct {
	// Dir is a directory below which dead letters (events/dlq) and events (logs/events) are
	// written to files, for all namespaces; empty: they are not.
	Dir string `json:"dir" env:"DIR"`
}

// Tracing is where traces go.
type Tracing struct {
	// Endpoint is the base URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318; traces go
	// to /v1/traces below it. Empty: OTEL_EXPORTER_OTLP_ENDPOINT, and if that is empty too, none.
	Endpoint string `json:"endpoint" env:"ENDPOINT"`
}

// Secrets is about the keys that what is secret in the store is sealed with. Whatever names
// them, the first seals and all open: a new key is put in front, and the old one removed when
// nothing is sealed with it any more.
type Secrets struct {
	// Key is one key or several divided by commas, the newest first, each base64 of 32 bytes; it
	// goes before KeyFile, and belongs into the variable SLUICE_SECRETS_KEY rather than into a
	// file; empty: KeyFile.
	Key string `json:"key" env:"KEY"`
	// KeyFile has one key a line, the newest first, and can be read by nobody else; empty:
	// secrets.key in Data, which the first start makes.
	KeyFile string `json:"key_file" env:"KEY_FILE"`
}
