package faulttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Head returns the start of a fault's row in the table: the part that is the same in all runs.
func (f Fault) Head() string { return fmt.Sprintf("| %s | %s |", f.Name, f.Done) }

// Tail returns the end of the row.
func (f Fault) Tail() string { return fmt.Sprintf("| `%s` |", f.Test) }

// Table writes the table of the faults from their tests' results in a directory. Returns an error
// if one of them is missing.
func Table(dir string) (string, error) {
	var b strings.Builder
	group := ""
	for _, f := range Faults() {
		data, err := os.ReadFile(filepath.Join(dir, filepath.Base(f.ID)+".json")) //nolint:gosec // a directory of the test's own
		if err != nil {
			return "", fmt.Errorf("%s was not tried: %w", f.ID, err)
		}
		var s Seen
		if err := json.Unmarshal(data, &s); err != nil {
			return "", fmt.Errorf("%s: %w", f.ID, err)
		}
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n\n%s", group, tableHead)
		}
		fmt.Fprintf(&b, "%s %s %s\n", f.Head(), s.cells(), f.Tail())
	}
	return b.String(), nil
}

const tableHead = `| fault | cause | events | lost | twice | order | to resume | CPU | memory | remark | test |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

func (s Seen) cells() string {
	order := "kept"
	if !s.Ordered {
		order = "broken"
	}
	return fmt.Sprintf("%d | %d | %d | %s | %s | %s | %.0f MiB | %s", s.Events, s.Lost, s.Twice, order, or(s.Resume), or(s.CPU), s.Memory, or(s.Note))
}

func or(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }
