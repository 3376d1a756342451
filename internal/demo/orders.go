package demo

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// madeUp returns the life of some orders and the events of a warehouse beside it: n events on
// several paths, later ones of a path with the outcome of the earlier ones.
func madeUp(n int) []sluice.Event {
	const orders = 6
	stages := []string{"order.placed", "order.paid", "order.packed", "order.shipped", "order.delivered"}
	events := make([]sluice.Event, n)
	for i := range events {
		ev := sluice.Event{ID: fmt.Sprintf("evt-%04d", i+1), Source: "/demo/shop"}
		round, slot := i/(orders+1), i%(orders+1)
		if slot == orders {
			ev.Path, ev.Type = "/warehouse/stock", "stock.counted"
			ev.Data = encoded(map[string]any{"sku": "SKU-7", "count": 250 - 6*round})
		} else {
			number := 1000 + slot + orders*(round/len(stages))
			ev.Path = sluice.Path(fmt.Sprintf("/orders/%d", number))
			ev.Type = stages[round%len(stages)]
			ev.Data = encoded(map[string]any{"order": number, "total": 20 + 7.5*float64(slot), "currency": "EUR"})
		}
		events[i] = ev
	}
	return events
}

func encoded(value map[string]any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		return nil // cannot be: strings and numbers
	}
	return data
}
