package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// table describes a kind of measurement: its rows, which are measured in turn, and their figures.
// Each round measures all subjects in order, so that a change of the machine's load affects a row
// and its base alike.
type table[R any] struct {
	name, title string
	about       string // the measurement, in plain sentences
	plot        string // the column that is drawn
	columns     []column[R]
	rounds      int
	subjects    []subject[R]
}

// head names a row.
type head struct {
	Name string `json:"name"`
	Base string `json:"base,omitempty"` // name of the row that it is compared with
	Aim  string `json:"aim,omitempty"`
}

// subject is measured as a whole, and has one row or several. run returns a sample for each row, in
// their order.
type subject[R any] struct {
	rows []head
	run  func(ctx context.Context, e env) ([]R, error)
}

// clean measures with data of its own, and removes that. An error of the removal is an error of the
// measurement.
func (s subject[R]) clean(ctx context.Context, e env) ([]R, error) {
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return nil, err
	}
	e.dir = dir
	got, err := s.run(ctx, e)
	return got, errors.Join(err, os.RemoveAll(dir))
}

// one is a subject with one row.
func one[R any](row head, run func(ctx context.Context, e env) (R, error)) subject[R] {
	return subject[R]{[]head{row}, func(ctx context.Context, e env) ([]R, error) {
		r, err := run(ctx, e)
		return []R{r}, err
	}}
}

// column is a figure of every row.
type column[R any] struct {
	figure

	of func(R) float64
}

// figure describes a column. A figure that is compared has a ratio to the row's base; if it is 0, it
// is not a subject of its row.
type figure struct {
	Name     string `json:"name"` // with its unit
	Compared bool   `json:"compared"`
}

func compared[R any](name string, of func(R) float64) column[R] {
	return column[R]{figure{name, true}, of}
}

func counted[R any](name string, of func(R) int) column[R] {
	return column[R]{figure{name, false}, func(r R) float64 { return float64(of(r)) }}
}

func inMillis[R any](name string, of func(R) time.Duration) column[R] {
	return compared(name+" ms", func(r R) float64 { return ms(of(r)) })
}

func inMiB[R any](name string, of func(R) int64) column[R] {
	return compared(name+" MiB", func(r R) float64 { return float64(of(r)) / (1 << 20) })
}

// measure returns the samples of each row, one for each round. The first error ends it, without
// results.
func (t table[R]) measure(ctx context.Context, e env) (samples [][]R, err error) {
	for round := range t.rounds {
		at := 0
		for _, s := range t.subjects {
			name := s.rows[0].Name
			e.progress("%s, round %d of %d: %s\n", t.name, round+1, t.rounds, name)
			got, err := s.clean(ctx, e)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.name, name, err)
			}
			for i, r := range got {
				if round == 0 {
					samples = append(samples, nil)
				}
				samples[at+i] = append(samples[at+i], r)
			}
			at += len(got)
		}
	}
	return samples, nil
}

// run measures the table.
func (t table[R]) run(ctx context.Context, e env) (result, error) {
	samples, err := t.measure(ctx, e)
	if err != nil {
		return result{}, err
	}
	return t.result(samples), nil
}

// result returns the figures of the samples, rounded to five digits.
func (t table[R]) result(samples [][]R) result {
	all := result{Name: t.name, Title: t.title, About: t.about, Plot: t.plot}
	for _, c := range t.columns {
		all.Columns = append(all.Columns, c.figure)
	}
	for _, s := range t.subjects {
		for _, h := range s.rows {
			row := series{head: h}
			for _, sample := range samples[len(all.Rows)] {
				var values []float64
				for _, c := range t.columns {
					values = append(values, rounded(c.of(sample)))
				}
				row.Rounds = append(row.Rounds, values)
			}
			all.Rows = append(all.Rows, row)
		}
	}
	return all
}

// rounded returns a value with five digits; what is not a number is 0.
func rounded(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 5, 64), 64) // it is a number
	return short
}

// section is a table of any kind of rows.
type section interface {
	run(ctx context.Context, e env) (result, error)
}

// result is a measured table. All rows have the same number of rounds, and all rounds a value for
// each column.
type result struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	About   string   `json:"about"`
	Plot    string   `json:"plot,omitempty"`
	Columns []figure `json:"columns"`
	Rows    []series `json:"rows"`
}

// series is the figures of a row, by round and column.
type series struct {
	head

	Rounds [][]float64 `json:"rounds"`
}

// values returns a column of a row, or the ratios of that to another row's, round by round. A round
// in which the base is 0 has no ratio.
func (s series) values(column int, base *series) (all []float64) {
	for i, round := range s.Rounds {
		switch {
		case base == nil:
			all = append(all, round[column])
		case base.Rounds[i][column] != 0:
			all = append(all, round[column]/base.Rounds[i][column])
		}
	}
	return all
}

// base returns the row with which another one is compared; nil: with none.
func (r result) base(of series) *series {
	at := slices.IndexFunc(r.Rows, func(s series) bool { return s.Name == of.Base })
	if of.Base == "" || at < 0 {
		return nil
	}
	return &r.Rows[at]
}

// tall is the number of columns above which a table is turned.
const tall = 9

// cells returns the table's lines, the first of which is the heading.
func (r result) cells() [][]string {
	heading := []string{""}
	for _, c := range r.Columns {
		heading = append(heading, c.Name)
	}
	lines, aims := [][]string{heading}, slices.ContainsFunc(r.Rows, func(s series) bool { return s.Aim != "" })
	for _, row := range r.Rows {
		base := r.base(row)
		line, ratios := r.line(row, base)
		if aims {
			line, ratios = append(line, row.Aim), append(ratios, "")
		}
		lines = append(lines, line)
		if base != nil {
			lines = append(lines, ratios)
		}
	}
	if aims {
		lines[0] = append(lines[0], "aim")
	}
	if len(r.Columns) > tall {
		return turned(lines)
	}
	return lines
}

// line returns the cells of a row, and of its ratios to its base.
func (r result) line(row series, base *series) (line, ratios []string) {
	line, ratios = []string{row.Name}, []string{"ratio"}
	for i, c := range r.Columns {
		values, ratio := row.values(i, nil), ""
		if c.Compared && !slices.ContainsFunc(values, func(v float64) bool { return v != 0 }) {
			values = nil
		}
		if c.Compared && base != nil && values != nil {
			ratio = spread(row.values(i, base))
		}
		line, ratios = append(line, spread(values)), append(ratios, ratio)
	}
	return line, ratios
}

// turned returns the lines as columns. No line is longer than the first.
func turned(lines [][]string) [][]string {
	columns := make([][]string, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			columns[i] = append(columns[i], cell)
		}
	}
	return columns
}

// spread writes the median of values, and of several their minimum and maximum; "": there are none.
func spread(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	middle, least, most := number(median(slices.Clone(values))), number(slices.Min(values)), number(slices.Max(values))
	if least == most {
		return middle
	}
	return middle + " (" + least + "–" + most + ")"
}

// number writes a value with about three digits; a whole one with all.
func number(value float64) string {
	size := math.Abs(value)
	switch {
	case value == math.Trunc(value) || size >= 100:
		return thousands(strconv.FormatFloat(value, 'f', 0, 64))
	case size >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
	return strconv.FormatFloat(value, 'f', 3, 64)
}

// thousands puts commas between groups of three digits.
func thousands(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// print writes the table as text.
func (r result) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "\n%s: %s\n\n", r.Title, r.About); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range r.cells() {
		if _, err := fmt.Fprintln(out, strings.Join(line, "\t")+"\t"); err != nil {
			return err
		}
	}
	return out.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
