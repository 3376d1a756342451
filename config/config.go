// Package config defines the settings of a server: their meaning, defaults, sources and validation.
// The sources are, in increasing precedence, the defaults, a JSON or YAML file, the environment
// variables SLUICE_*, and the flags, which the command applies itself.
package config

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Config holds every setting of a server. The variable of a setting is "SLUICE_" followed by its
// name in the file in upper case with "_" for ".": http.max_body is SLUICE_HTTP_MAX_BODY.
type Config struct {
	// Data is the data directory, which also holds the root token;
	// ${XDG_DATA_HOME:-~/.local/share}/sluice.
	Data string `json:"data" env:"DATA"`

	HTTP     HTTP     `json:"http"     envPrefix:"HTTP_"`
	Portal   Portal   `json:"portal"   envPrefix:"PORTAL_"`
	NATS     NATS     `json:"nats"     envPrefix:"NATS_"`
	Events   Events   `json:"events"   envPrefix:"EVENTS_"`
	Attempts Attempts `json:"attempts" envPrefix:"ATTEMPTS_"`
	Webhooks Webhooks `json:"webhooks" envPrefix:"WEBHOOKS_"`
	Durable  Durable  `json:"durable"  envPrefix:"DURABLE_"`
	Feed     Feed     `json:"feed"     envPrefix:"FEED_"`
	Watches  Watches  `json:"watches"  envPrefix:"WATCHES_"`
	Mirrors  Mirrors  `json:"mirrors"  envPrefix:"MIRRORS_"`
	Modules  Modules  `json:"modules"  envPrefix:"MODULES_"`
	Limits   Limits   `json:"limits"   envPrefix:"LIMITS_"`
	Export   Export   `json:"export"   envPrefix:"EXPORT_"`
	Secrets  Secrets  `json:"secrets"  envPrefix:"SECRETS_"`
	Log      Log      `json:"log"      envPrefix:"LOG_"`
	Metrics  Metrics  `json:"metrics"  envPrefix:"METRICS_"`
	Tracing  Tracing  `json:"tracing"  envPrefix:"TRACING_"`

	// ShutdownGrace is how long a stopping server continues after its last attempt in flight has
	// ended, to complete pending writes and requests in flight, at least 1s; 5s.
	ShutdownGrace sluice.Duration `json:"shutdown_grace" env:"SHUTDOWN_GRACE"`

	// Dev is for experiments on one machine: it allows http:// to loopback, and NATS connections
	// without a login; false.
	Dev bool `json:"dev" env:"DEV"`
}

// HTTP configures the API's listener and its limits.
type HTTP struct {
	// Listen is host:port; port 0 picks a free one; 127.0.0.1:8080.
	Listen string `json:"listen" env:"LISTEN"`
	// PublicURL is the API's public URL, for links and callbacks; empty: the listener's address.
	PublicURL string `json:"public_url" env:"PUBLIC_URL"`
	// MaxBody limits a request's body, in bytes; 8388608 (8 MiB).
	MaxBody int64 `json:"max_body" env:"MAX_BODY"`
	// MaxConnections limits the number of open connections; further ones wait; 4096.
	MaxConnections int `json:"max_connections" env:"MAX_CONNECTIONS"`
	// TrustedProxies are networks of proxies whose X-Forwarded-For is trusted; none.
	TrustedProxies []string `json:"trusted_proxies" env:"TRUSTED_PROXIES"`
	// Metrics controls access to /metrics without a token: loopback (clients on this machine, not
	// through a proxy), open (all clients) or token (none); loopback.
	Metrics string `json:"metrics" env:"METRICS"`
	// Pprof serves profiles of the process to admins of the server, below /v1/debug/pprof; false.
	Pprof bool `json:"pprof" env:"PPROF"`

	TLS          HTTPTLS      `json:"tls"           envPrefix:"TLS_"`
	AuthFailures AuthFailures `json:"auth_failures" envPrefix:"AUTH_FAILURES_"`
	Timeouts     Timeouts     `json:"timeouts"      envPrefix:"TIMEOUTS_"`
}

