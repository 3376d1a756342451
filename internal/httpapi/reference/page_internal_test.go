package reference

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/clientgen"
)

func theDocument(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../openapi.yaml")
	require.NoError(t, err)
	return text
}

func thePage(t *testing.T) string {
	t.Helper()
	html, err := Page(theDocument(t), "v1.2.3")
	require.NoError(t, err)
	return string(html)
}

func TestPage_ShowsEveryOperationAndSchema(t *testing.T) {
	t.Parallel()
	html := thePage(t)
	d, err := parse(theDocument(t))
	require.NoError(t, err)
	for path, item := range d.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o operation
			require.NoError(t, json.Unmarshal(raw, &o))
			start := strings.Index(html, `<article id="`+o.ID+`">`)
			require.Positive(t, start, o.ID)
			article, _, _ := strings.Cut(html[start:], "</article>")
			require.Contains(t, article, "<code>"+path+"</code>")
			require.Contains(t, article, "<pre><code>curl", o.ID)
			require.Equal(t, clientgen.HasOperation(o.ID), strings.Contains(article, "sluice."+o.ID+"("), o.ID)
			require.Equal(t, clientgen.HasOperation(o.ID), strings.Contains(article, "sluice."+clientgen.PythonName(o.ID)+"("), o.ID)
			for status := range o.Responses {
				require.Contains(t, article, "<code>"+status+"</code>", o.ID)
			}
			for _, p := range append(sharedBy(t, item), o.Parameters...) {
				require.NotEmpty(t, d.parameter(p).Name, o.ID)
				require.Contains(t, article, "<code>"+d.parameter(p).Name+"</code>", o.ID)
			}
		}
	}
	for name := range d.Components.Schemas {
		require.Contains(t, html, `<article id="schema-`+name+`">`)
	}
	require.Contains(t, html, "v1.2.3")
}

// sharedBy returns the parameters of all operations of a path.
func sharedBy(t *testing.T, item map[string]json.RawMessage) (shared []parameter) {
	t.Helper()
	if text := item["parameters"]; text != nil {
		require.NoError(t, json.Unmarshal(text, &shared))
	}
	return shared
}

// The page works under a policy without scripts, inline styles and other hosts, and its links lead somewhere.
func TestPage_NeedsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	html := thePage(t)
	root, err := Root("Sluice", "<b>", "v1")
	require.NoError(t, err)
	require.Contains(t, string(root), "&lt;b&gt;")
	for _, text := range []string{html, string(root)} {
		require.NotRegexp(t, `<script|<style|<img|<iframe| style=| on\w+="|(src|href)="(https?:)?//`, text)
	}
	require.NotRegexp(t, `url\(|@import`, string(Style()))
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		require.False(t, ids[id[1]], id[1])
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(html, -1) {
		require.True(t, ids[link[1]], link[1])
	}
}

func TestPage_ExamplesOfBodiesAreValid(t *testing.T) {
	t.Parallel()
	text, err := JSON(theDocument(t))
	require.NoError(t, err)
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///openapi.json", whole))
	d, err := parse(theDocument(t))
	require.NoError(t, err)
	seen := 0
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, raw := range d.Paths[path] {
			var o operation
			if method == "parameters" || json.Unmarshal(raw, &o) != nil || o.RequestBody == nil {
				continue
			}
			base := "mem:///openapi.json#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + "/requestBody"
			if ref := o.RequestBody.Ref; ref != "" {
				base = "mem:///openapi.json" + ref
			}
			seen += d.checkExamples(t, o, compiler, base)
		}
	}
	require.Greater(t, seen, 30)
}

// checkExamples validates the examples of an operation's bodies, and returns their number.
func (d *document) checkExamples(t *testing.T, o operation, compiler *jsonschema.Compiler, base string) (seen int) {
	t.Helper()
	for kind, m := range d.body(o.RequestBody).Content {
		if !strings.HasSuffix(kind, "json") || m.Schema == nil {
			continue
		}
		s, err := compiler.Compile(base + "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema")
		require.NoError(t, err, o.ID)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(d.exampleOf(m)))
		require.NoError(t, err, o.ID)
		require.NoError(t, s.Validate(value), "%s: %s", o.ID, d.exampleOf(m))
		seen++
	}
	return seen
}

func TestExample_IsTheOneOfTheSchema(t *testing.T) {
	t.Parallel()
	text := []byte(`{"components":{"schemas":{"Named":{"type":"string","enum":["a","b"]}}}}`)
	d, err := parse(text)
	require.NoError(t, err)
	for schemaText, want := range map[string]string{
		`{"type":"object","required":["b"],"properties":{"a":{"type":"string"},"b":{"$ref":"#/components/schemas/Named"},"c":{"examples":["x"]}}}`: `{"b":"a","c":"x"}`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":7},"b":{"type":["null","boolean"]}}}`:                                      `{"a":7,"b":true}`,
		`{"type":"array","items":{"oneOf":[{"const":5},{"const":6}]}}`:                                                                             `[5]`,
		`{"type":"string","default":"d"}`: `"d"`,
		`{"type":"null"}`:                 `null`,
		`{}`:                              `{}`,
	} {
		var s schema
		require.NoError(t, json.Unmarshal([]byte(schemaText), &s))
		got, err := json.Marshal(d.example(&s, 0))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestCalls_AreWrittenInBothLanguages(t *testing.T) {
	t.Parallel()
	d, err := parse([]byte(`{components: {schemas: {}}}`))
	require.NoError(t, err)
	s := shownOperation{ID: "listThings", BodyExample: `{"on": true, "of": "true \"null\"", "none": null}`}
	d.fillCalls(&s, []parameter{
		{Name: "from", In: "query", Required: true, Schema: &schema{Type: "integer", Examples: []any{7}}},
		{Name: "id", In: "path", Schema: &schema{Type: "string"}},
		{Name: "If-Match", In: "header"},
	}, response{})
	require.Equal(t, `await sluice.listThings({ from: 7, id: "ID", body: {"on": true, "of": "true \"null\"", "none": null} })`, s.TypeScript)
	require.Equal(t, `sluice.list_things(from_=7, id="ID", body={"on": True, "of": "true \"null\"", "none": None})`, s.Python)
	d.fillCalls(&s, nil, response{Content: map[string]media{"text/event-stream": {}}})
	require.Contains(t, s.Python, "for place, data in sluice.list_things(")
}
