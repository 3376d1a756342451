package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

const (
	chartWidth, chartLeft, chartRight = 760, 300, 130 // pixels
	barHeight, barGap, chartTop       = 18, 8, 30

	chartStyle = `<style>
text { fill: #1f2328; font: 13px system-ui, sans-serif }
.name { text-anchor: end }
.bar { fill: #0969da }
.base { fill: #8c959f }
path { stroke: #1f2328; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.bar { fill: #4493f8 }
.base { fill: #6e7681 }
path { stroke: #e6edf3 }
}
</style>
`
)

// chart draws a column as an SVG: a bar for each row's median, with its spread. Rows without a
// value above 0 are left out. The column of the plot must exist.
func (r result) chart() string {
	column := slices.IndexFunc(r.Columns, func(c figure) bool { return c.Name == r.Plot })
	isBase, most := map[string]bool{}, 0.0
	var rows []series
	for _, row := range r.Rows {
		isBase[row.Base] = true
		if highest := slices.Max(row.values(column, nil)); highest > 0 {
			most, rows = max(most, highest), append(rows, row)
		}
	}
	x := func(value float64) int {
		return chartLeft + int(value/max(most, 1e-9)*(chartWidth-chartLeft-chartRight))
	}
	var out strings.Builder
	height := chartTop + len(rows)*(barHeight+barGap)
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n%s",
		chartWidth, height, chartWidth, height, chartStyle)
	fmt.Fprintf(&out, "<title>%s: %s</title>\n<text x=\"%d\" y=\"16\">%s</text>\n", html.EscapeString(r.Title), html.EscapeString(r.Plot), chartLeft, html.EscapeString(r.Plot))
	for i, row := range rows {
		values, class, top := row.values(column, nil), "bar", chartTop+i*(barHeight+barGap)
		if isBase[row.Name] {
			class = "base"
		}
		text, end := top+barHeight-5, x(slices.Max(values))
		fmt.Fprintf(&out, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", chartLeft-8, text, html.EscapeString(row.Name))
		fmt.Fprintf(&out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", class, chartLeft, top, x(median(slices.Clone(values)))-chartLeft, barHeight)
		fmt.Fprintf(&out, "<path d=\"M%d %dH%d\"/>\n", x(slices.Min(values)), top+barHeight/2, end)
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%d\">%s</text>\n", end+8, text, number(median(slices.Clone(values))))
	}
	return out.String() + "</svg>\n"
}