// NATS configures the embedded NATS server, or the connection to an external one.
type NATS struct {
	// URL is the URL of the NATS server, or several separated by commas; empty: an embedded server.
	URL string `json:"url" env:"URL"`
	// Listen is host:port of the embedded server; port 0 picks a free one, "none" keeps it inside
	// the process; 127.0.0.1:4222. Without Users or an Operator, connections log in with
	// <data>/nats.nk.
	Listen string `json:"listen" env:"LISTEN"`

	// Users lists the only users that may log in to the embedded server; none.
	Users []NATSUser `json:"users" env:"USERS"`
	// AllowAnonymous lets connections publish events and read everything without a login if there
	// are no Users, and lets such a server listen beyond this machine; false.
	AllowAnonymous bool `json:"allow_anonymous" env:"ALLOW_ANONYMOUS"`
	// TrustedSubjects makes servers accept events under trusted.<namespace>.> and trust their auth
	// attributes, from any publisher with permission for these subjects. Trusted users enable it;
	// false.
	TrustedSubjects bool `json:"trusted_subjects" env:"TRUSTED_SUBJECTS"`
	// ServerTLS configures TLS for clients of the embedded server.
	ServerTLS ServerTLS `json:"server_tls" envPrefix:"SERVER_TLS_"`
	// Operator is a file with the JWT of an operator; only users of its accounts may log in to the
	// embedded server; empty: none.
	Operator string `json:"operator" env:"OPERATOR"`
	// AccountJWTs are files with the JWTs of Operator's accounts, including its system account;
	// none.
	AccountJWTs []string `json:"account_jwts" env:"ACCOUNT_JWTS"`

	// Credentials is a .creds file for logging in at URL or, with an Operator, at the embedded
	// server; empty: none. At most one login method is set: this, User and Password, Token, or
	// NKeySeedFile.
	Credentials string `json:"credentials" env:"CREDENTIALS"`
	// User logs in at URL, with Password; empty: none.
	User string `json:"user" env:"USER"`
	// Password belongs to User; empty: none.
	Password string `json:"password" env:"PASSWORD"`
	// Token logs in at URL; empty: none.
	Token string `json:"token" env:"TOKEN"`
	// NKeySeedFile is a file with the seed of an nkey that logs in at URL; empty: none.
	NKeySeedFile string `json:"nkey_seed_file" env:"NKEY_SEED_FILE"`

	TLS TLS `json:"tls" envPrefix:"TLS_"`

	// Prefix begins the names of all streams and buckets (acme_LEDGER) and all subjects
	// (acme.events.>), so that several servers and other programs can share a NATS account: 1 to 32
	// of a-z, 0-9 and "-", beginning with a letter. A new prefix is a new, empty store; empty: none.
	Prefix string `json:"prefix" env:"PREFIX"`
	// Domain is the JetStream domain of the streams, for a URL of a leaf node or a hub with another
	// domain; empty: that of the server at URL.
	Domain string `json:"domain" env:"DOMAIN"`

	// Replicas is the replication factor of every stream and bucket: 1, 3 or 5; more than one
	// requires a cluster at URL; 1.
	Replicas int `json:"replicas" env:"REPLICAS"`
	// Sync is how often the embedded server flushes file data to disk: "always", before an event is
	// acknowledged, or an interval. A crash of the machine (not of the process) can lose the events
	// acknowledged within the interval; "1s".
	Sync string `json:"sync" env:"SYNC"`
	// MaxStore is the disk space of the embedded server, in bytes; 0: three quarters of the space
	// that its streams use plus the space that is free when it starts. With a URL, it is what all
	// streams of the account may use, with their replicas; 0: as much as the account may; 0.
	MaxStore int64 `json:"max_store" env:"MAX_STORE"`
}

// TLS configures the connection to the server at NATS.URL.
type TLS struct {
	// CA is a PEM file of trusted certificate authorities; empty: the system's.
	CA string `json:"ca" env:"CA"`
	// Cert is a PEM file of the client's certificate; empty: none.
	Cert string `json:"cert" env:"CERT"`
	// Key is a PEM file of Cert's private key; empty: none.
	Key string `json:"key" env:"KEY"`
}

// Events holds the defaults of namespaces.
type Events struct {
	Retention Retention `json:"retention" envPrefix:"RETENTION_"`
	// DedupWindow is how long event IDs are remembered for detecting duplicates, at least 1s; 1h.
	DedupWindow sluice.Duration `json:"dedup_window" env:"DEDUP_WINDOW"`
	Quota       Quota           `json:"quota"        envPrefix:"QUOTA_"`
}

// Quota limits what the API of one process accepts for a namespace.
type Quota struct {
	// EventsPerSecond limits the events published to a namespace; 0: unlimited; 0.
	EventsPerSecond float64 `json:"events_per_second" env:"EVENTS_PER_SECOND"`
	// Burst is the number of events accepted at once, and thereby the largest batch; 0: the number
	// allowed per second; 0.
	Burst int `json:"burst" env:"BURST"`
	// BytesPerSecond limits the bytes of request bodies, and is also their burst; 0: unlimited; 0.
	BytesPerSecond int64 `json:"bytes_per_second" env:"BYTES_PER_SECOND"`
}

// Retention limits a log; the oldest events are removed first.
type Retention struct {
	// MaxAge is how long events are kept, at least 1s; -1s: unlimited; 168h.
	MaxAge sluice.Duration `json:"max_age" env:"MAX_AGE"`
	// MaxBytes limits the size of a namespace's log, in bytes; 0: unlimited; 0.
	MaxBytes int64 `json:"max_bytes" env:"MAX_BYTES"`
}

// Attempts configures the log of attempts.
type Attempts struct {
	// MaxAge is how long attempts are kept, at least 1s; 168h. A shorter time deletes older attempts at
	// the next start.
	MaxAge sluice.Duration `json:"max_age" env:"MAX_AGE"`
}

