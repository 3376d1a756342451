package internal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
)

const faultsFile = "../docs/faults.md"

// TestFaults_HaveTheirTests checks docs/faults.md: it has a row for every fault that is tried and
// no other, each test exists and tries what its row says, and nothing was lost. With the results
// of the tests (make faults) it writes the file first.
func TestFaults_HaveTheirTests(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(faulttest.ResultsEnv); dir != "" {
		table, err := faulttest.Table(dir)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(faultsFile, []byte(faultsHead+table), 0o600))
	}
	text, err := os.ReadFile(faultsFile)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), faultsHead), "the file is written by make faults")
	tests, rows := listTests(t), strings.Split(string(text), "\n")
	for _, f := range faulttest.Faults() {
		require.True(t, tests[f.Test], "%s names %s, which does not exist", f.ID, f.Test)
		require.Contains(t, sources(t, f.Test), `"`+f.ID+`"`, "%s does not try it", f.Test)
		at := rowOf(rows, f)
		require.GreaterOrEqual(t, at, 0, "no row for %s, or another one: run make faults", f.ID)
		cells := strings.Split(rows[at], " | ")
		require.Len(t, cells, 11, rows[at])
		require.Equal(t, []string{"0", "kept"}, []string{cells[3], cells[5]}, "%s: lost, order", f.ID)
		rows = append(rows[:at], rows[at+1:]...)
	}
	for _, line := range rows {
		require.False(t, strings.HasPrefix(line, "| ") && strings.Contains(line, ".Test"), "a row of no fault: %s", line)
	}
}

// rowOf returns where the row of a fault is; -1: nowhere.
func rowOf(rows []string, f faulttest.Fault) int {
	for i, row := range rows {
		if strings.HasPrefix(row, f.Head()) && strings.HasSuffix(row, f.Tail()) {
			return i
		}
	}
	return -1
}

// sources returns the text of the tests of a test's package.
func sources(tb testing.TB, test string) string {
	tb.Helper()
	dir, _, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(tb, err)
	nested, err := filepath.Glob(filepath.Join("*", dir, "*_test.go"))
	require.NoError(tb, err)
	files = append(files, nested...)
	var all strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(tb, err)
		all.Write(data)
	}
	return all.String()
}

const faultsHead = `# Faults that are tested

These are failures of the things that a server depends on, caused on purpose while events were delivered, and the observed effects.
` + "`make faults`" + ` repeats the long forms, one fault after the other, and writes this file.
` + "`make check`" + ` runs the short forms, and checks that this file and the tests agree.

| column | meaning |
| --- | --- |
| events | published and acknowledged |
| lost | never arrived; the test fails if there is one |
| twice | accepted again by the endpoint; only a crash, two owners, or a stop without NATS may cause it |
| order | order of each path's first deliveries |
| to resume | time from the end of the fault to the next delivery |
| CPU | use of one core by the whole process, NATS and test included, while nothing could be done; over a tenth fails the test |
| memory | maximum growth of heap and stacks, garbage included |

Figures are of one run on a machine with two cores: they show the order of magnitude.

Limits: when the machine or network of a dead server goes silent, NATS considers the connection alive for a while and may give it a delivery; that delivery is repeated after its ack wait of 30 seconds.
A clock that is set forward makes the retries of a process that starts afterwards come early.
` + "`disable_after`" + ` and the three days of the preset ` + "`persistent`" + ` are measured by the wall clock: a jump of an hour counts as an hour.
Readers by offset are told of an event that cannot be read where they read it, once its damage is found: a feed by a frame, ` + "`" + `GET …/events` + "`" + ` and streams by the range ([damaged files](operations.md#damaged-files), ` + "`" + `e2e.TestMissed_ReadersAreToldOfTheGap` + "`" + `).
The state names the ranges that it may lack (` + "`" + `e2e.TestMissed_StateNamesItsGaps` + "`" + `), and the end of a closed stream names events that may be lost after its last message (` + "`" + `e2e.TestMissed_ClosedStreamNamesItsLostEnd` + "`" + `).
A replay counts what it could not read (` + "`" + `e2e.TestMissed_ReplayCountsItsGap` + "`" + `), a watch reports it (` + "`" + `watch.TestGap_IsReportedAsMissed` + "`" + `), and an export lists it (` + "`" + `e2e.TestMissed_ExportListsItsGap` + "`" + `).
A watch and an export name a range that they passed, whichever run finds it (` + "`" + `watch.TestGap_IsReportedAsMissed` + "`" + `, ` + "`" + `export.TestGap_IsInAFileOfItsOwn` + "`" + `); they may have read it before it was damaged.
A range that is found after the end of a replay is named by ` + "`" + `sys.damage` + "`" + `, ` + "`" + `GET /v1/storage` + "`" + ` and the doctor alone.
`
