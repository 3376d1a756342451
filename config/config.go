// Package config knows the settings of a server: what they mean, their defaults, where they
// come from and what is invalid. Settings come, each over the one before, from the defaults,
// a JSON or YAML file, SLUICE_* variables of the environment, and flags, which the command
// applies itself.
package config

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Config is every setting of a server. The variable of a setting is its name in the file in
// upper case with "_" for ".", after "SLUICE_": http.max_body is SLUICE_HTTP_MAX_BODY.
type Config struct {
	// Data is the directory of everything that is kept, the root token included;
	// ${XDG_DATA_HOME:-~/.local/share}/sluice.
	Data string `json:"data" env:"DATA"`

	HTTP     HTTP     `json:"http"     envPrefix:"HTTP_"`
	NATS     NATS     `json:"nats"     envPrefix:"NATS_"`
	Events   Events   `json:"events"   envPrefix:"EVENTS_"`
	Attempts Attempts `json:"attempts" envPrefix:"ATTEMPTS_"`
	Webhooks Webhooks `json:"webhooks" envPrefix:"WEBHOOKS_"`
	Durable  Durable  `json:"durable"  envPrefix:"DURABLE_"`
	Feed     Feed     `json:"feed"     envPrefix:"FEED_"`
	Watches  Watches  `json:"watches"  envPrefix:"WATCHES_"`
	Limits   Limits   `json:"limits"   envPrefix:"LIMITS_"`
	Export   Export   `json:"export"   envPrefix:"EXPORT_"`
	Secrets  Secrets  `json:"secrets"  envPrefix:"SECRETS_"`
	Log      Log      `json:"log"      envPrefix:"LOG_"`
	Tracing  Tracing  `json:"tracing"  envPrefix:"TRACING_"`

	// ShutdownGrace is how long a server that is told to end goes on after its last attempt under way has ended, to write
	// what is not written yet and to serve requests under way, at least 1s; 5s.
	ShutdownGrace sluice.Duration `json:"shutdown_grace" env:"SHUTDOWN_GRACE"`

	// Dev is for trying things out on one machine: it allows http:// to loopback, and NATS connections
	// without a login; false.
	Dev bool `json:"dev" env:"DEV"`
}

// HTTP is where the API listens and what it takes.
type HTTP struct {
	// Listen is host:port; port 0 picks a free one; 127.0.0.1:8080.
	Listen string `json:"listen" env:"LISTEN"`
	// PublicURL is how others reach the API, for links and callbacks; empty: the listener's address.
	PublicURL string `json:"public_url" env:"PUBLIC_URL"`
	// MaxBody bounds a request's body, in bytes; 8388608 (8 MiB).
	MaxBody int64 `json:"max_body" env:"MAX_BODY"`
	// MaxConnections bounds the connections that are open at once; further ones wait; 4096.
	MaxConnections int `json:"max_connections" env:"MAX_CONNECTIONS"`
	// TrustedProxies are networks of proxies whose X-Forwarded-For is believed; none.
	TrustedProxies []string `json:"trusted_proxies" env:"TRUSTED_PROXIES"`
	// Metrics says who may read /metrics without a token: loopback (who connects from this
	// machine, and not through a proxy), open (everybody) or token (nobody); loopback.
	Metrics string `json:"metrics" env:"METRICS"`

	TLS          HTTPTLS      `json:"tls"           envPrefix:"TLS_"`
	AuthFailures AuthFailures `json:"auth_failures" envPrefix:"AUTH_FAILURES_"`
	Timeouts     Timeouts     `json:"timeouts"      envPrefix:"TIMEOUTS_"`
}

