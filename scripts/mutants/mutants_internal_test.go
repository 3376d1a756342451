package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

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

func TestInside(t *testing.T) {
	if inside(1, 2, 9, true) || !inside(1, 2, 9, false) || !inside(3, 2, 9, true) || inside(10, 2, 9, true) || !inside(9, 2, 9, true) {
		t.Fatal("inside")
	}
}

func TestLargest(t *testing.T) {
	if largest(1, 3, 2) != 3 {
		t.Fatal("largest")
	}
}
`

// The one change that the tests above do not notice is that of the lower bound.
func TestTry_FindsWhatNoTestNotices(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "p/p.go": sample, "p/p_test.go": sampleTest} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	opts := options{out: io.Discard, root: root, sample: 1, only: regexp.MustCompile(""), workers: 2}
	got, err := try(t.Context(), opts, subject{pkg: "p"}, &ledger{used: map[string]bool{}})
	require.NoError(t, err)
	require.Equal(t, 1, got.survivors)
	require.Equal(t, got.tried, got.killed+1)
	require.Greater(t, got.tried, 8)

	known := &ledger{keys: []string{"p inside: the other bound of: n < low"}, used: map[string]bool{}}
	got, err = try(t.Context(), opts, subject{pkg: "p"}, known)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{got.survivors, got.equivalent})
	require.Empty(t, known.unused(nil))

	text, err := os.ReadFile(filepath.Join(root, "p/p.go"))
	require.NoError(t, err)
	require.Equal(t, sample, string(text), "the tree is left alone")
}

// What is written down is about changes that there are, by their content.
func TestEquivalent_NamesSubjects(t *testing.T) {
	t.Parallel()
	known, err := readEquivalent("../..")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, key := range known.keys {
		require.False(t, seen[key], "twice: %s", key)
		seen[key] = true
		require.True(t, slices.ContainsFunc(subjects(), func(s subject) bool { return len(key) > len(s.pkg) && key[:len(s.pkg)+1] == s.pkg+" " }), key)
	}
}
