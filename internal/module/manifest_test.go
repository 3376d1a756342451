package module_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The example of the specification is a manifest as it is (S4-30).
func TestParseManifest_TakesTheSpecificationsForm(t *testing.T) {
	t.Parallel()
	m, err := module.ParseManifest([]byte(`{
  "events": [
    {
      "eventType": "map.updated",
      "handler": "handlers/onMapUpdated.js",
      "filter": { "projectScoped": true }
    }
  ]
}`))
	require.NoError(t, err)
	require.Equal(t, []string{"default"}, m.Namespaces)
	h := m.Handlers[0]
	require.Equal(t, []any{"onmapupdated", "map.updated", "handlers/onMapUpdated.js", module.Exec, module.Sysexits, sluice.Pattern("/**"), false, 3},
		[]any{h.ID, h.Type, h.Program, h.Mode, h.Dialect, h.Pattern, h.System, h.Line})
	require.Equal(t, sluice.Filter{Types: []string{"map.updated"}}, h.Filter)
	require.Equal(t, 4, h.Policy.Window)
}

func TestParseManifest_TakesOptions(t *testing.T) {
	t.Parallel()
	m, err := module.ParseManifest([]byte(`{"namespaces":["eu"],"events":[{"eventType":"order.*","handler":"handlers/a","filter":{"projectScoped":true,"cel":"event.data.n > 1"},
"id":"a","args":["-v"],"mode":"exec","dialect":"hooks","env":["API_KEY"],"pattern":"/orders/**","timeout":"3s","concurrency":9,"retry":{"preset":"short"},"envelope":"fact",
"limits":{"memoryMiB":100,"processor":"2s","openFiles":9,"fileMiB":1,"tempMiB":2,"tempFiles":7},"network":true,"output":"events","publish":[{"pattern":"/a/**","types":["b.*"]},{"pattern":"/c"}],"read":["/d/*"]},{"eventType":"system.start","handler":"handlers/b","filter":{"projectScoped":false}}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"eu"}, m.Namespaces)
	require.Equal(t, module.Handler{
		ID: "a", Type: "order.*", Program: "handlers/a", Args: []string{"-v"}, Mode: module.Exec, Dialect: module.Hooks, Env: []string{"API_KEY"}, Pattern: "/orders/**",
		Filter: sluice.Filter{Types: []string{"order.*"}, CEL: "event.data.n > 1"}, Line: 1, Network: true, Output: module.OutputEvents,
		Publish: []sluice.Publishable{{Pattern: "/a/**", Types: []string{"b.*"}}, {Pattern: "/c"}}, Read: []sluice.Pattern{"/d/*"},
		Policy: sluice.Policy{Timeout: sluice.Duration(3 * time.Second), Window: 9, Retry: sluice.Retry{Preset: "short"}, Envelope: "fact"},
		Limits: module.Limits{MemoryMiB: 100, Processor: sluice.Duration(2 * time.Second), OpenFiles: 9, FileMiB: 1, TempMiB: 2, TempFiles: 7},
	}, m.Handlers[0])
	b := m.Handlers[1]
	require.Equal(t, []any{"sys.start", sluice.Pattern("/_sys/**"), true, 3}, []any{b.Type, b.Pattern, b.System, b.Line})
}

// declaring returns the members of an event with more of them.
func declaring(members string) string {
	return `"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},` + members
}

// A manifest that is unclear in any point is refused, with the line and the reason (S4-32).
func TestParseManifest_RefusesUnclearOnes(t *testing.T) {
	t.Parallel()
	for text, want := range unclear() {
		_, err := module.ParseManifest([]byte(text))
		var fault *module.Fault
		require.ErrorAs(t, err, &fault, text[:min(len(text), 200)])
		require.Contains(t, err.Error(), want)
	}
}

// unclear returns manifests that are refused, with a part of the reason.
func unclear() map[string]string {
	event := func(members string) string {
		return "{\n\"events\": [\n{\"eventType\":\"a.b\",\"handler\":\"handlers/a\",\"filter\":{\"projectScoped\":true}},\n{" + members + "}]}"
	}
	return map[string]string{
		"":                           "events/subscribe.json:1: ",
		"{\n\"events\": [\n{]}":      "events/subscribe.json:3: it is not valid JSON: invalid character",
		`{"events":[]}`:              "it has 0 events",
		`{"events":[],"more":1}`:     `field "more" is unknown`,
		`{"events":[],"events":[]}`:  "duplicate",
		`{"namespaces":["A b"]}`:     "namespaces: ",
		endpoint(`"endpoint":"erp"`): `endpoint "erp" is not in endpoints`,
		endpoint(`"endpoint":"crm","handler":"handlers/a"`):                                                    "no handler",
		endpoint(`"endpoint":"crm","env":["A"]`):                                                               "no settings of a program",
		endpoint(`"endpoint":"crm","mode":"worker"`):                                                           "no settings of a program",
		endpoint(`"endpoint":"crm","id":"A b"`):                                                                `id "A b"`,
		strings.Replace(endpoint(`"endpoint":"crm"`), "https://", "", 1):                                       "endpoint.url",
		event(`"handler":"handlers/b"`):                                                                        "events/subscribe.json:4: events[1]: filter.projectScoped is missing",
		event(`"handler":"handlers/b","filter":{"projectScoped":true}`):                                        "eventType is missing",
		event(`"eventType":"a*b","handler":"handlers/b","filter":{"projectScoped":true}`):                      "eventType: ",
		event(`"eventType":"a","filter":{"projectScoped":true}`):                                               "handler is missing",
		event(`"eventType":"a","handler":"handlers/b","filter":{}`):                                            "filter.projectScoped is missing",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectscoped":true}`):                        `"filter.projectscoped" is unknown; did you mean "filter.projectScoped"?`,
		event(`"eventType":"system.start","handler":"handlers/b","filter":{"projectScoped":true}`):             "is an event of the server",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"pattern":"/_sys/**"`):   "pattern /_sys/**: ",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":false},"pattern":"/a/**"`):     "pattern /a/**: ",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true,"cel":"("}`):              "filter: ",
		event(`"eventType":"a","handler":"../b","filter":{"projectScoped":true}`):                              `handler "../b"`,
		event(`"eventType":"a","handler":"/bin/sh","filter":{"projectScoped":true}`):                           `handler "/bin/sh"`,
		event(`"eventType":"a","handler":"handlers/./b","filter":{"projectScoped":true}`):                      `handler "handlers/./b"`,
		event(`"eventType":"a","handler":"handlers/b\u0000","filter":{"projectScoped":true}`):                  "handler ",
		event(`"eventType":"a","handler":"handlers/a.py","filter":{"projectScoped":true}`):                     `the id "a" is of another event`,
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"id":"A"`):               `id "A"`,
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"mode":"shell"`):         `mode "shell"`,
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"dialect":"x"`):          `dialect "x"`,
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"env":["SLUICE_TOKEN"]`): "env ",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"env":["A=B"]`):          "env ",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"args":["a\u0000"]`):     "NUL",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"timeout":"-1s"`):        "timeout is -1s",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"retry":{"preset":"x"}`): "retry",
		event(`"eventType":"a","handler":"handlers/b","filter":{"projectScoped":true},"envelope":"notice"`):    "envelope",
		event(declaring(`"limits":{"processor":"-1s"}`)):                                                       "limits.processor -1s: write",
		event(declaring(`"limits":{"memoryMiB":17592186044416}`)):                                              "limits.memoryMiB 17592186044416: use at most 8589934592",
		event(declaring(`"limits":{"fileMiB":17592186044416}`)):                                                "limits.fileMiB",
		event(declaring(`"limits":{"tempMiB":17592186044416}`)):                                                "limits.tempMiB",
		event(declaring(`"output":"lines"`)):                                                                   `output "lines"`,
		event(declaring(`"output":"events"`)):                                                                  "publish is missing",
		event(declaring(`"publish":[{"pattern":"/a"}]`)):                                                       `set output to "events"`,
		event(declaring(`"read":["/a"]`)):                                                                      "set network to true",
		event(declaring(`"output":"events","publish":[{"types":["a"]}]`)):                                      "publish[0]: pattern",
		event(declaring(`"output":"events","publish":[{"pattern":"/a"},{"pattern":"/_sys/**"}]`)):              "publish[1]: pattern",
		event(declaring(`"output":"events","publish":[{"pattern":"/a","types":["sys.x"]}]`)):                   "publish[0]: types",
		event(declaring(`"output":"events","publish":[{"pattern":"/a","types":["*"]}]`)):                       "publish[0]: types",
		event(declaring(`"output":"events","publish":[{"pattern":"/a","type":"a"}]`)):                          `"publish.type" is unknown`,
		event(declaring(`"network":true,"read":["/_sys/**"]`)):                                                 "read[0]: pattern",
		event(declaring(`"network":true,"publish":[` + strings.Repeat(`{},`, 64) + `{}]`)):                     "65 publish",
		`{"events":[` + strings.Repeat(`{},`, 101) + `{}]}`:                                                    "it has 102 events",
		`"` + strings.Repeat("x", 300_000) + `"`:                                                               "more than 262144 bytes",
	}
}

// fill writes files into a module's directory; those below handlers are executable.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "billing")
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		mode := os.FileMode(0o600)
		if strings.HasPrefix(name, "handlers/") {
			mode = 0o700
		}
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	return dir
}

const manifest = `{"events":[{"eventType":"a.b","handler":"handlers/a","filter":{"projectScoped":true}}]}`

func TestOpen_DigestCoversEveryFile(t *testing.T) {
	t.Parallel()
	dir := fill(t, map[string]string{module.ManifestFile: manifest, "handlers/a": "#!/bin/sh\n", "lib/x": "1"})
	first, err := module.Open(dir)
	require.NoError(t, err)
	require.Equal(t, "billing", first.Name)
	require.Len(t, first.Files, 3)
	digests := map[string]bool{first.Digest: true}
	for _, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "lib/x"), []byte("2"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "lib/y"), nil, 0o600) },
		func() error { return os.Rename(filepath.Join(dir, "lib/y"), filepath.Join(dir, "lib/z")) },
		func() error { return os.Chmod(filepath.Join(dir, "lib/z"), 0o700) },
		func() error {
			return os.WriteFile(filepath.Join(dir, "handlers/a"), []byte("#!/bin/sh\nexit 1\n"), 0o700)
		},
	} {
		require.NoError(t, change())
		m, err := module.Open(dir)
		require.NoError(t, err)
		require.False(t, digests[m.Digest])
		digests[m.Digest] = true
	}
	last, err := module.Open(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"handlers/a", "lib/x", "lib/z"}, module.Changed(first.Files, last.Files))
}

func TestOpen_RefusesUnfitModules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		more  func(dir string) error
		want  string
	}{
		"no manifest":        {map[string]string{"handlers/a": ""}, nil, "events/subscribe.json: no such file"},
		"no handler":         {map[string]string{module.ManifestFile: manifest}, nil, "events/subscribe.json:1: the handler handlers/a is missing"},
		"not executable":     {map[string]string{module.ManifestFile: strings.Replace(manifest, "handlers/a", "lib/a", 1), "lib/a": ""}, nil, "is not executable"},
		"a link":             {map[string]string{module.ManifestFile: manifest, "handlers/a": ""}, func(dir string) error { return os.Symlink("/bin/sh", filepath.Join(dir, "lib")) }, "lib: only directories"},
		"a linked handler":   {map[string]string{module.ManifestFile: manifest, "handlers/b": ""}, func(dir string) error { return os.Symlink("/bin/sh", filepath.Join(dir, "handlers/a")) }, "handlers/a: only directories"},
		"a pipe":             {map[string]string{module.ManifestFile: manifest, "handlers/a": ""}, func(dir string) error { return mkfifo(filepath.Join(dir, "pipe"), 0o600) }, "pipe: only directories"},
		"a manifest outside": {map[string]string{"handlers/a": ""}, func(dir string) error { return os.Symlink(t.TempDir(), filepath.Join(dir, "events")) }, "events/subscribe.json: "},
	} {
		dir := fill(t, c.files)
		if c.more != nil {
			require.NoError(t, c.more(dir), name)
		}
		_, err := module.Open(dir)
		require.ErrorContains(t, err, c.want, name)
		var fault *module.Fault
		require.ErrorAs(t, err, &fault, name)
	}
	_, err := module.Open(filepath.Join(t.TempDir(), "Big Name"))
	require.ErrorContains(t, err, `module "Big Name": use 1 to 64`)
}

// The copy that runs is what was read, even if the module's files are replaced while they are copied.
func TestCopyTo_TakesTheFilesThatWereRead(t *testing.T) {
	t.Parallel()
	dir := fill(t, map[string]string{module.ManifestFile: manifest, "handlers/a": "#!/bin/sh\n", "lib/x": "1"})
	m, err := module.Open(dir)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "copies", m.Name)
	require.NoError(t, m.CopyTo(to))
	again, err := module.Open(to)
	require.NoError(t, err)
	require.Equal(t, m.Digest, again.Digest)
	info, err := os.Stat(filepath.Join(to, "handlers/a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), info.Mode())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "lib/x"), []byte("3"), 0o600))
	other := filepath.Join(t.TempDir(), "copies", m.Name)
	require.ErrorContains(t, m.CopyTo(other), "lib/x: it changed while it was copied")
	left, err := os.ReadDir(filepath.Dir(other))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Every line of the table of exit codes (docs/modules.md).
func TestOutcomeOf_FollowsTheTable(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		want, dead := sluice.Failed, sluice.Reason("")
		switch code {
		case 0:
			want = sluice.Delivered
		case 64, 65, 66, 67, 68, 69, 70, 72, 73, 74, 76, 77, 78:
			want, dead = sluice.Refused, sluice.HandlerRefused
		}
		outcome, reason, text := module.OutcomeOf(module.Exit{Code: code}, module.Sysexits)
		require.Equal(t, []any{want, dead, code == 0}, []any{outcome, reason, text == ""}, code)
		if code == 2 {
			want, dead = sluice.Refused, sluice.HandlerRefused
		}
		outcome, reason, _ = module.OutcomeOf(module.Exit{Code: code}, module.Hooks)
		require.Equal(t, []any{want, dead}, []any{outcome, reason}, code)
	}
	outcome, _, text := module.OutcomeOf(module.Exit{Code: -1, Signal: syscall.SIGSEGV}, module.Sysexits)
	require.Equal(t, []any{sluice.Failed, "the program was ended by signal 11 (segmentation fault)"}, []any{outcome, text})
	outcome, _, _ = module.OutcomeOf(module.Exit{Code: 0, TimedOut: true}, module.Sysexits)
	require.Equal(t, sluice.Failed, outcome)
}

func TestParseManifest_TakesWorkers(t *testing.T) {
	t.Parallel()
	event := func(members string) string {
		return `{"events":[{"eventType":"a","handler":"handlers/a","filter":{"projectScoped":true},` + members + `}]}`
	}
	m, err := module.ParseManifest([]byte(event(`"mode":"worker"`)))
	require.NoError(t, err)
	h := m.Handlers[0]
	require.Equal(t, []any{module.Worker, 1, 10 * time.Second, 4}, []any{h.Mode, h.Processes, h.Ready, h.Policy.Window})
	m, err = module.ParseManifest([]byte(event(`"mode":"worker","processes":3,"ready":"1m","concurrency":9,"envelope":"fact"`)))
	require.NoError(t, err)
	h = m.Handlers[0]
	require.Equal(t, []any{3, time.Minute, 9}, []any{h.Processes, h.Ready, h.Policy.Window})
	for members, want := range map[string]string{
		`"mode":"serve"`:                                  `mode "serve": use "exec" or "worker"`,
		`"processes":2`:                                   "processes and ready are of the mode",
		`"ready":"1s"`:                                    "processes and ready are of the mode",
		`"mode":"worker","processes":-1`:                  "processes -1: use 1 to 64",
		`"mode":"worker","processes":65`:                  "processes 65: use 1 to 64",
		`"mode":"worker","ready":"-1s"`:                   "ready -1s",
		`"mode":"worker","dialect":"hooks"`:               "dialect is of the mode",
		`"mode":"worker","envelope":"raw"`:                `envelope "raw": a worker gets JSON`,
		`"mode":"worker","envelope":"cloudevents-binary"`: "a worker gets JSON",
	} {
		_, err := module.ParseManifest([]byte(event(members)))
		require.ErrorContains(t, err, want, members)
	}
}

// S4-30: a handler may be an endpoint of the module, by name.
func TestParseManifest_TakesEndpoints(t *testing.T) {
	t.Parallel()
	m, err := module.ParseManifest([]byte(endpoint(`"endpoint":"crm","timeout":"3s"`)))
	require.NoError(t, err)
	h := m.Handlers[0]
	require.Equal(t, []string{"crm", "crm", "", "endpoint"}, []string{h.ID, h.Endpoint, h.Program, string(h.Mode)})
	require.Equal(t, sluice.Endpoint{URL: "https://crm.example/hook"}, h.Sink())
	require.Equal(t, 3*time.Second, h.Policy.Timeout.Std())
}
