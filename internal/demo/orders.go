package demo

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	troubled sluice.Path = "/orders/1002" // the path for which the receiver returns 503
	stubborn sluice.Path = "/orders/13"   // its first attempts are refused in the playground
)

// lives returns three events in the life of each of four orders.
func lives() []sluice.Event {
	var events []sluice.Event
	for _, stage := range []string{"placed", "paid", "shipped"} {
		for n := range 4 {
			events = append(events, order(len(events)+1, 1000+n, "order."+stage))
		}
	}
	return events
}

// scans returns n events of ten orders, in rotation.
func scans(n int) []sluice.Event {
	first := len(lives()) + 1
	events := make([]sluice.Event, n)
	for i := range events {
		events[i] = order(first+i, 1000+i%10, "item.scanned")
	}
	return events
}

// order returns an event with an ID that follows from n: "evt-0003".
func order(n, number int, of string) sluice.Event {
	data, err := json.Marshal(map[string]any{"order": number, "total": 20 + 7.5*float64(number%10), "currency": "EUR"})
	if err != nil {
		data = nil // cannot happen: the data has only strings and numbers
	}
	return sluice.Event{
		ID: fmt.Sprintf("evt-%04d", n), Source: "/demo/shop", Type: of,
		Path: sluice.Path(fmt.Sprintf("/orders/%d", number)), Data: data,
	}
}
