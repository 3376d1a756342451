package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mask replaces secrets in the ledger.
const mask = "***"

// bookkeeping returns the fields that the server changes with every other field, or that are not
// settings of the resource.
func bookkeeping() []string { return []string{"revision", "updated_at", "last_event_at", "usage"} }

// object returns a value as a JSON object; nil for nil.
func object(v any) (map[string]any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // a missing resource has no fields
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("ledger: %T is not an object: %w", v, err)
	}
	for _, name := range bookkeeping() {
		delete(fields, name)
	}
	return fields, nil
}

// difference returns the fields in which two objects differ. Of nested objects it returns only the
// fields that differ, too.
func difference(was, is map[string]any) (old, now map[string]any) {
	old, now = map[string]any{}, map[string]any{}
	for name, before := range was {
		after, stays := is[name]
		switch {
		case !stays:
			old[name] = before
		case !reflect.DeepEqual(before, after):
			old[name], now[name] = narrowed(before, after)
		}
	}
	for name, after := range is {
		if _, had := was[name]; !had {
			now[name] = after
		}
	}
	return old, now
}

func narrowed(before, after any) (old, now any) {
	was, ok1 := before.(map[string]any)
	is, ok2 := after.(map[string]any)
	if !ok1 || !ok2 {
		return before, after
	}
	return difference(was, is)
}

// masked returns the fields as JSON without secrets and possible secrets. It masks fields with the
// names of secrets, the values of headers, and all of a URL but its host.
func masked(fields map[string]any) (json.RawMessage, error) {
	if fields == nil {
		return nil, nil
	}
	text, err := json.Marshal(hide("", fields))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return text, nil
}

func hide(name string, v any) any {
	if isSecret(name) {
		return mask
	}
	switch v := v.(type) {
	case map[string]any:
		hidden := make(map[string]any, len(v))
		for key, value := range v {
			if hidden[key] = hide(key, value); name == "headers" {
				hidden[key] = mask
			}
		}
		return hidden
	case []any:
		hidden := make([]any, len(v))
		for i, value := range v {
			hidden[i] = hide(name, value)
		}
		return hidden
	case string:
		if name == "url" {
			return sluice.HideURL(v)
		}
	}
	return v
}

func isSecret(name string) bool {
	return slices.Contains([]string{"secret", "secrets", "client_secret", "token", "password", "seed", "private_key"}, name)
}
