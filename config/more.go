package config

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits configures the maximum numbers of resources.
type Limits struct {
	// SubscriptionsPerNamespace is the maximum number of subscriptions in a namespace; 0:
	// unlimited; 10000.
	SubscriptionsPerNamespace int `json:"subscriptions_per_namespace" env:"SUBSCRIPTIONS_PER_NAMESPACE"`
	// SubscriptionsPerPrincipal is the maximum number of subscriptions of a principal with a grant,
	// including the subscriptions under grants derived from its own; 0: unlimited; 1000.
	SubscriptionsPerPrincipal int `json:"subscriptions_per_principal" env:"SUBSCRIPTIONS_PER_PRINCIPAL"`
	// SubscriptionsPerHost is the maximum number of them that send to one host without its consent
	// (endpoint.handshake); 0: unlimited; 100.
	SubscriptionsPerHost int `json:"subscriptions_per_host" env:"SUBSCRIPTIONS_PER_HOST"`
	// SendsPerSubscription is the maximum number of tests, retries, redrives, replays and seeks of a
	// subscription per minute; 0: unlimited; 60.
	SendsPerSubscription int `json:"sends_per_subscription" env:"SENDS_PER_SUBSCRIPTION"`
	// SendsPerPrincipal is the same limit across all subscriptions, and including handshakes, for a
	// principal with a grant; 300.
	SendsPerPrincipal int `json:"sends_per_principal" env:"SENDS_PER_PRINCIPAL"`
	// FilterCostPerPrincipal limits the cost per second of expensive CEL filters in a principal's
	// subscriptions, feeds and watches; 0: unlimited; 1000000, about a quarter of a processor.
	FilterCostPerPrincipal int `json:"filter_cost_per_principal" env:"FILTER_COST_PER_PRINCIPAL"`
	// FilterCostPerNamespace is the same limit for a namespace; 0: unlimited; 4000000.
	FilterCostPerNamespace int `json:"filter_cost_per_namespace" env:"FILTER_COST_PER_NAMESPACE"`
	// ScheduledPerNamespace is the maximum number of scheduled events in a namespace; 0: unlimited;
	// 10000.
	ScheduledPerNamespace int `json:"scheduled_per_namespace" env:"SCHEDULED_PER_NAMESPACE"`
	// ScheduleAhead is how far ahead an event may be scheduled, at least 1s; 0: unlimited; 8760h.
	ScheduleAhead sluice.Duration `json:"schedule_ahead" env:"SCHEDULE_AHEAD"`
	// AppointmentsPerNamespace is the maximum number of appointments in a namespace; 0: unlimited;
	// 1000.
	AppointmentsPerNamespace int `json:"appointments_per_namespace" env:"APPOINTMENTS_PER_NAMESPACE"`
	// KnowledgeMemory is the approximate memory for the enrichment of all namespaces together, in
	// bytes; one of them gets at most half of it, and entries without room get no jobs and are not
	// found; 0: unlimited; 1073741824 (1 GiB).
	KnowledgeMemory int64 `json:"knowledge_memory" env:"KNOWLEDGE_MEMORY"`
}

func defaultLimits() Limits {
	return Limits{
		SubscriptionsPerNamespace: 10_000, SubscriptionsPerPrincipal: 1000, SubscriptionsPerHost: 100, SendsPerSubscription: 60, SendsPerPrincipal: 300,
		FilterCostPerPrincipal: 1_000_000, FilterCostPerNamespace: 4_000_000,
		ScheduledPerNamespace: 10_000, ScheduleAhead: sluice.Duration(365 * 24 * time.Hour), AppointmentsPerNamespace: 1000,
		KnowledgeMemory: 1 << 30,
	}
}

