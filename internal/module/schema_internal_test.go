package module

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// members returns the members that a type has in JSON, sorted.
func members(t reflect.Type) (names []string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The schema has the members that the parser has.
func TestSchema_HasEveryMember(t *testing.T) {
	t.Parallel()
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var is struct {
		object

		Defs map[string]object `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(Schema(), &is))
	var limits object
	require.NoError(t, json.Unmarshal(is.Defs["event"].Properties["limits"], &limits))
	for _, pair := range []struct {
		of object
		as any
	}{{is.object, encoded{}}, {is.Defs["event"], encodedEvent{}}, {is.Defs["filter"], encodedFilter{}}, {limits, Limits{}}} {
		require.Equal(t, members(reflect.TypeOf(pair.as)), slices.Sorted(maps.Keys(pair.of.Properties)))
	}
}
