package reference

import (
	"encoding/json"
	"maps"
	"slices"
)

const maxDepth = 6 // levels of an example

// fields are the members of an example, in order. A map would lose the order, in which required
// fields come first.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (f fields) MarshalJSON() ([]byte, error) {
	text := []byte("{")
	for i, one := range f {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

// example returns a value of a schema: an example or default in the schema, or else a value of its
// type. An object has its required fields and those with examples; a whole body without such fields
// has all fields. Below maxDepth levels it is an empty object, which ends recursive schemas.
func (d *document) example(s *schema, depth int) any {
	if s != nil && len(s.Examples) > 0 { // beside a reference, too
		return s.Examples[0]
	}
	if s != nil && s.Default != nil {
		return s.Default
	}
	s = d.schema(s)
	switch {
	case s == nil || depth > maxDepth:
		return map[string]any{}
	case s.Const != nil:
		return s.Const
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return d.example(s.OneOf[0], depth)
	case len(s.AnyOf) > 0:
		return d.example(s.AnyOf[0], depth)
	case len(s.AllOf) > 0 && len(s.Properties) == 0:
		return d.example(s.AllOf[0], depth)
	}
	switch typeOf(s) {
	case "array":
		return []any{d.example(s.Items, depth+1)}
	case "integer", "number":
		if s.Minimum != nil {
			return s.Minimum
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	case "object":
		return d.object(s, depth)
	case "string":
		return text(s.Format)
	}
	if len(s.Properties) > 0 {
		return d.object(s, depth)
	}
	return map[string]any{}
}

// text returns an example of a string.
func text(format string) string {
	switch format {
	case "date-time":
		return "2026-01-02T15:04:05Z"
	case "uri":
		return "https://example.com/hook"
	case "uuid":
		return "01890a5d-ac96-774b-bcce-b302099a8057"
	}
	return "…"
}

// object returns an example of an object; depth 0 is a whole body.
func (d *document) object(s *schema, depth int) fields {
	chosen := fields{}
	names := ordered(s)
	for _, name := range names {
		if slices.Contains(s.Required, name) || len(s.Properties[name].Examples) > 0 {
			chosen = append(chosen, field{name, d.example(s.Properties[name], depth+1)})
		}
	}
	if len(chosen) > 0 || depth > 0 {
		return chosen
	}
	for _, name := range names {
		chosen = append(chosen, field{name, d.example(s.Properties[name], depth+1)})
	}
	return chosen
}

// ordered returns the names of a schema's fields: the required ones as the document orders them, then the others.
func ordered(s *schema) []string {
	var names []string
	for _, name := range s.Required {
		if s.Properties[name] != nil {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// typeOf returns a schema's type, the first one other than null if it has several.
func typeOf(s *schema) string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	return ""
}
