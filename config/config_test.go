package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestExample_HoldsTheDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Load("example.yaml", []string{"HOME=/home/ann"})
	require.NoError(t, err)
	want := config.Default()
	want.Data = "/home/ann/.local/share/sluice"
	require.Equal(t, want, got)
	require.NoError(t, got.Check())
}

func TestExample_NamesEverySetting(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("example.yaml")
	require.NoError(t, err)
	var have map[string]any
	require.NoError(t, yaml.Unmarshal(data, &have))
	for _, s := range settings(reflect.TypeFor[config.Config](), "") {
		at := have
		names := strings.Split(s.name, ".")
		for _, name := range names[:len(names)-1] {
			at, _ = at[name].(map[string]any)
		}
		require.Contains(t, at, names[len(names)-1], s.name)
	}
}

// Issue 18, item 1: a file that names every setting of an earlier build is still accepted.
func TestLoad_TakesSettingsOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/settings-*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		got, err := config.Load(file, []string{"HOME=/home/ann"})
		require.NoError(t, err, file)
		require.NoError(t, got.Check(), file)
	}
}

func TestVariable_IsTheSettingInUpperCase(t *testing.T) {
	t.Parallel()
	for _, s := range settings(reflect.TypeFor[config.Config](), "") {
		c, err := config.Load("", []string{variable(s.name) + "=" + sample(s.kind)})
		require.NoError(t, err, s.name)
		require.NotEqual(t, config.Default(), c, "%s has no effect", variable(s.name))
	}
}

func TestLoad_VariablesOverrideFileOverridesDefaults(t *testing.T) {
	t.Parallel()
	file := write(t, "http: {listen: 'localhost:1', max_body: 7}\ndata: /from/file\n")
	c, err := config.Load(file, []string{
		"SLUICE_HTTP_LISTEN=localhost:2", "SLUICE_EVENTS_RETENTION_MAX_AGE=5m",
		"SLUICE_WEBHOOKS_ALLOW_CIDRS=10.0.0.0/8,fd00::/8", "SLUICE_DEV=true", "SLUICE_DATA=",
	})
	require.NoError(t, err)
	require.Equal(t, "localhost:2", c.HTTP.Listen)
	require.Equal(t, int64(7), c.HTTP.MaxBody)
	require.Equal(t, "/from/file", c.Data, "an empty variable is as good as none")
	require.Equal(t, 5*time.Minute, c.Events.Retention.MaxAge.Std())
	require.Equal(t, []string{"10.0.0.0/8", "fd00::/8"}, c.Webhooks.AllowCIDRs)
	require.Equal(t, "127.0.0.1:4222", c.NATS.Listen)
	require.True(t, c.InsecureLoopback(), "dev allows it")
}

func TestLoad_TakesJSON(t *testing.T) {
	t.Parallel()
	c, err := config.Load(write(t, `{"nats":{"url":"nats://n:4222","replicas":3}}`), nil)
	require.NoError(t, err)
	require.Equal(t, 3, c.NATS.Replicas)
	require.False(t, c.NATS.Embedded())
}

