package httpkit

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// FilterParams returns the names of the filter parameters.
func FilterParams() []string {
	return []string{"types", "sources", "subjects", "labels", "cel", "filter", "target"}
}

// Filter returns the filter of a request: one parameter per dimension, or the JSON of a
// subscription's filter, or both if no dimension is set twice. Codes InvalidRequest; UnknownFilter
// (register C19).
func Filter(c echo.Context) (sluice.Filter, error) {
	query := c.QueryParams()
	f, err := flatFilter(query, c.Param("ns"))
	if text := query.Get("filter"); err == nil && text != "" {
		f, err = withNested(f, text)
	}
	if err != nil {
		return f, err
	}
	return f, f.Check()
}

// flatFilter returns the filter of the single-dimension parameters: types comma-separated, other
// values repeated, labels as name=value. Code InvalidRequest.
func flatFilter(query url.Values, namespace string) (sluice.Filter, error) {
	f := sluice.Filter{Sources: query["sources"], Subjects: query["subjects"], CEL: query.Get("cel")}
	for _, types := range query["types"] {
		f.Types = append(f.Types, SplitTypes(types)...)
	}
	for _, text := range query["labels"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return f, sluice.Errorf(sluice.InvalidRequest, "labels %q: write name=value; repeat the parameter for each label", text).With("field", "labels")
		}
		if f.Labels == nil {
			f.Labels = map[string][]string{}
		}
		f.Labels[name] = append(f.Labels[name], value)
	}
	return aimed(f, query.Get("target"), namespace)
}

// aimed adds a target as in subscriptions: an entity is a subject, and a scope is the namespace.
func aimed(f sluice.Filter, target, namespace string) (sluice.Filter, error) {
	kind, name, _ := strings.Cut(target, ":")
	switch {
	case target == "" || kind == "scope" && name == namespace:
	case kind != "entity" || name == "":
		return f, sluice.Errorf(sluice.InvalidRequest, "target %.100q: write entity:<uri>, or scope:%s", target, namespace).With("field", "target")
	case len(f.Subjects) > 0:
		return f, sluice.Errorf(sluice.InvalidRequest, "target: an entity is matched as a subject; use subjects instead").With("field", "target")
	default:
		f.Subjects = []string{name}
	}
	return f, nil
}

// withNested adds the dimensions of a filter in JSON.
func withNested(f sluice.Filter, text string) (sluice.Filter, error) {
	nested, err := nestedFilter(text)
	if err != nil {
		return f, err
	}
	for _, d := range []struct {
		name string
		both bool
	}{
		{"types", len(f.Types) > 0 && len(nested.Types) > 0},
		{"sources", len(f.Sources) > 0 && len(nested.Sources) > 0},
		{"subjects", len(f.Subjects) > 0 && len(nested.Subjects) > 0},
		{"labels", len(f.Labels) > 0 && len(nested.Labels) > 0},
		{"cel", f.CEL != "" && nested.CEL != ""},
	} {
		if d.both {
			return f, sluice.Errorf(sluice.InvalidRequest, "filter: %s is set both in the filter and as a parameter; set it once", d.name).With("field", d.name)
		}
	}
	nested.Types = append(nested.Types, f.Types...)
	nested.Sources = append(nested.Sources, f.Sources...)
	nested.Subjects = append(nested.Subjects, f.Subjects...)
	nested.CEL += f.CEL
	if len(f.Labels) > 0 {
		nested.Labels = f.Labels
	}
	return nested, nil
}

// nestedFilter parses a filter as in a subscription.
func nestedFilter(text string) (f sluice.Filter, err error) {
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		return f, sluice.Errorf(sluice.InvalidRequest, `filter: write JSON such as {"types":["order.*"],"labels":{"region":["eu"]}}`).With("field", "filter")
	}
	if err = strictjson.Check([]byte(text)); err == nil {
		f, err = strictjson.DecodeFilter(json.RawMessage(text))
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return f, &sluice.Error{Code: e.Code, Message: "filter: " + e.Message, Details: e.Details}
	}
	return f, err
}

// SplitTypes returns the elements of a comma-separated list.
func SplitTypes(text string) []string {
	types := strings.Split(text, ",")
	for i := range types {
		types[i] = strings.TrimSpace(types[i])
	}
	return types
}
