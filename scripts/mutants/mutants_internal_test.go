package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sample = `package p

func inside(n, low, high int, open bool) bool {
	if open && n < low {
		return false
	}
	if n > high {
		return false
	}
	return true
}

func largest(all ...int) (most int) {
	for _, n := range all {
		most = max(most, n)
	}
	return most
}
`

const sampleTest = `package p

import "testing"

func TestInside_KnownValues(t *testing.T) {
	if inside(1, 2, 9, true) || !inside(1, 2, 9, false) || !inside(3, 2, 9, true) || inside(10, 2, 9, true) || !inside(9, 2, 9, true) {
		t.Fatal("inside")
	}
}

func TestLargest_KnownValues(t *testing.T) {
	if largest(1, 3, 2) != 3 {
		t.Fatal("largest")
	}
}
`

// write writes a module with one package p.
func write(t *testing.T, code, test string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "p/p.go": code, "p/p_test.go": test} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func everything(root string, grace time.Duration) options {
	return options{out: io.Discard, root: root, sample: 1, only: regexp.MustCompile(""), workers: 2, grace: grace}
}

// The one change that the tests above do not notice is that of the lower bound.
func TestTry_FindsSurvivingMutants(t *testing.T) {
	t.Parallel()
	root := write(t, sample, sampleTest)
	opts := everything(root, time.Minute)
	got, err := try(t.Context(), opts, subject{pkg: "p"}, &ledger{used: map[string]bool{}})
	require.NoError(t, err)
	require.Equal(t, 1, got.survivors)
	require.Equal(t, got.tried, got.killed+1)
	require.Greater(t, got.tried, 8)

	known := &ledger{keys: []string{"p inside: the other bound of: n < low"}, used: map[string]bool{}}
	got, err = try(t.Context(), opts, subject{pkg: "p"}, known)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{got.survivors, got.equivalent})
	require.Empty(t, known.unused())

	text, err := os.ReadFile(filepath.Join(root, "p/p.go"))
	require.NoError(t, err)
	require.Equal(t, sample, string(text), "the tree is left alone")
}

// one has a single change, which its test does not notice.
const one = `package p

func above(n int) bool {
	return n > 3
}
`

// busyTest is the test of a machine that becomes busy after the probe: so many runs hang.
const busyTest = `package p

import (
	"os"
	"testing"
	"time"
)

func TestAbove_KnownValues(t *testing.T) {
	above(9)
	if os.Getenv("SLUICE_MUTANTS_SEEN") != "" {
		return
	}
	for _, name := range []string{HANGING} {
		if file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = file.Close()
			time.Sleep(time.Hour)
		}
	}
}
`

// loop has changes with which it never ends.
const loop = `package p

func count(n int) (all int) {
	for n > 0 {
		n--
		all++
	}
	return all
}
`

const loopTest = `package p

import "testing"

func TestCount_KnownValues(t *testing.T) {
	if count(3) != 3 || count(0) != 0 {
		t.Fatal("count")
	}
}
`

// Issue 13: a time-out on a busy machine says nothing about a change.
func TestTry_TimeoutIsCheckedUnchanged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code, test string
		grace      time.Duration
		want       tally
	}{
		"busy for two runs": {one, strings.Replace(busyTest, "HANGING", `"1", "2"`, 1), 10 * time.Second, tally{pkg: "p", tried: 1, survivors: 1}},
		"busy for ever":     {one, strings.Replace(busyTest, "HANGING", `"1", "2", "3", "4", "5", "6"`, 1), time.Second, tally{pkg: "p", tried: 1, undecided: 1}},
		"an endless loop":   {loop, loopTest, 5 * time.Second, tally{pkg: "p", tried: 4, killed: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := try(t.Context(), everything(write(t, tt.code, tt.test), tt.grace), subject{pkg: "p"}, &ledger{used: map[string]bool{}})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// An undecided change was noticed by no test: it counts against a package.
func TestTally_CountsUndecided(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 75, tally{tried: 5, killed: 3, equivalent: 1, undecided: 1}.rate(), 0.01)
}

// Every file of equivalent changes belongs to a package that is tried, and gives reasons.
func TestEquivalent_NamesSubjects(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("equivalent/*")
	require.NoError(t, err)
	var known []string
	for _, s := range subjects() {
		l, err := readEquivalent("../..", s.pkg)
		require.NoError(t, err)
		if len(l.keys) > 0 {
			known = append(known, filepath.Join("equivalent", filepath.Base(equivalents(s.pkg))))
		}
		require.Equal(t, s.files == nil, s.why == "", "%s: why only these files", s.pkg)
	}
	require.ElementsMatch(t, known, files)
}

// A change that is named by the text of a message is another one when the message is reworded.
func TestEquivalent_ChangesExist(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		known, err := readEquivalent("../..", s.pkg)
		require.NoError(t, err)
		b := &built{dir: filepath.Join("../..", s.pkg)}
		files, err := sources(b.dir, s.files)
		require.NoError(t, err)
		_, err = b.write(t.TempDir(), s, files, nil)
		require.NoError(t, err)
		for _, m := range b.mutants {
			known.use(m.key)
		}
		require.Empty(t, known.unused(), "%s has changes that do not exist", equivalents(s.pkg))
	}
}