func TestLoad_UnreadableInputIsAnError(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, env, want string }{
		{"unknown name", "http: {listne: x}", "", "setting http.listne is unknown; valid settings here are auth_failures, listen, max_body, max_connections, metrics, pprof, public_url, timeouts, tls, trusted_proxies"},
		{"text for a number", "http: {max_body: lots}", "", `setting http.max_body: "lots" is not a whole number below 2^63, such as 8388608`},
		{"part of a number", "http: {max_body: 1.5}", "", "setting http.max_body: 1.5 is not a whole number"},
		{"too large a number", "http: {max_body: 99999999999999999999}", "", "setting http.max_body: 100000000000000000000 is not a whole number below 2^63"},
		{"text for a switch", "dev: maybe", "", `setting dev: "maybe" is not true or false`},
		{"number for a text", "log: {level: 7}", "", "setting log.level: 7 is not a text; put it in quotes"},
		{"text for a list", "webhooks: {allow_cidrs: 10.0.0.0/8}", "", `setting webhooks.allow_cidrs: "10.0.0.0/8" is not a list such as`},
		{"value for a group", "nats: 7", "", "setting nats is a group of settings: account_jwts, allow_anonymous, credentials, domain, listen"},
		{"list for everything", "- x", "", "it must be a group of settings: attempts, data"},
		{"unknown duration", "attempts: {max_age: week}", "", `setting attempts.max_age: "week" is not a duration such as 10s`},
		{"no YAML", "a: b: c", "", "not YAML: mapping values are not allowed"},
		{"variable with a bad switch", "", "SLUICE_DEV=maybe", `variable SLUICE_DEV: "maybe" is not true or false`},
		{"key that is no text", "secrets: {key: [c2VjcmV0]}", "", "setting secrets.key: what it is set to is not a text"},
		{"name given twice", "dev: true\ndev: false", "", "dev"},
		{"number as duration", "attempts: {max_age: 7}", "", "write a string such as"},
		{"variable with a bad duration", "", "SLUICE_ATTEMPTS_MAX_AGE=week", `SLUICE_ATTEMPTS_MAX_AGE: "week" is not a duration`},
		{"variable with a bad number", "", "SLUICE_NATS_REPLICAS=many", `variable SLUICE_NATS_REPLICAS: "many" is not a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(write(t, tt.file), []string{tt.env})
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "c2VjcmV0", "a secret")
			for _, internal := range []string{"json:", "strconv", "unmarshal", "Go ", "config."} {
				require.NotContains(t, strings.ReplaceAll(err.Error(), "config.yaml", ""), internal)
			}
		})
	}
	_, err := config.Load(write(t, "# nothing is set\nhttp:\n"), nil)
	require.NoError(t, err)
	_, err = config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestVariable_OrchestratorsOwnAreLeftAlone(t *testing.T) {
	t.Parallel()
	_, err := config.Load("", []string{"SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_PORT=tcp://10.0.0.1:80"})
	require.NoError(t, err)
}

func TestLoad_FollowsTheUsualVariableForData(t *testing.T) {
	t.Parallel()
	c, err := config.Load("", []string{"HOME=/h", "XDG_DATA_HOME=/x"})
	require.NoError(t, err)
	require.Equal(t, "/x/sluice", c.Data)
}

func TestCheck_SaysTheRightForm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"no data", func(c *config.Config) { c.Data = "" }, "data: name a directory"},
		{"listen without port", func(c *config.Config) { c.HTTP.Listen = "localhost" }, `http.listen "localhost": write host:port`},
		{"port too high", func(c *config.Config) { c.NATS.Listen = "h:99999" }, "nats.listen"},
		{"relative URL", func(c *config.Config) { c.HTTP.PublicURL = "sluice.example" }, "http.public_url"},
		{"no connections", func(c *config.Config) { c.HTTP.MaxConnections = 0 }, "http.max_connections 0"},
		{"a ring of nothing", func(c *config.Config) { c.Feed.Ring = 0 }, "feed.ring 0: write a number"},
		{"a ring of everything", func(c *config.Config) { c.Feed.Ring = 1 << 21 }, "feed.ring 2097152"},
		{"no place for slow readers", func(c *config.Config) { c.Feed.MaxBuffer = -1 }, "feed.max_buffer -1"},
		{"a heart that races", func(c *config.Config) { c.Feed.Heartbeat = 1 }, "feed.heartbeat 1ns"},
		{"fewer watches than none", func(c *config.Config) { c.Watches.PerNamespace = -1 }, "watches.per_namespace -1"},
		{"watches that look at nothing", func(c *config.Config) { c.Watches.EvaluationsPerSecond = 0 }, "watches.evaluations_per_second 0"},
		{"watches that remember nothing", func(c *config.Config) { c.Watches.Paths = 0 }, "watches.paths 0"},
		{"watches that remember everything", func(c *config.Config) { c.Watches.Paths = 1 << 20 }, "watches.paths 1048576"},
		{"less than no bundles", func(c *config.Config) { c.Mirrors.StagingBytes = -1 }, "mirrors.staging_bytes -1"},
		{"fewer mirrors than none", func(c *config.Config) { c.Mirrors.PerNamespace = -1 }, "mirrors.per_namespace -1"},
		{"metrics for friends", func(c *config.Config) { c.HTTP.Metrics = "friends" }, "write loopback, open or token"},
		{"a proxy's address", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"10.0.0.1"} }, `http.trusted_proxies "10.0.0.1": write a network`},
		{"half a certificate of the API", func(c *config.Config) { c.HTTP.TLS.Key = "f" }, "http.tls: set cert and key together"},
		{"clients' certificates without TLS", func(c *config.Config) { c.HTTP.TLS.ClientCA = "f" }, "http.tls.client_ca"},
		{"TLS of 1999", func(c *config.Config) { c.HTTP.TLS.MinVersion = "1.0" }, "write 1.2 or 1.3"},
		{"fewer failures than none", func(c *config.Config) { c.HTTP.AuthFailures.Burst = -1 }, "http.auth_failures.burst -1"},
		{"failures without a pause", func(c *config.Config) { c.HTTP.AuthFailures.Every = 0 }, "http.auth_failures.every 0s"},
		{"no time for a header", func(c *config.Config) { c.HTTP.Timeouts.Header = 0 }, "http.timeouts.header"},
		{"less time for all than for the header", func(c *config.Config) { c.HTTP.Timeouts.Request = 1 }, "http.timeouts.request"},
		{"no time for an answer", func(c *config.Config) { c.HTTP.Timeouts.Answer = -1 }, "http.timeouts.answer"},
		{"no time between requests", func(c *config.Config) { c.HTTP.Timeouts.Idle = 0 }, "http.timeouts.idle"},
		{"a portal without a name", func(c *config.Config) { c.Portal.Title = "" }, "portal.title"},
		{"any page around the portal", func(c *config.Config) { c.Portal.FrameAncestors = []string{"*"} }, `portal.frame_ancestors "*": write an origin`},
		{"a page around the portal", func(c *config.Config) { c.Portal.FrameAncestors = []string{"https://a.example/x"} }, "without a path"},
		{"a second policy", func(c *config.Config) { c.Portal.FrameAncestors = []string{"https://a.example;script-src"} }, "portal.frame_ancestors"},
		{"many origins in one", func(c *config.Config) { c.Portal.FrameAncestors = []string{"https://*.example"} }, "portal.frame_ancestors"},
		{"no body", func(c *config.Config) { c.HTTP.MaxBody = 0 }, "http.max_body 0"},
		{"NATS over http", func(c *config.Config) { c.NATS.URL = "nats://a:1, http://b:2" }, "nats.url: write URLs such as"},
		{"two logins", func(c *config.Config) { c.NATS.URL, c.NATS.Token, c.NATS.User = "nats://a", "t", "u" }, "only one of"},
		{"login at the embedded server", func(c *config.Config) { c.NATS.Token = "t" }, "which is empty"},
		{"half a certificate", func(c *config.Config) { c.NATS.URL, c.NATS.TLS.Cert = "tls://a", "f" }, "cert and key together"},
		{"two replicas", func(c *config.Config) { c.NATS.URL, c.NATS.Replicas = "nats://a", 2 }, "write 1, 3 or 5"},
		{"embedded replicas", func(c *config.Config) { c.NATS.Replicas = 3 }, "embedded server is a single node"},
		{"sync never", func(c *config.Config) { c.NATS.Sync = "never" }, `nats.sync "never": write always, or an interval`},
		{"no age", func(c *config.Config) { c.Events.Retention.MaxAge = 0 }, "or -1s for unlimited"},
		{"an age below nothing", func(c *config.Config) { c.Events.Retention.MaxAge = -5 * sluice.Duration(time.Second) }, "or -1s for unlimited"},
		{"negative size", func(c *config.Config) { c.Events.Retention.MaxBytes = -1 }, "events.retention.max_bytes"},
		{"no window", func(c *config.Config) { c.Events.DedupWindow = 0 }, "events.dedup_window 0s"},
		{"window over age", func(c *config.Config) { c.Events.Retention.MaxAge = sluice.Duration(time.Minute) }, "write at most that"},
		{"no attempts", func(c *config.Config) { c.Attempts.MaxAge = 0 }, "attempts.max_age"},
		{"no time to end", func(c *config.Config) { c.ShutdownGrace = 0 }, "shutdown_grace"},
		{"address for network", func(c *config.Config) { c.Webhooks.AllowCIDRs = []string{"10.0.0.1"} }, `"10.0.0.1": write a network`},
		{"some requests", func(c *config.Config) { c.Log.Requests = "some" }, "write errors, slow, all or none"},
		{"loud", func(c *config.Config) { c.Log.Level = "loud" }, "write debug, info, warn or error"},
		{"xml", func(c *config.Config) { c.Log.Format = "xml" }, "write text or json"},
		{"more traces than all", func(c *config.Config) { c.Tracing.SampleRatio = 1.5 }, "tracing.sample_ratio"},
		{"collector of metrics without scheme", func(c *config.Config) { c.Metrics.Endpoint = "localhost:4318" }, "metrics.endpoint"},
		{"collector of the log without scheme", func(c *config.Config) { c.Log.Endpoint = "localhost:4318" }, "log.endpoint"},
		{"collector without scheme", func(c *config.Config) { c.Tracing.Endpoint = "localhost:4318" }, "tracing.endpoint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Data = t.TempDir()
			require.NoError(t, c.Check())
			tt.change(&c)
			err := c.Check()
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		})
	}
}

func TestCheck_EventsMayBeKeptForever(t *testing.T) {
	t.Parallel()
	c, err := config.Load("", []string{"HOME=/h", "SLUICE_EVENTS_RETENTION_MAX_AGE=-1s"})
	require.NoError(t, err)
	require.NoError(t, c.Check())
}

func TestSync_IsAlwaysOrAnInterval(t *testing.T) {
	t.Parallel()
	every, err := config.NATS{Sync: "always"}.SyncEvery()
	require.NoError(t, err)
	require.Zero(t, every)
	every, err = config.NATS{Sync: "250ms"}.SyncEvery()
	require.NoError(t, err)
	require.Equal(t, 250*time.Millisecond, every)
}

type setting struct {
	name string
	kind reflect.Type
}

func settings(typ reflect.Type, path string) []setting {
	var found []setting
	for field := range typ.Fields() {
		name := path + field.Tag.Get("json")
		if field.Type.Kind() == reflect.Struct {
			found = append(found, settings(field.Type, name+".")...)
		} else {
			found = append(found, setting{name, field.Type})
		}
	}
	return found
}

func variable(name string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

func sample(kind reflect.Type) string {
	switch {
	case kind == reflect.TypeFor[sluice.Duration]():
		return "17m"
	case kind == reflect.TypeFor[[]config.NATSUser]():
		return `[{"name":"ann","password":"sesame","namespaces":["acme"]}]`
	case kind.Kind() == reflect.Bool:
		return "true"
	default:
		return "17"
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}
