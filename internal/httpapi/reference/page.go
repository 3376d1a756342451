// Package reference renders an OpenAPI document as one HTML page, without scripts and without
// resources of other hosts.
package reference

import (
	"bytes"
	"cmp"
	_ "embed" // for the page and its stylesheet
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed root.html
var rootText string

//go:embed style.css
var style []byte

// Style returns the stylesheet, which the pages expect at /docs/style.css.
func Style() []byte { return style }

// Root returns the page at / for browsers, which names the product and links to the other pages.
func Root(title, summary, version string) ([]byte, error) {
	return render(rootText, map[string]string{"Title": title, "Summary": summary, "Version": version})
}

// Page returns the page of an OpenAPI document. Operations are grouped by their first tag, in the
// order of the document's tags; one without a listed tag is not shown. The same document and
// version give the same page.
func Page(text []byte, version string) ([]byte, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	p := page{Title: d.Info.Title, Summary: d.Info.Summary, Version: version, Description: prose(d.Info.Description)}
	groups := map[string][]shownOperation{}
	for path, item := range d.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			one, err := d.operation(method, path, raw, item["parameters"])
			if err != nil {
				return nil, err
			}
			groups[one.tag] = append(groups[one.tag], one)
		}
	}
	for _, t := range d.Tags {
		operations := groups[t.Name]
		slices.SortFunc(operations, func(a, b shownOperation) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(rank(a.Method), rank(b.Method)))
		})
		p.Groups = append(p.Groups, group{t.Name, "tag-" + strings.ReplaceAll(t.Name, " ", "-"), t.Description, operations})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		p.Schemas = append(p.Schemas, d.shown(name, d.Components.Schemas[name]))
	}
	return render(pageText, p)
}

// rank returns the place of a method among those of one path.
func rank(method string) int {
	return slices.Index([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}, method)
}

// render executes a template of html/template. Only values of type template.HTML are not escaped,
// which text.go makes from escaped text.
func render(text string, data any) ([]byte, error) {
	t, err := template.New("page").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return out.Bytes(), nil
}

type page struct {
	Title, Summary, Version string
	Description             template.HTML
	Groups                  []group
	Schemas                 []shownSchema
}

type group struct {
	Name, Anchor, Description string
	Operations                []shownOperation
}

type shownOperation struct {
	tag                  string
	Method, Path, ID     string
	Summary, Access      string
	Description          template.HTML
	Parameters, Body     []row
	BodyType, BodyAbout  template.HTML
	BodyExample, Request string
	TypeScript, Python   string // empty: the clients do not have the operation
	Go                   string // likewise
	Responses            []row
	ResponseExample      string
}

// row is a parameter, a field or a response.
type row struct {
	Name, In string
	Required bool
	Type     template.HTML
	About    template.HTML
}

type shownSchema struct {
	Name   string
	Type   template.HTML
	About  template.HTML
	Fields []row
}

