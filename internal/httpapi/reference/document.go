package reference

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is the part of an OpenAPI document that the page shows. inGo is set by parse. A document
// is read only after that.
type document struct {
	Info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Summary     string `json:"summary"`
		Description string `json:"description"`
	} `json:"info"`
	Tags       []tag                                 `json:"tags"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Parameters    map[string]parameter `json:"parameters"`
		RequestBodies map[string]body      `json:"requestBodies"`
		Responses     map[string]response  `json:"responses"`
		Schemas       map[string]*schema   `json:"schemas"`
	} `json:"components"`

	inGo map[string]string // examples, by operation
}

type tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// operation is an operation. The page shows it under its first tag.
type operation struct {
	ID          string              `json:"operationId"`
	Tags        []string            `json:"tags"`
	Summary     string              `json:"summary"`
	Description string              `json:"description"`
	Parameters  []parameter         `json:"parameters"`
	RequestBody *body               `json:"requestBody"`
	Responses   map[string]response `json:"responses"`
	Security    *[]map[string][]any `json:"security"` // nil: the token of the API; empty: none
}

type parameter struct {
	Ref         string  `json:"$ref"`
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required"`
	Description string  `json:"description"`
	Schema      *schema `json:"schema"`
}

type body struct {
	Ref         string           `json:"$ref"`
	Description string           `json:"description"`
	Required    bool             `json:"required"`
	Content     map[string]media `json:"content"`
}

type response struct {
	Ref         string           `json:"$ref"`
	Description string           `json:"description"`
	Content     map[string]media `json:"content"`
}

type media struct {
	Schema  *schema         `json:"schema"`
	Example json.RawMessage `json:"example"`
}

// schema is a schema without the members that the page does not show.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"` // a name, or several
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Default     any                `json:"default"`
	Examples    []any              `json:"examples"`
	Minimum     any                `json:"minimum"`
	Maximum     any                `json:"maximum"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Properties  map[string]*schema `json:"properties"`
	Additional  json.RawMessage    `json:"additionalProperties"` // a schema or a bool
	OneOf       []*schema          `json:"oneOf"`
	AnyOf       []*schema          `json:"anyOf"`
	AllOf       []*schema          `json:"allOf"`
}

// JSON returns an OpenAPI document in JSON. The order of members is not kept.
func JSON(text []byte) ([]byte, error) {
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	return data, nil
}

// parse reads a document in YAML or JSON. References are not checked: a missing one is shown as
// empty.
func parse(text []byte) (*document, error) {
	var d document
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	d.inGo = goCalls()
	return &d, nil
}

// named returns the name at the end of a reference such as #/components/schemas/Event.
func named(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// parameter returns the parameter that p refers to, or p. response and body do the same for theirs.
func (d *document) parameter(p parameter) parameter {
	if p.Ref != "" {
		return d.Components.Parameters[named(p.Ref)]
	}
	return p
}

func (d *document) response(r response) response {
	if r.Ref != "" {
		return d.Components.Responses[named(r.Ref)]
	}
	return r
}

func (d *document) body(b *body) *body {
	if b == nil || b.Ref == "" {
		return b
	}
	there := d.Components.RequestBodies[named(b.Ref)]
	return &there
}

// schema returns the schema that another one refers to, or itself. Nil for nil, and for a reference
// to a schema that does not exist. A cycle of references alone would not end.
func (d *document) schema(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[named(s.Ref)]
	}
	return s
}