// Webhooks configures the endpoints that requests may go to, and the limits of requests.
type Webhooks struct {
	// AllowCIDRs are private networks in which endpoints are allowed, such as 10.1.0.0/16; none.
	AllowCIDRs []string `json:"allow_cidrs" env:"ALLOW_CIDRS"`
	// AllowInsecureLoopback allows http:// endpoints on this machine; false.
	AllowInsecureLoopback bool `json:"allow_insecure_loopback" env:"ALLOW_INSECURE_LOOPBACK"`
	// MaxBody limits the body of an outgoing request, in bytes; a larger rendered event becomes a
	// dead letter; 10485760 (10 MiB).
	MaxBody int64 `json:"max_body" env:"MAX_BODY"`
	// MaxResponse limits how much of a response body is read, in bytes, at least 1024; 65536 (64
	// KiB).
	MaxResponse int64 `json:"max_response" env:"MAX_RESPONSE"`
	// MaxInFlight limits the requests in flight of this process, shared fairly among subscriptions;
	// 1024.
	MaxInFlight int `json:"max_in_flight" env:"MAX_IN_FLIGHT"`
	// SharedAbove is the number of subscriptions of a namespace above which its push subscriptions
	// share one reader of its log; up to it, each has a durable consumer. With nats.replicas above 1
	// all share the reader. -1: none does; 100.
	SharedAbove int `json:"shared_above" env:"SHARED_ABOVE"`
	// ReplayWindow is the range of GET …/events?after= for a subscription without a replay_window
	// (S0-50); 1h.
	ReplayWindow sluice.Duration `json:"replay_window" env:"REPLAY_WINDOW"`
}

// Log configures the server's own log.
type Log struct {
	// Level is the minimum level that is logged: debug, info, warn or error; info.
	Level string `json:"level" env:"LEVEL"`
	// Format is text, for people, or json, for programs; text.
	Format string `json:"format" env:"FORMAT"`
	// Requests are the HTTP requests that are logged: errors are those with a status of 400 or
	// more, slow these and answers that took a second or more, all, or none; errors. The others are logged at level debug.
	Requests string `json:"requests" env:"REQUESTS"`
	// Endpoint is the base URL of an OTLP/HTTP collector, which gets a copy of the log at /v1/logs below it; empty: the
	// variables OTEL_…, or no copy.
	Endpoint string `json:"endpoint" env:"ENDPOINT"`
}

// Default returns the defaults. Data is empty because it depends on the environment: Load sets it.
func Default() Config {
	const week = 7 * 24 * time.Hour
	return Config{
		HTTP:   defaultHTTP(),
		Portal: Portal{FrameAncestors: []string{}, Title: "Webhooks"},
		NATS:   NATS{Listen: "127.0.0.1:4222", Users: []NATSUser{}, AccountJWTs: []string{}, Replicas: 1, Sync: "1s"},
		Events: Events{
			Retention:   Retention{MaxAge: sluice.Duration(week)},
			DedupWindow: sluice.Duration(time.Hour),
		},
		Attempts: Attempts{MaxAge: sluice.Duration(week)},
		Webhooks: Webhooks{AllowCIDRs: []string{}, MaxBody: 10 << 20, MaxResponse: 64 << 10, MaxInFlight: 1024, SharedAbove: 100, ReplayWindow: sluice.Duration(time.Hour)},
		Durable:  Durable{Anonymous: []string{}, LongPoll: sluice.Duration(30 * time.Second), MaxBody: 10 << 20},
		Feed:     Feed{Ring: 1024, MaxBuffer: 16384, Heartbeat: 15 * second, MaxFeeds: 20_000, MaxPerPrincipal: 1000, RingBytes: 1 << 30},
		Watches:  Watches{PerNamespace: 100, EvaluationsPerSecond: 1000, Paths: 1024},
		Mirrors:  Mirrors{Workers: 10, PerNamespace: 100, Tombstones: sluice.Duration(90 * 24 * time.Hour), StagingBytes: 4 << 30},
		Modules:  Modules{Dirs: []string{}, MaxInFlight: 256},
		Limits:   defaultLimits(),
		Log:      Log{Level: "info", Format: "text", Requests: "errors"},
		Tracing:  Tracing{SampleRatio: 1},

		ShutdownGrace: 5 * second,
	}
}

// Embedded reports whether the NATS server runs in this process.
func (n NATS) Embedded() bool { return n.URL == "" }

// SyncEvery returns Sync as an interval, 0 for "always". Code InvalidRequest for any other value.
func (n NATS) SyncEvery() (time.Duration, error) {
	if n.Sync == "always" {
		return 0, nil
	}
	every, err := time.ParseDuration(n.Sync)
	if err != nil || every <= 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest,
			"nats.sync %q: write always, or an interval such as 1s", n.Sync)
	}
	return every, nil
}

// InsecureLoopback reports whether endpoints on this machine may be http://.
func (c Config) InsecureLoopback() bool { return c.Dev || c.Webhooks.AllowInsecureLoopback }