// operation converts an operation of a path to the form in which the page shows it.
func (d *document) operation(method, path string, raw, shared json.RawMessage) (shownOperation, error) {
	var o operation
	var common []parameter
	if err := json.Unmarshal(raw, &o); err != nil {
		return shownOperation{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if shared != nil {
		if err := json.Unmarshal(shared, &common); err != nil {
			return shownOperation{}, fmt.Errorf("parameters of %s: %w", path, err)
		}
	}
	s := shownOperation{Method: strings.ToUpper(method), Path: path, ID: o.ID, Summary: o.Summary, Description: prose(o.Description), Access: access(o.Security)}
	if len(o.Tags) > 0 {
		s.tag = o.Tags[0]
	}
	all := append(common, o.Parameters...)
	for i := range all {
		all[i] = d.parameter(all[i])
		p := all[i]
		s.Parameters = append(s.Parameters, row{p.Name, p.In, p.Required, d.typeText(p.Schema), about(p.Description, d.schema(p.Schema))})
	}
	d.fillBody(&s, d.body(o.RequestBody))
	s.Request = d.curl(&s, all)
	d.fillCalls(&s, all, d.response(o.Responses["200"]))
	s.Go = d.inGo[o.ID]
	d.fillResponses(&s, o.Responses)
	return s, nil
}

// access names the credentials of an operation.
func access(security *[]map[string][]any) string {
	switch {
	case security == nil:
		return "Token: Authorization: Bearer <token>"
	case len(*security) == 0:
		return "No token"
	}
	var kinds []string
	for _, one := range *security {
		kinds = append(kinds, slices.Sorted(maps.Keys(one))...)
	}
	return "Token: " + strings.Join(kinds, " or ")
}

// fillBody adds the body. The first media type gives the fields, the first of JSON the example.
func (d *document) fillBody(s *shownOperation, b *body) {
	if b == nil {
		return
	}
	s.BodyAbout = prose(b.Description)
	for i, name := range slices.Sorted(maps.Keys(b.Content)) {
		m := b.Content[name]
		if i > 0 {
			s.BodyType += ", "
		}
		s.BodyType += code(name) + " " + d.typeText(m.Schema)
		if s.Body == nil {
			s.Body = d.inline(m.Schema)
		}
		if strings.HasSuffix(name, "json") && s.BodyExample == "" {
			s.BodyExample = d.exampleOf(m)
		}
	}
}

// fillResponses adds the responses by status. The first success in JSON gives the example.
func (d *document) fillResponses(s *shownOperation, responses map[string]response) {
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		r := d.response(responses[status])
		var kinds template.HTML
		for i, name := range slices.Sorted(maps.Keys(r.Content)) {
			if i > 0 {
				kinds += ", "
			}
			kinds += code(name) + " " + d.typeText(r.Content[name].Schema)
			if strings.HasPrefix(status, "2") && strings.HasSuffix(name, "json") && s.ResponseExample == "" {
				s.ResponseExample = d.exampleOf(r.Content[name])
			}
		}
		s.Responses = append(s.Responses, row{Name: status, Type: kinds, About: prose(r.Description)})
	}
}

// exampleOf returns the example of a body, indented.
func (d *document) exampleOf(m media) string {
	text := []byte(m.Example)
	if len(text) == 0 {
		var err error
		if text, err = json.Marshal(d.example(m.Schema, 0)); err != nil {
			return ""
		}
	}
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return ""
	}
	return out.String()
}

// curl returns the command of a request. It names the server and the token by variables of the
// shell.
func (d *document) curl(s *shownOperation, parameters []parameter) string {
	path := s.Path
	for _, p := range parameters {
		if p.In != "path" {
			continue
		}
		value, ok := d.example(p.Schema, 0).(string)
		if !ok || value == "…" {
			value = strings.ToUpper(p.Name)
		}
		path = strings.ReplaceAll(path, "{"+p.Name+"}", value)
	}
	command := "curl"
	if s.Method != http.MethodGet {
		command += " -X " + s.Method
	}
	command += ` "$SLUICE_URL` + strings.ReplaceAll(path, "{path}", "orders/42") + `"`
	if s.Access != "No token" {
		command += ` -H "Authorization: Bearer $SLUICE_TOKEN"`
	}
	if s.BodyExample != "" {
		command += " \\\n  -H 'Content-Type: application/json' -d '" + strings.ReplaceAll(s.BodyExample, "'", `'\''`) + "'"
	}
	return command
}

// shown converts a schema to the form in which the page shows it.
func (d *document) shown(name string, s *schema) shownSchema {
	return shownSchema{Name: name, Type: d.typeText(s), About: about(s.Description, s), Fields: d.fields(s)}
}

// inline returns the fields of a schema that has no name of its own.
func (d *document) inline(s *schema) []row {
	if s == nil || s.Ref != "" {
		return nil
	}
	return d.fields(s)
}

func (d *document) fields(s *schema) []row {
	var rows []row
	for _, name := range ordered(s) {
		one := s.Properties[name]
		rows = append(rows, row{Name: name, Required: slices.Contains(s.Required, name), Type: d.typeText(one), About: about(one.Description, one)})
	}
	return rows
}
