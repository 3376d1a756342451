package program_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// behaving runs the program of a language (testdata/behave) in one of the ways that it knows.
type behaving struct {
	file   string // the program
	memory uint64 // MiB of address space with which it starts, but not much more
}

// path is where interpreters are that programs may read.
const path = "/usr/local/bin:/usr/bin:/bin"

// languages returns the program in each language that is installed.
func languages(t *testing.T) map[string]behaving {
	t.Helper()
	all := map[string]behaving{"sh": {"behave.sh", 32}}
	for name, b := range map[string]behaving{"python3": {"behave.py", 512}, "node": {"behave.js", 4096}} {
		for dir := range strings.SplitSeq(path, ":") {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				all[name] = b
			}
		}
	}
	for name, b := range all {
		text, err := os.ReadFile(filepath.Join("testdata/behave", b.file))
		require.NoError(t, err)
		b.file = filepath.Join(t.TempDir(), "handler")
		writeProgram(t, b.file, string(text))
		all[name] = b
	}
	if _, err := exec.LookPath("go"); err == nil {
		b := behaving{filepath.Join(t.TempDir(), "handler"), 1024}
		build := exec.CommandContext(t.Context(), "go", "build", "-o", b.file, "./testdata/behave")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
		all["go"] = b
	}
	return all
}

// does returns a run of the program in one way.
func (b behaving) does(t *testing.T, way ...string) program.Program {
	t.Helper()
	temp := t.TempDir()
	mark := program.MarkName + "=" + temp
	return program.Program{
		Path: b.file, Args: way, Dir: filepath.Dir(b.file), Temp: temp, Env: []string{"PATH=" + path, "HOME=" + temp, "TMPDIR=" + temp, mark}, Mark: mark,
		Timeout: time.Minute, Grace: time.Minute, Output: 64 << 10,
	}
}

// outcome is what the end of a program means in both dialects.
type outcome struct {
	sysexits, hooks sluice.Outcome
	text            string
}

func outcomeOf(t *testing.T, res program.Result) (o outcome) {
	t.Helper()
	for dialect, is := range map[module.Dialect]*sluice.Outcome{module.Sysexits: &o.sysexits, module.Hooks: &o.hooks} {
		var dead sluice.Reason
		*is, dead, o.text = module.OutcomeOf(res.Exit, dialect)
		require.Equal(t, *is == sluice.Refused, dead == sluice.HandlerRefused)
	}
	return o
}

// exitTable returns every line of the table of exit codes (docs/modules.md), and codes beside those with a meaning.
func exitTable() map[string]outcome {
	table := map[string]outcome{"0": {sluice.Delivered, sluice.Delivered, ""}}
	add := func(sysexits, hooks sluice.Outcome, codes ...int) {
		for _, code := range codes {
			table[strconv.Itoa(code)] = outcome{sysexits, hooks, fmt.Sprintf("the program ended with exit code %d", code)}
		}
	}
	add(sluice.Failed, sluice.Failed, 75, 71, 1, 3, 63, 79, 255)
	add(sluice.Refused, sluice.Refused, 64, 65, 66, 67, 68, 69, 70, 72, 73, 74, 76, 77, 78)
	add(sluice.Failed, sluice.Refused, 2)
	return table
}

// A program has the same end in every language: exit codes follow their table, and what it does wrong is bounded, leaves nothing, and is
// said in the attempt.
func TestLanguages_HaveTheSameEnds(t *testing.T) { // S4-29
	t.Parallel()
	for language, b := range languages(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			t.Run("exit", func(t *testing.T) {
				t.Parallel()
				for code, want := range exitTable() {
					require.Equal(t, want, outcomeOf(t, run(t, b.does(t, "exit", code))), code)
				}
			})
			for way, want := range ways() {
				t.Run(way, func(t *testing.T) {
					t.Parallel()
					b.ends(t, way, want)
				})
			}
			t.Run("ignore", func(t *testing.T) {
				t.Parallel()
				b.isKilled(t)
			})
		})
	}
}

// way is how a program that behaves in a way ends.
type way struct {
	change func(p *program.Program, b behaving)
	text   string // why it failed; "": it has not
	output string // anything: any that does not say that it is done
}

const anything = "*"

func ways() map[string]way {
	const full = "the program was ended: its temporary directory "
	return map[string]way{
		"slow":   {output: "done\n"},
		"fork":   {output: "forked 20\n"},
		"flood":  {output: strings.Repeat("x", 64<<10)},
		"signal": {text: "the program was ended by signal 15 (terminated)"},
		"half":   {text: "the program was ended by signal 9 (killed)", output: "half\n"},
		"hang": {
			change: func(p *program.Program, _ behaving) { p.Timeout = 200 * time.Millisecond },
			text:   "the program did not end within its timeout, and was ended", output: anything,
		},
		"eat":   {change: func(p *program.Program, b behaving) { p.Limits.Memory = b.memory << 20 }, text: "the program ", output: anything},
		"files": {change: func(p *program.Program, _ behaving) { p.Limits.TempFiles = 500 }, text: full + "has more than 500 files", output: anything},
		"removed": {
			change: func(p *program.Program, _ behaving) { p.Limits.TempSize = 16 << 20 }, text: full + "has more than 16 MiB", output: anything,
		},
		"bytes": {change: func(p *program.Program, _ behaving) { p.Limits.TempSize = 16 << 20 }, text: full + "has more than 16 MiB", output: anything},
	}
}

// ends checks how a program ends that behaves in a way.
func (b behaving) ends(t *testing.T, name string, want way) {
	t.Helper()
	p := b.does(t, name)
	if want.change != nil {
		want.change(&p, b)
	}
	res := run(t, p)
	is := outcomeOf(t, res)
	require.Equal(t, map[bool]sluice.Outcome{true: sluice.Delivered, false: sluice.Failed}[want.text == ""], is.sysexits, is.text)
	require.Contains(t, is.text, want.text)
	require.Equal(t, name == "flood", res.Truncated)
	if want.output == anything {
		require.NotContains(t, res.Output, "done")
	} else {
		require.Equal(t, want.output, res.Output)
	}
	require.Empty(t, marked(t, p.Mark))
}

// isKilled checks that a program ends that ignores SIGTERM.
func (b behaving) isKilled(t *testing.T) {
	t.Helper()
	p := b.does(t, "ignore")
	p.Grace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(p.Temp, "on")); err == nil {
				cancel()
			}
			<-time.After(time.Millisecond)
		}
	}()
	res, err := (&program.Runner{}).Run(ctx, p)
	require.NoError(t, err)
	require.Equal(t, module.Exit{Code: -1, Signal: syscall.SIGKILL}, res.Exit)
	require.Empty(t, marked(t, p.Mark))
}

// marked returns the processes of a run that have not ended.
func marked(t *testing.T, mark string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), mark) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
