package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestUnseen_NamesFieldsThatNoEventHas(t *testing.T) {
	t.Parallel()
	events := []sluice.Event{
		{Type: "a", Data: []byte(`{"total":1,"customer":{"name":"x"}}`), ContentType: "application/json"},
		{Type: "b", Data: []byte(`{"items":[{"sku":"1"}],"odd name":null}`), ContentType: "application/json"},
		{Type: "c", Data: []byte(`text`), ContentType: "text/plain"},
	}
	for cel, want := range map[string][]string{
		`event.data.total > 1`:                         nil,
		`event.data.totl > 1`:                          {"totl"},
		`has(event.data.total) && event.type == "a"`:   nil,
		`event.data.customer.nme == "x"`:               {"customer.nme"},
		`event.data["customer"]["name"] == "x"`:        nil,
		`event.data["odd name"] == null`:               nil,
		`event.data["customer"].age > 1`:               {"customer.age"},
		`event.data.items.exists(i, i.sku == "1")`:     nil,
		`event.data.items[0].sku == "1"`:               nil,
		`event.data.lines.exists(i, i.sku == "1")`:     {"lines"},
		`event.data.b > 1 || event.data.a > 1`:         {"a", "b"},
		`event.data[event.type] == 1`:                  nil, // known on an event only
		`event.tenant == "x"`:                          nil, // an attribute
		`event.data.total > 1 && event.data.total < 3`: nil,
	} {
		unseen, known, err := filter.Unseen(sluice.Filter{CEL: cel}, events)
		require.NoError(t, err, cel)
		require.Equal(t, want, orNil(unseen), cel)
		require.Equal(t, []string{"customer", "customer.name", "items", "odd name", "total"}, known)
	}
	unseen, _, err := filter.Unseen(sluice.Filter{CEL: "event.data.x > 1"}, nil)
	require.NoError(t, err)
	require.Empty(t, unseen, "without events nothing is known")
}

func orNil(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	return all
}