// NATS is where the events live: in a server of our own process, or elsewhere.
type NATS struct {
	// URL is the NATS server's, or several divided by commas; empty: an embedded server.
	URL string `json:"url" env:"URL"`
	// Listen is host:port of the embedded server; port 0 picks a free one, "none" keeps it
	// within the process; 127.0.0.1:4222. Without Users or an Operator, connections log in with <data>/nats.nk.
	Listen string `json:"listen" env:"LISTEN"`

	// Users are who may log in to the embedded server, and then nobody else; none.
	Users []NATSUser `json:"users" env:"USERS"`
	// AllowAnonymous lets connections publish events and read everything without a login where there are
	// no Users, and such a server listen beyond this machine; false.
	AllowAnonymous bool `json:"allow_anonymous" env:"ALLOW_ANONYMOUS"`
	// TrustedSubjects has servers take events under trusted.<namespace>.>, too, and believe whoever
	// may publish there what the auth attributes say. Users that are trusted turn it on; false.
	TrustedSubjects bool `json:"trusted_subjects" env:"TRUSTED_SUBJECTS"`
	// ServerTLS is what the embedded server's clients are met with.
	ServerTLS ServerTLS `json:"server_tls" envPrefix:"SERVER_TLS_"`
	// Operator is a file with the JWT of an operator, whose accounts' users may log in to the
	// embedded server, and then nobody else; empty: none.
	Operator string `json:"operator" env:"OPERATOR"`
	// AccountJWTs are files with the JWTs of Operator's accounts, its system account among them; none.
	AccountJWTs []string `json:"account_jwts" env:"ACCOUNT_JWTS"`

	// Credentials is a .creds file to log in with, at URL or, with an Operator, at the embedded
	// server; empty: none. At most one way to log in is set: this, User and Password, Token, or
	// NKeySeedFile.
	Credentials string `json:"credentials" env:"CREDENTIALS"`
	// User logs in at URL together with Password; empty: none.
	User string `json:"user" env:"USER"`
	// Password belongs to User; empty: none.
	Password string `json:"password" env:"PASSWORD"`
	// Token logs in at URL; empty: none.
	Token string `json:"token" env:"TOKEN"`
	// NKeySeedFile is a file with an nkey's seed to log in at URL with; empty: none.
	NKeySeedFile string `json:"nkey_seed_file" env:"NKEY_SEED_FILE"`

	TLS TLS `json:"tls" envPrefix:"TLS_"`

	// Replicas of every stream and bucket: 1, 3 or 5; more than one needs a cluster at URL; 1.
	Replicas int `json:"replicas" env:"REPLICAS"`
	// Sync says how often the embedded server makes sure that file data is on the disk:
	// "always", before an event is acknowledged, or an interval, up to which a crash of the
	// machine (not of the process) can lose acknowledged events; "1s".
	Sync string `json:"sync" env:"SYNC"`
	// MaxStore is how much of the disk the embedded server uses, in bytes; 0: three quarters of
	// what its streams have and is free when it starts; 0.
	MaxStore int64 `json:"max_store" env:"MAX_STORE"`
}

// TLS is how the server at NATS.URL is met.
type TLS struct {
	// CA is a PEM file of authorities to believe; empty: the system's.
	CA string `json:"ca" env:"CA"`
	// Cert is a PEM file of the client's certificate; empty: none.
	Cert string `json:"cert" env:"CERT"`
	// Key is a PEM file of Cert's private key; empty: none.
	Key string `json:"key" env:"KEY"`
}

// Events is what holds for a namespace that says nothing else.
type Events struct {
	Retention Retention `json:"retention" envPrefix:"RETENTION_"`
	// DedupWindow is how long an event's id is remembered to recognise duplicates, at least 1s; 1h.
	DedupWindow sluice.Duration `json:"dedup_window" env:"DEDUP_WINDOW"`
	Quota       Quota           `json:"quota"        envPrefix:"QUOTA_"`
}

// Quota bounds what the API of one process takes for a namespace.
type Quota struct {
	// EventsPerSecond is how many events a namespace may publish; 0: unlimited; 0.
	EventsPerSecond float64 `json:"events_per_second" env:"EVENTS_PER_SECOND"`
	// Burst is how many at once, and so the largest batch; 0: as many as in a second; 0.
	Burst int `json:"burst" env:"BURST"`
	// BytesPerSecond is how many bytes of requests' bodies, and as many at once; 0: unlimited; 0.
	BytesPerSecond int64 `json:"bytes_per_second" env:"BYTES_PER_SECOND"`
}

