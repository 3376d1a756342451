// Package scripts_test tests the scripts that the Makefile runs tests with.
package scripts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run runs a command in dir and returns its exit status and what it printed.
func run(t *testing.T, dir, name string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}

// module writes a module with one package for each of the files of tests.
func module(t *testing.T, packages map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o600))
	for name, body := range packages {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		text := "package " + name + "\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nvar _ = time.Second\n\n" + body
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, name+"_test.go"), []byte(text), 0o600))
	}
	return dir
}

func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return path
}

// A failure names the command that runs it again in the same order. Whether the tests below fail depends on their order.
func TestGotest_PrintsHowToRunAgain(t *testing.T) { // issue 13, the suite is trustworthy
	t.Parallel()
	dir := module(t, map[string]string{
		"fails":  "var first bool\n\nfunc TestA(t *testing.T) { first = true }\nfunc TestB(t *testing.T) { t.Run(\"x\", func(t *testing.T) { if !first { t.Fatal(\"B before A\") } }) }\n",
		"hangs":  "func TestHangs(t *testing.T) { t.Run(\"x\", func(*testing.T) { time.Sleep(time.Hour) }) }\n",
		"passes": "func TestPasses(t *testing.T) {}\n",
	})
	gotest := script(t, "gotest")
	var said string
	require.Eventually(t, func() bool { // soon: every second order
		status, stdout, stderr := run(t, dir, gotest, "-timeout=2s", "./...")
		require.Equal(t, 1, status)
		require.Regexp(t, `(?m)\nFAIL\n\z`, stdout, "go test's own closing line")
		said = stderr
		return strings.Contains(stderr, "example.com/m/fails")
	}, 2*time.Minute, time.Millisecond)

	require.NotContains(t, said, "passes")
	require.Contains(t, said, "make repeat PKG=example.com/m/fails RUN='^(TestB)$'\n")
	require.Contains(t, said, "make repeat PKG=example.com/m/hangs RUN='^(TestHangs)$'\n")
	again := regexp.MustCompile(`(?m)^  go (test .* -timeout=2s example\.com/m/fails)$`).FindStringSubmatch(said)
	require.NotNil(t, again, said)
	for range 3 {
		status, stdout, _ := run(t, dir, "go", strings.Fields(again[1])...)
		require.Equal(t, 1, status)
		require.Contains(t, stdout, "B before A")
	}
}

func TestGotest_PassesQuietly(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{"passes": "func TestPasses(t *testing.T) {}\n"})
	status, stdout, stderr := run(t, dir, script(t, "gotest"), "./...")
	require.Equal(t, []any{0, ""}, []any{status, stderr})
	require.Regexp(t, `^ok  \texample.com/m/passes\t`, stdout)
}

// Each command's output is whole, and the first failure is the exit status.
func TestTogether_WaitsForAllAndFailsWithAny(t *testing.T) {
	t.Parallel()
	together := script(t, "together")
	status, stdout, _ := run(t, t.TempDir(), together, "until test -e second; do :; done; echo one", "echo two >&2; touch second")
	require.Equal(t, 0, status, "they run at the same time")
	require.Equal(t, "one\ntwo\n", stdout)
	status, stdout, _ = run(t, t.TempDir(), together, "exit 0", "echo two; exit 3", "echo three; exit 4")
	require.Equal(t, 3, status)
	require.Equal(t, "two\nthree\n", stdout)
}

// A failure of a suite in JavaScript names the command that runs it again, and the exit status is npm's.
func TestNpmtest_PrintsHowToRunAgain(t *testing.T) { // issue 13, the suite is trustworthy
	t.Parallel()
	for suite, flag := range map[string]string{"interop": "--test-name-pattern", "conformance": "-t"} {
		for _, fails := range []int{0, 7} {
			bin := t.TempDir() // has an npm that tests nothing
			npm := fmt.Sprintf("#!/bin/sh\necho \"$SLUICE_BIN $1\"\nexit %d\n", fails)
			require.NoError(t, os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o700))
			status, stdout, stderr := run(t, t.TempDir(), "env", "PATH="+bin+":"+os.Getenv("PATH"), script(t, "npmtest"), suite, flag)
			require.Equal(t, fails, status, stderr)
			require.Contains(t, stdout, "/bin/sluice test\n")
			if fails == 0 {
				require.Empty(t, stderr)
				continue
			}
			require.Contains(t, stderr, "\n  make "+suite+"\n")
			require.Contains(t, stderr, "\n  cd scripts/"+suite+" && SLUICE_BIN=../../bin/sluice npm test -- "+flag+" ")
		}
	}
}

// The public suite is compared with the list of its expected failures: a new failure, an unexpected pass, and another number of tests
// fail it (issue 13).
func TestConformance_ComparesWithTheList(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("node is not installed")
	}
	require.NoError(t, err, "CI needs node")
	compare, err := os.ReadFile(script(t, "conformance/run.mjs"))
	require.NoError(t, err)
	for expected, says := range map[string]string{
		`{"tests":2,"failures":{"bad":"why"}}`:               "",
		`{"tests":2,"failures":{}}`:                          "fails: bad\n",
		`{"tests":2,"failures":{"bad":"why","good":"so"}}`:   "passes, and is expected to fail (so): good\n",
		`{"tests":2,"failures":{"bad":"why","former":"so"}}`: "is gone, and is expected to fail: former\n",
		`{"tests":3,"failures":{"bad":"why"}}`:               "2 tests ran in place of 3\n",
	} {
		dir := t.TempDir() // has an npx that knows the results
		npx := `#!/bin/sh
for a in "$@"; do
	case $a in --outputFile.json=*) cat > "${a#*=}" <<'EOF'
{"testResults":[{"status":"failed","assertionResults":[{"fullName":"bad","status":"failed"},{"fullName":"good","status":"passed"}]}]}
EOF
	esac
done
exit 1
`
		for name, content := range map[string]string{"npx": npx, "run.mjs": string(compare), "expected.json": expected} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700))
		}
		status, _, stderr := run(t, dir, "env", "PATH="+dir+":"+os.Getenv("PATH"), "node", "run.mjs")
		require.Equal(t, says, stderr)
		require.Equal(t, says != "", status != 0)
	}
}