func (l Limits) check() error {
	return errors.Join(
		when(l.SubscriptionsPerNamespace < 0, "limits.subscriptions_per_namespace %d: write a number, or 0 for unlimited", l.SubscriptionsPerNamespace),
		when(l.SubscriptionsPerPrincipal < 0, "limits.subscriptions_per_principal %d: write a number, or 0 for unlimited", l.SubscriptionsPerPrincipal),
		when(l.SubscriptionsPerHost < 0, "limits.subscriptions_per_host %d: write a number, or 0 for unlimited", l.SubscriptionsPerHost),
		when(l.SendsPerSubscription < 0, "limits.sends_per_subscription %d: write a number, or 0 for unlimited", l.SendsPerSubscription),
		when(l.SendsPerPrincipal < 0, "limits.sends_per_principal %d: write a number, or 0 for unlimited", l.SendsPerPrincipal),
		when(l.FilterCostPerPrincipal < 0, "limits.filter_cost_per_principal %d: write a number, or 0 for unlimited", l.FilterCostPerPrincipal),
		when(l.FilterCostPerNamespace < 0, "limits.filter_cost_per_namespace %d: write a number, or 0 for unlimited", l.FilterCostPerNamespace),
		when(l.ScheduledPerNamespace < 0, "limits.scheduled_per_namespace %d: write a number, or 0 for unlimited", l.ScheduledPerNamespace),
		when(l.ScheduleAhead != 0 && l.ScheduleAhead < second, "limits.schedule_ahead %s: write a duration of at least 1s, such as 8760h, or 0s for unlimited", l.ScheduleAhead),
		when(l.AppointmentsPerNamespace < 0, "limits.appointments_per_namespace %d: write a number, or 0 for unlimited", l.AppointmentsPerNamespace),
		when(l.KnowledgeMemory != 0 && l.KnowledgeMemory < minKnowledge, "limits.knowledge_memory %d: write at least %d (1 MiB), or 0 for unlimited", l.KnowledgeMemory, minKnowledge),
	)
}

// minKnowledge is the memory in bytes for the enrichment of a few entries.
const minKnowledge = 1 << 20

