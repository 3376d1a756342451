package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is the results of one run of a kind of rows, as it is stored. A file has it as one line of
// JSON; files can be concatenated.
type report struct {
	Row     string    `json:"row"` // name of the kind
	Machine machine   `json:"machine"`
	Commit  string    `json:"commit"` // of the measured binary
	Began   time.Time `json:"began"`
	Load    [2]string `json:"load"` // at the beginning and at the end, over a minute
	Results []result  `json:"results"`
}

// machine describes the computer and the measured binary.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	System string `json:"system"`
	Go     string `json:"go"`
	NATS   string `json:"nats_server"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, %s, nats-server %s", m.Cores, m.CPU, m.System, m.Go, m.NATS)
}

// begin describes a run of a kind of rows that begins now.
func (e env) begin(row string) report {
	r := report{Row: row, Commit: e.commit, Began: time.Now().UTC().Truncate(time.Second), Load: [2]string{loadAverage(), ""}, Machine: machine{
		Cores: runtime.NumCPU(), CPU: "unknown", System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), NATS: "unknown",
	}}
	text, _ := os.ReadFile("/proc/cpuinfo") // the model stays unknown
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			r.Machine.CPU = strings.TrimSpace(value)
		}
	}
	info, err := buildinfo.ReadFile(e.binary)
	if err != nil {
		return r // its start says why
	}
	r.Machine.Go = info.GoVersion
	for _, dep := range info.Deps {
		if dep.Path == "github.com/nats-io/nats-server/v2" {
			r.Machine.NATS = dep.Version
		}
	}
	return r
}

// loadAverage returns the machine's load over a minute; "" if unknown.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// save writes the report into a directory, as <row>.json.
func (r report) save(dir string) error {
	r.Load[1] = loadAverage()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, r.Row+".json"), append(text, '\n'), 0o600))
}

// loadReports reads reports from files, each of which has one or several. They are of one machine,
// and the order is that of the rows of a run. It returns an error if there are none, or if they are
// of different machines.
func loadReports(files []string) (all []report, err error) {
	for _, name := range files {
		file, err := os.Open(name) //nolint:gosec // an argument
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(file); decoder.More() && err == nil; {
			var r report
			err = decoder.Decode(&r)
			all = append(all, r)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there are no results: run make bench")
	}
	for _, r := range all[1:] {
		if r.Machine != all[0].Machine {
			return nil, fmt.Errorf("results of different machines: %s; %s", all[0].Machine, r.Machine)
		}
	}
	order := complete().kinds()
	place := func(r report) int { return slices.IndexFunc(order, func(k kind) bool { return k.name == r.Row }) }
	slices.SortStableFunc(all, func(a, b report) int { return place(a) - place(b) })
	return all, nil
}

// merged returns the results of several runs of one kind of rows: their rounds together. All must
// have been measured in the same way (see likewise). runs has at least one, and does not change.
func merged(runs []report) ([]result, error) {
	var all []result
	text, err := json.Marshal(runs[0].Results)
	if err == nil {
		err = json.Unmarshal(text, &all) // a copy, to which rounds are added
	}
	for _, r := range runs[1:] {
		if !slices.EqualFunc(all, r.Results, result.likewise) {
			return nil, fmt.Errorf("%s: the run of %s measured something else than the one before", r.Row, r.Began)
		}
		for i, more := range r.Results {
			for row := range all[i].Rows {
				all[i].Rows[row].Rounds = append(all[i].Rows[row].Rounds, more.Rows[row].Rounds...)
			}
		}
	}
	return all, err
}

// likewise reports whether both were measured in the same way.
func (r result) likewise(other result) bool {
	plain := func(r result) result {
		r.Rows = slices.Clone(r.Rows)
		for i := range r.Rows {
			r.Rows[i].Rounds = nil
		}
		return r
	}
	return reflect.DeepEqual(plain(r), plain(other))
}

const pageHead = `# Performance

` + "`make bench`" + ` measures each table below, and ` + "`make performance`" + ` writes this page from its results, [results.ndjson](performance/results.ndjson).
All processes are on one machine, with the publishers and the receivers: %s.
Events have 260 bytes and policies are the defaults unless a table says otherwise.

A figure is the median of the rounds, with their minimum and maximum in brackets.
A ratio compares a row with its baseline, round by round; of these ratios, too, the median and the spread are shown.
In plots, grey bars are baselines, and lines show the spread.
The load is the machine's average over a minute, the measurement included.
[Operations](operations.md) says which of these costs concern an operator.
`

// page returns the files of the page of performance, by their names: the page, its plots, and the
// reports that it shows. It does no I/O. The same reports give the same files.
func page(all []report) (map[string]string, error) {
	var text, stored strings.Builder
	fmt.Fprintf(&text, pageHead, all[0].Machine)
	files := map[string]string{}
	for from := 0; from < len(all); {
		to := from
		var notes []string
		for ; to < len(all) && all[to].Row == all[from].Row; to++ {
			r := all[to]
			notes = append(notes, fmt.Sprintf("%s, commit %s, load %s to %s", r.Began.Format("2006-01-02 15:04 UTC"), r.Commit, r.Load[0], r.Load[1]))
			line, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			stored.Write(append(line, '\n'))
		}
		results, err := merged(all[from:to])
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			r.markdown(&text, all[from].Row, strings.Join(notes, "; "))
			if r.Plot != "" {
				name := "performance/" + r.Name + ".svg"
				files[name] = r.chart()
				fmt.Fprintf(&text, "\n![%s: %s](%s)\n", r.Title, r.Plot, name)
			}
		}
		from = to
	}
	files["performance.md"], files["performance/results.ndjson"] = text.String(), stored.String()
	return files, nil
}

// markdown writes the table as a section of the page.
func (r result) markdown(w *strings.Builder, row, note string) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n`make bench ROWS=%s`: %s; rounds: %d.\n\n", r.Title, strings.ReplaceAll(r.About, ". ", ".\n"), row, note, len(r.Rows[0].Rounds))
	for i, line := range r.cells() {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			w.WriteString("| --- " + strings.Repeat("| --: ", len(line)-1) + "|\n")
		}
	}
}

// writePage writes the files of the page into a directory. It replaces the directory of plots.
// After an error, the directory may have files of both pages.
func writePage(dir string, files []string) error {
	all, err := loadReports(files)
	if err != nil {
		return err
	}
	pages, err := page(all)
	if err != nil {
		return err
	}
	plots := filepath.Join(dir, "performance")
	err = errors.Join(os.RemoveAll(plots), os.MkdirAll(plots, 0o750)) // plots of tables that are gone
	for name, text := range pages {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return err
}
