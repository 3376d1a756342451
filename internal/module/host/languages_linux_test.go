package host_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/host"
)

// The module that "module new" writes passes its own tests, in each language and mode.
func TestNew_WritesModulesThatWork(t *testing.T) {
	t.Parallel()
	for program, language := range map[string]string{"sh": "sh", "python3": "python", "node": "node", "go": "go"} {
		for _, mode := range []module.Mode{module.Exec, module.Worker} {
			if program == "sh" && mode == module.Worker {
				continue
			}
			t.Run(language+"-"+string(mode), func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(program); err != nil {
					t.Skip("needs " + program)
				}
				dir := filepath.Join(t.TempDir(), "hello")
				require.NoError(t, module.New(dir, language, "order.placed", mode))
				if program == "go" {
					build := exec.CommandContext(t.Context(), "sh", "-c", module.Build)
					build.Dir = dir
					out, err := build.CombinedOutput()
					require.NoError(t, err, string(out))
				}
				m, err := module.Open(dir)
				require.NoError(t, err)
				tests, err := m.Tests()
				require.NoError(t, err)
				require.Len(t, tests, 1)
				trial, err := host.Try(t.Context(), m, tests[0].Handler, &tests[0].Event, render{})
				require.NoError(t, err)
				require.Equal(t, tests[0].Outcome, trial.Outcome, trial.Error)
				require.Contains(t, trial.Output, tests[0].Output)
			})
		}
	}
}

// The test of a new module has an event that its handler gets, also of a prefix of types and of the server's own.
func TestNew_TestsFitTheType(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]string{"order.placed": "order.placed /example/1", "order.*": "order.example /example/1", "sys.start": "sys.start /_sys/example/1"} {
		dir := filepath.Join(t.TempDir(), "m")
		require.NoError(t, module.New(dir, "sh", give, module.Exec))
		m, err := module.Open(dir)
		require.NoError(t, err)
		require.Equal(t, give == "sys.start", m.Manifest.Handlers[0].System)
		tests, err := m.Tests()
		require.NoError(t, err)
		require.Equal(t, want, tests[0].Event.Type+" "+string(tests[0].Event.Path))
	}
}
