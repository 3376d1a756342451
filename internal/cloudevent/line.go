package cloudevent

import (
	"encoding/json"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ParseLine returns the event of one JSON text: a CloudEvent or the short form. Unlike Parse, it
// keeps a namespace in the event. Codes InvalidRequest; Forbidden for reserved values.
func ParseLine(line []byte) (sluice.Event, error) {
	if err := strictjson.CheckEvents(line); err != nil {
		return sluice.Event{}, err
	}
	e, err := new(newIDs).parsePlain(line)
	if err != nil {
		return e, err
	}
	var named struct {
		Namespace string `json:"namespace"`
	}
	if err := json.Unmarshal(line, &named); err != nil {
		return e, sluice.Errorf(sluice.InvalidRequest, "namespace: write a string")
	}
	e.Namespace = named.Namespace
	return e, nil
}
