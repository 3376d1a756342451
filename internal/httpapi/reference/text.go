package reference

import (
	"encoding/json"
	"html/template"
	"strings"
)

// escaped returns plain text as HTML.
func escaped(text string) template.HTML {
	return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // it is escaped
}

// code returns text as HTML in the style of code.
func code(text string) template.HTML { return "<code>" + escaped(text) + "</code>" }

// prose returns a description as HTML: paragraphs, and code between backticks. The documents have
// no other markup.
func prose(text string) template.HTML {
	var out template.HTML
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
			out += "<p>" + marked(paragraph) + "</p>"
		}
	}
	return out
}

// marked returns text with code between backticks.
func marked(text string) template.HTML {
	var out template.HTML
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			out += code(part)
		} else {
			out += escaped(part)
		}
	}
	return out
}

// about returns the description of a value, with its default, its values and its limits.
func about(text string, s *schema) template.HTML {
	out := marked(strings.TrimSpace(text))
	if s == nil {
		return out
	}
	add := func(name string, values ...any) {
		if out != "" {
			out += " "
		}
		out += escaped(name)
		for i, value := range values {
			if i > 0 {
				out += ","
			}
			out += " " + code(plain(value))
		}
		out += "."
	}
	if len(s.Enum) > 0 {
		add("One of", s.Enum...)
	}
	if s.Default != nil {
		add("Default", s.Default)
	}
	if s.Minimum != nil {
		add("At least", s.Minimum)
	}
	if s.Maximum != nil {
		add("At most", s.Maximum)
	}
	if len(s.Examples) > 0 {
		add("Such as", s.Examples...)
	}
	return out
}

// plain returns a value as a person writes it: strings without quotes.
func plain(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	data, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(data)
}

// typeText returns the type of a schema, with links to those that have a name.
func (d *document) typeText(s *schema) template.HTML {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		name := named(s.Ref)
		return `<a href="#schema-` + escaped(name) + `">` + escaped(name) + "</a>"
	case s.Const != nil:
		return code(plain(s.Const))
	case len(s.OneOf) > 0:
		return d.joined(s.OneOf, " or ")
	case len(s.AnyOf) > 0:
		return d.joined(s.AnyOf, " or ")
	case len(s.AllOf) > 0:
		return d.joined(s.AllOf, " and ")
	}
	switch name := typeOf(s); name {
	case "array":
		return "array of " + d.typeText(s.Items)
	case "object":
		var values schema
		if json.Unmarshal(s.Additional, &values) == nil && (values.Type != nil || values.Ref != "") {
			return "object of " + d.typeText(&values)
		}
		return "object"
	case "":
		return "any"
	default:
		return escaped(name)
	}
}

// joined returns the types of several schemas with a word between them.
func (d *document) joined(all []*schema, by template.HTML) template.HTML {
	var out template.HTML
	for i, one := range all {
		if i > 0 {
			out += by
		}
		out += d.typeText(one)
	}
	return out
}
