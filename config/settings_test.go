package config_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 19, part 1: the settings of a server.
func TestSettings_ListEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.HTTP.MaxBody = 100
	c.HTTP.TrustedProxies = []string{"10.1.0.0/16"}
	got, err := c.Settings()
	require.NoError(t, err)
	var names, changed []string
	for _, s := range got {
		names = append(names, s.Name)
		if s.Changed {
			changed = append(changed, s.Name)
		}
	}
	var want []string
	for _, s := range settings(reflect.TypeFor[config.Config](), "") {
		want = append(want, s.name)
	}
	require.Equal(t, want, names)
	require.Equal(t, []string{"http.max_body", "http.trusted_proxies"}, changed)
	require.Contains(t, got, sluice.Setting{Name: "http.max_body", Value: 100., Default: 8388608., Changed: true})
	require.Contains(t, got, sluice.Setting{Name: "http.trusted_proxies", Value: []any{"10.1.0.0/16"}, Default: []any{}, Changed: true})
	require.Contains(t, got, sluice.Setting{Name: "shutdown_grace", Value: "5s", Default: "5s"})
}

// Every text is filled with a password, and every name that sounds like a secret must hide it or be a file.
func TestSettings_HideSecrets(t *testing.T) {
	t.Parallel()
	c := config.Default()
	fill(reflect.ValueOf(&c).Elem())
	c.NATS.Users = []config.NATSUser{{Name: "ann", Password: "hunter2"}}
	c.NATS.URL = "nats://hunter2@a:4222,nats://ann:not@hunter2@b:4222"
	c.Tracing.Endpoint = "http://ann:hunter2@127.0.0.1:4318"
	got, err := c.Settings()
	require.NoError(t, err)
	sounds := regexp.MustCompile(`password|token|secret|key|credential|seed`)
	files := []string{"nats.credentials", "nats.nkey_seed_file", "nats.tls.key", "nats.server_tls.key", "http.tls.key", "secrets.key_file"}
	for _, s := range got {
		encoded, err := json.Marshal(s.Value)
		require.NoError(t, err)
		_, last, _ := strings.Cut(s.Name, ".")
		if _, text := s.Value.(string); text && sounds.MatchString(last) {
			file := s.Value != sluice.HiddenSetting
			require.Equal(t, file, strings.Contains(strings.Join(files, " ")+" ", s.Name+" "), s.Name)
		}
		if s.Name == "nats.users" || s.Name == "nats.url" || s.Name == "tracing.endpoint" {
			require.NotContains(t, string(encoded), "hunter2", s.Name)
			require.Contains(t, string(encoded), sluice.HiddenSetting, s.Name)
			require.NotContains(t, string(encoded), "ann:", s.Name)
		}
	}
	require.Equal(t, "hunter2", c.NATS.Users[0].Password, "the configuration itself keeps them")
}

// fill sets every text of a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.String:
		v.SetString("hunter2")
	default:
	}
}