// Durable configures Durable Streams, which are below /streams/<namespace>/.
type Durable struct {
	// Anonymous are namespaces whose streams can be read, written and deleted without a token,
	// unless an access list or a label denies it; for experiments; none.
	Anonymous []string `json:"anonymous" env:"ANONYMOUS"`
	// AtRoot is the namespace whose streams are also at /v1/stream/<path>, for clients that take
	// only the server's origin; "": none.
	AtRoot string `json:"at_root" env:"AT_ROOT"`
	// LongPoll is how long a read waits for new data, at most 1m; 30s.
	LongPoll sluice.Duration `json:"long_poll" env:"LONG_POLL"`
	// MaxBody limits one append, in bytes; 10485760 (10 MiB).
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

// maxAppend is the size in bytes of the largest append that fits into one batch of events.
const maxAppend = 256 << 20

// Mirrors configures subscriptions of mode mirror.
type Mirrors struct {
	// Workers is the number of mirrors that sync at once, at most half of them of one namespace; 10.
	Workers int `json:"workers" env:"WORKERS"`
	// PerNamespace is the maximum number of mirrors in a namespace; 0: unlimited; 100.
	PerNamespace int `json:"per_namespace" env:"PER_NAMESPACE"`
	// Tombstones is how long an entry that its source deleted remains readable as a tombstone; 0s:
	// for ever; 2160h (90 days).
	Tombstones sluice.Duration `json:"tombstones" env:"TOMBSTONES"`
	// StagingBytes is the maximum size of all bundles that arrive as directories, in <data>/imports; a
	// larger one is refused; 4294967296 (4 GiB).
	StagingBytes int64 `json:"staging_bytes" env:"STAGING_BYTES"`
}

func (m Mirrors) check() error {
	return errors.Join(
		when(m.Workers < 1 || m.Workers > maxMirrorWorkers, "mirrors.workers %d: write a number from 1 to %d", m.Workers, maxMirrorWorkers),
		when(m.PerNamespace < 0, "mirrors.per_namespace %d: write a number, or 0 for unlimited", m.PerNamespace),
		when(m.StagingBytes < 0, "mirrors.staging_bytes %d: write a number of bytes", m.StagingBytes),
		when(m.Tombstones != 0 && m.Tombstones.Std() < time.Minute, "mirrors.tombstones %s: write at least 1m, or 0s for ever", m.Tombstones),
	)
}

const maxMirrorWorkers = 1024

// Modules configures programs that run on events.
type Modules struct {
	// Dirs are directories of modules. An admin approves each module before its programs run; none.
	Dirs []string `json:"dirs" env:"DIRS"`
	// User is the user that programs run as, if the server is root; "": the server's user.
	User string `json:"user" env:"USER"`
	// MaxInFlight limits the programs of this server at a time, shared fairly among their subscriptions; at most 4096;
	// 256.
	MaxInFlight int `json:"max_in_flight" env:"MAX_IN_FLIGHT"`
}

// maxPrograms is the maximum of Modules.MaxInFlight: each program occupies a thread of the server,
// and Go limits a process to 10,000 threads.
const maxPrograms = 4096

func (m Modules) check() error {
	errs := []error{
		when(m.MaxInFlight < 1 || m.MaxInFlight > maxPrograms, "modules.max_in_flight %d: write a number from 1 to %d", m.MaxInFlight, maxPrograms),
	}
	for _, dir := range m.Dirs {
		errs = append(errs, when(!filepath.IsAbs(dir), "modules.dirs %q: write absolute paths", dir))
	}
	return errors.Join(errs...)
}

// Watches configures the evaluation of watches.
type Watches struct {
	// PerNamespace is the maximum number of watches in a namespace; 0: unlimited; 100.
	PerNamespace int `json:"per_namespace" env:"PER_NAMESPACE"`
	// EvaluationsPerSecond is the maximum number of events that a watch evaluates per second; the
	// number of skipped events is reported; 1000.
	EvaluationsPerSecond int `json:"evaluations_per_second" env:"EVALUATIONS_PER_SECOND"`
	// Paths is the number of paths for which a watch remembers its condition and last firing;
	// beyond it, the path with the oldest last event is forgotten; at most 4096; 1024.
	Paths int `json:"paths" env:"PATHS"`
}

// maxPaths is the number of paths that fit into the record of a watch.
const maxPaths = 4096

func (w Watches) check() error {
	return errors.Join(
		when(w.PerNamespace < 0, "watches.per_namespace %d: write a number, or 0 for unlimited", w.PerNamespace),
		when(w.EvaluationsPerSecond <= 0, "watches.evaluations_per_second %d: write a number above 0", w.EvaluationsPerSecond),
		when(w.Paths <= 0 || w.Paths > maxPaths, "watches.paths %d: write a number of paths from 1 to %d", w.Paths, maxPaths),
	)
}

// Feed configures the live feeds of namespaces.
type Feed struct {
	// Ring is the number of recent events kept in memory for each namespace with a feed, and the
	// default number of events that a reader may lag behind; 1024.
	Ring int `json:"ring" env:"RING"`
	// MaxBuffer is the maximum lag that a reader may request; 16384.
	MaxBuffer int `json:"max_buffer" env:"MAX_BUFFER"`
	// Heartbeat is the interval of keep-alives on an idle feed, at least 1s; 15s.
	Heartbeat sluice.Duration `json:"heartbeat" env:"HEARTBEAT"`
	// MaxFeeds is the maximum number of concurrent feeds of this server; 20000.
	MaxFeeds int `json:"max_feeds" env:"MAX_FEEDS"`
	// MaxPerPrincipal is the maximum number of concurrent feeds of a principal with a grant; 1000.
	MaxPerPrincipal int `json:"max_per_principal" env:"MAX_PER_PRINCIPAL"`
	// RingBytes is the approximate memory for the recent events of all namespaces together;
	// 1073741824 (1 GiB).
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

// maxRing is the number of events that fit into memory; minRingBytes is the size of a few events.
const maxRing, minRingBytes = 1 << 20, 1 << 20

// Export configures copies in files.
type Export struct {
	// Dir is a directory for files of dead letters (events/dlq) and events (logs/events) of all
	// namespaces; empty: no files are written.
	Dir string `json:"dir" env:"DIR"`
}

// Tracing configures the export of traces.
type Tracing struct {
	// Endpoint is the base URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318; traces are
	// sent to /v1/traces below it. Empty: the variables OTEL_…, or no traces.
	Endpoint string `json:"endpoint" env:"ENDPOINT"`
	// SampleRatio is the part of the traces that is sent, from 0 to 1, of those that begin at this server; a trace
	// that came with an event is sent if its sender sampled it. 1: OTEL_TRACES_SAMPLER, or all; 1.
	SampleRatio float64 `json:"sample_ratio" env:"SAMPLE_RATIO"`
}

func (t Tracing) check() error {
	return errors.Join(
		checkURL("tracing.endpoint", t.Endpoint),
		when(!(t.SampleRatio >= 0 && t.SampleRatio <= 1), "tracing.sample_ratio %v: write a number from 0 to 1", t.SampleRatio),
	)
}

// Metrics configures the export of metrics. They are at /metrics, too.
type Metrics struct {
	// Endpoint is the base URL of an OTLP/HTTP collector; metrics are sent to /v1/metrics below it every minute.
	// Empty: the variables OTEL_…, or no export.
	Endpoint string `json:"endpoint" env:"ENDPOINT"`
}

// Secrets configures the keys that seal secrets in the store. The first key seals, all keys open:
// put a new key first, and remove the old one when it no longer seals anything.
type Secrets struct {
	// Key is one key or several separated by commas, newest first, each base64 of 32 bytes. It
	// takes precedence over KeyFile, and belongs into the variable SLUICE_SECRETS_KEY rather than
	// into a file; empty: KeyFile.
	Key string `json:"key" env:"KEY"`
	// KeyFile has one key per line, newest first, and must be readable only by its owner; empty:
	// secrets.key in Data, which the first start creates.
	KeyFile string `json:"key_file" env:"KEY_FILE"`
}
