package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage_IsFromItsResults renders a fixture with two runs of a row, and the page in docs.
// go run ./cmd/bench -page cmd/bench/testdata cmd/bench/testdata/performance/results.ndjson writes the fixture.
func TestPage_IsFromItsResults(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"testdata", "../../docs"} {
		all, err := loadReports([]string{filepath.Join(dir, "performance", "results.ndjson")})
		require.NoError(t, err)
		pages, err := page(all)
		require.NoError(t, err)
		plots, err := filepath.Glob(filepath.Join(dir, "performance", "*"))
		require.NoError(t, err)
		require.Len(t, plots, len(pages)-1, "and the page itself")
		for name, want := range pages {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, string(text), "%s: run make performance", name)
		}
	}
}

func TestPage_IsWrittenFromTheResultsOfRuns(t *testing.T) {
	t.Parallel()
	results, docs := t.TempDir(), t.TempDir()
	require.ErrorContains(t, writePage(docs, nil), "no results")
	all, err := loadReports([]string{"testdata/performance/results.ndjson"})
	require.NoError(t, err)
	var files []string
	for i, r := range all {
		dir := filepath.Join(results, string(rune('a'+i)))
		require.NoError(t, r.save(dir))
		files = append(files, filepath.Join(dir, r.Row+".json"))
	}
	require.NoError(t, writePage(docs, []string{files[2], files[0], files[1]}))
	text, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	require.NoError(t, err)
	require.Less(t, strings.Index(string(text), "## Speed"), strings.Index(string(text), "## Lateness"), "in the order of a run")
	plot, err := os.Open(filepath.Join(docs, "performance", "speed.svg"))
	require.NoError(t, err)
	defer func() { require.NoError(t, plot.Close()) }()
	require.NoError(t, xml.NewDecoder(plot).Decode(new(struct{})), "well-formed")
}

func TestReports_OfDifferentMeasurementsAreNotMerged(t *testing.T) {
	t.Parallel()
	all, err := loadReports([]string{"testdata/performance/results.ndjson"})
	require.NoError(t, err)
	all[1].Results[0].About = "something else"
	_, err = page(all)
	require.ErrorContains(t, err, "speed: the run of")
	all[1].Results = nil
	_, err = page(all)
	require.ErrorContains(t, err, "speed: the run of")
	all[1].Machine.Cores++
	var text []byte
	for _, r := range all {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		text = append(text, line...)
	}
	file := filepath.Join(t.TempDir(), "results.ndjson")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	_, err = loadReports([]string{file})
	require.ErrorContains(t, err, "different machines")
}

func TestNumber_HasThreeDigits(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]float64{"1,234,568": 1234567.8, "12,000": 12000, "-1,500": -1500, "100": 100, "12.3": 12.34, "1.23": 1.234, "0.012": 0.0123, "0": 0} {
		require.Equal(t, want, number(value))
	}
	require.Equal(t, "2 (1–3)", spread([]float64{3, 1, 2}))
	require.Equal(t, "1.50 (1–2)", spread([]float64{2, 1}))
	require.Empty(t, spread(nil))
}

func TestReport_NamesTheMachine(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	r := env{binary: self}.begin("speed")
	require.Positive(t, r.Machine.Cores)
	require.Contains(t, r.Machine.NATS, "v2.")
	require.NotEmpty(t, r.Load[0])
}