// Retention bounds a log; the oldest events go first.
type Retention struct {
	// MaxAge is how long events are kept, at least 1s; -1s: for ever; 168h.
	MaxAge sluice.Duration `json:"max_age" env:"MAX_AGE"`
	// MaxBytes bounds a namespace's log, in bytes; 0: unlimited; 0.
	MaxBytes int64 `json:"max_bytes" env:"MAX_BYTES"`
}

// Attempts is about the log of attempts.
type Attempts struct {
	// MaxAge is how long attempts are kept, at least 1s; 168h.
	MaxAge sluice.Duration `json:"max_age" env:"MAX_AGE"`
}

// Webhooks is about where requests may go, and how much.
type Webhooks struct {
	// AllowCIDRs are networks that endpoints may be in although they are private, such as
	// 10.1.0.0/16; none.
	AllowCIDRs []string `json:"allow_cidrs" env:"ALLOW_CIDRS"`
	// AllowInsecureLoopback allows http:// endpoints on this machine; false.
	AllowInsecureLoopback bool `json:"allow_insecure_loopback" env:"ALLOW_INSECURE_LOOPBACK"`
	// MaxBody bounds the body of a request that is sent, in bytes; an event that renders larger
	// becomes a dead letter; 10485760 (10 MiB).
	MaxBody int64 `json:"max_body" env:"MAX_BODY"`
	// MaxResponse bounds what is read of an answer's body, in bytes, at least 1024; 65536 (64 KiB).
	MaxResponse int64 `json:"max_response" env:"MAX_RESPONSE"`
	// MaxInFlight bounds the requests under way of this process, of which each subscription has a
	// fair share; 1024.
	MaxInFlight int `json:"max_in_flight" env:"MAX_IN_FLIGHT"`
	// ReplayWindow is how far back GET …/events?after= of a subscription that asks for no replay_window
	// reaches (S0-50); 1h.
	ReplayWindow sluice.Duration `json:"replay_window" env:"REPLAY_WINDOW"`
}

// Log is about the server's own log.
type Log struct {
	// Level is the least that is written: debug, info, warn or error; info.
	Level string `json:"level" env:"LEVEL"`
	// Format is text, for people, or json, for programs; text.
	Format string `json:"format" env:"FORMAT"`
}

// Default returns the defaults. Data is empty because it depends on the environment: Load
// fills it in.
func Default() Config {
	const week = 7 * 24 * time.Hour
	return Config{
		HTTP: defaultHTTP(),
		NATS: NATS{Listen: "127.0.0.1:4222", Users: []NATSUser{}, AccountJWTs: []string{}, Replicas: 1, Sync: "1s"},
		Events: Events{
			Retention:   Retention{MaxAge: sluice.Duration(week)},
			DedupWindow: sluice.Duration(time.Hour),
		},
		Attempts: Attempts{MaxAge: sluice.Duration(week)},
		Webhooks: Webhooks{AllowCIDRs: []string{}, MaxBody: 10 << 20, MaxResponse: 64 << 10, MaxInFlight: 1024, ReplayWindow: sluice.Duration(time.Hour)},
		Durable:  Durable{Anonymous: []string{}, LongPoll: sluice.Duration(30 * time.Second), MaxBody: 10 << 20},
		Feed:     Feed{Ring: 1024, MaxBuffer: 16384, Heartbeat: 15 * second, MaxFeeds: 20_000, MaxPerPrincipal: 1000, RingBytes: 1 << 30},
		Watches:  Watches{PerNamespace: 100, EvaluationsPerSecond: 1000, Paths: 1024},
		Limits:   defaultLimits(),
		Log:      Log{Level: "info", Format: "text"},

		ShutdownGrace: 5 * second,
	}
}

// Embedded reports whether the NATS server runs in this process.
func (n NATS) Embedded() bool { return n.URL == "" }

// SyncEvery returns Sync as an interval, 0 for "always". Code InvalidRequest if it is neither.
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
