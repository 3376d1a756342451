package clientgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is the part of an OpenAPI document from which clients are generated. References go to
// the components of the same document only. Members that clients do not need are ignored.
type document struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Parameters    map[string]parameter `json:"parameters"`
		RequestBodies map[string]content   `json:"requestBodies"`
		Responses     map[string]content   `json:"responses"`
		Schemas       map[string]*schema   `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID          string             `json:"operationId"`
	Summary     string             `json:"summary"`
	Parameters  []parameter        `json:"parameters"`
	RequestBody *content           `json:"requestBody"`
	Responses   map[string]content `json:"responses"`
}

type parameter struct {
	Ref      string  `json:"$ref"`
	Name     string  `json:"name"`
	In       string  `json:"in"`
	Required bool    `json:"required"`
	Schema   *schema `json:"schema"`
}

// content is a request body or a response. Content is by media type.
type content struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
	Content  map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

// schema is a schema: a reference, or the other members. Bounds and formats are ignored: the server
// checks them.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"` // a name, or several
	Description string             `json:"description"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Properties  map[string]*schema `json:"properties"`
	Additional  json.RawMessage    `json:"additionalProperties"` // a schema or a bool
	OneOf       []*schema          `json:"oneOf"`
	AnyOf       []*schema          `json:"anyOf"`
	AllOf       []*schema          `json:"allOf"`
}

// parse reads the document in YAML or JSON. It returns an error for a reference to a schema that
// does not exist, so that named schemas can be looked up without a check.
func parse(text []byte) (*document, error) {
	var d document
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	for _, found := range reference.FindAllSubmatch(text, -1) {
		if d.Components.Schemas[string(found[1])] == nil {
			return nil, fmt.Errorf("OpenAPI document: no schema %s", found[1])
		}
	}
	return &d, nil
}

var reference = regexp.MustCompile(`#/components/schemas/(\w+)`)

// named returns the last element of a reference.
func named(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// resolve returns the component that ref names, or it if ref is "".
func resolve[T any](ref string, it T, all map[string]T) T {
	if ref == "" {
		return it
	}
	return all[named(ref)]
}

// flat returns a schema with its references and the parts of allOf merged into it. The description
// is that of the schema; those of the parts are dropped. It does not change s. A cycle of allOf is
// not supported.
func (d *document) flat(s *schema) *schema {
	if s.Ref != "" {
		return d.flat(d.Components.Schemas[named(s.Ref)])
	}
	if len(s.AllOf) == 0 {
		return s
	}
	merged := *s
	merged.AllOf = nil
	merged.Properties = maps.Clone(s.Properties)
	if merged.Properties == nil {
		merged.Properties = map[string]*schema{}
	}
	for _, part := range s.AllOf {
		p := d.flat(part)
		for name, property := range p.Properties {
			if merged.Properties[name] == nil {
				merged.Properties[name] = property
			}
		}
		merged.Required = append(slices.Clone(merged.Required), p.Required...)
		if merged.Type == nil {
			merged.Type = p.Type
		}
		if merged.Additional == nil {
			merged.Additional = p.Additional
		}
	}
	return &merged
}

// only returns the reference of a schema that is nothing but a reference, perhaps in an allOf with
// a description of its own; "" for other schemas.
func (s *schema) only() string {
	if s.Ref != "" {
		return s.Ref
	}
	if len(s.AllOf) == 1 && len(s.Properties) == 0 && len(s.Required) == 0 {
		return s.AllOf[0].Ref
	}
	return ""
}

// additional returns the schema of the unnamed members of an object; nil if it has none or does not
// mention them.
func (s *schema) additional() (*schema, error) {
	switch text := string(s.Additional); text {
	case "", "false":
		return nil, nil //nolint:nilnil // no schema
	case "true":
		return &schema{}, nil
	}
	var of schema
	if err := json.Unmarshal(s.Additional, &of); err != nil {
		return nil, fmt.Errorf("additionalProperties: %w", err)
	}
	return &of, nil
}
